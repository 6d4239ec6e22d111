"""Guesses about sizes, from row counts alone. They only choose between plans, never decide an answer."""

from __future__ import annotations

import math

from omnigraph.query.plan.logical_plan import Statistics
from omnigraph.query.typed import (
    AllOf,
    AnyOf,
    Compare,
    EdgeReading,
    IsIn,
    IsNull,
    NodeId,
    Not,
    Operator,
    Predicate,
    PropertyRef,
    TextMatch,
    Traversal,
    Variable,
)
from omnigraph.schema.catalog import Catalog

_EQUAL = 0.05
_RANGE = 0.3
_TEXT = 0.1
_FEW = 16

#: Further hops than the fewest, and powers of e, that change no choice between plans any more.
_COUNTED_HOPS, _MOST_GROWTH = 64, 700.0


class Estimator:
    """Row counts of one snapshot and the keys of one schema."""

    def __init__(self, statistics: Statistics, catalog: Catalog) -> None:
        self._statistics = statistics
        self._catalog = catalog

    def rows(self, variable: Variable) -> float:
        return float(self._statistics.count(f"{variable.entity.value}:{variable.type_name}"))

    def candidates(self, variable: Variable, predicates: tuple[Predicate, ...]) -> float:
        """Rows of a variable that pass its predicates."""
        rows = self.rows(variable)
        if any(self.is_key_test(variable, predicate) for predicate in predicates):
            return min(rows, 1.0)
        for predicate in predicates:
            rows *= self.selectivity(predicate, rows)
        return max(rows, 0.01)

    def fanout(self, traversal: Traversal, origin: Variable) -> float:
        """Neighbours per node, by hop count."""
        edges = float(self._statistics.count(f"edge:{traversal.edge_type}"))
        single = edges / max(self.rows(origin), 1.0)
        if traversal.reading is EdgeReading.UNDIRECTED:
            single *= 2
        first, last = traversal.min_hops, min(traversal.max_hops, traversal.min_hops + _COUNTED_HOPS)
        growth = math.log(max(single, 0.01))
        return sum(math.exp(min(hop * growth, _MOST_GROWTH)) for hop in range(first, last + 1))

    def is_key_test(self, variable: Variable, predicate: Predicate) -> bool:
        """Whether a predicate asks for one value of the node's only key property."""
        return (
            isinstance(predicate, Compare)
            and predicate.operator is Operator.EQ
            and any(self.is_key(variable, side) for side in (predicate.left, predicate.right))
        )

    def is_key(self, variable: Variable, operand: object) -> bool:
        if isinstance(operand, NodeId):
            return operand.variable == variable
        node = self._catalog.nodes.get(variable.type_name)
        return (
            isinstance(operand, PropertyRef)
            and operand.variable == variable
            and node is not None
            and (operand.property == "id" or node.key == (operand.property,))
        )

    def selectivity(self, predicate: Predicate, rows: float) -> float:
        match predicate:
            case Compare():
                return _EQUAL if predicate.operator in (Operator.EQ, Operator.LIST_CONTAINS) else _RANGE
            case IsIn():
                count = len(predicate.choices) if isinstance(predicate.choices, tuple) else _FEW
                return min(1.0, max(_EQUAL * count, count / max(rows, 1.0)) if count < rows else 1.0)
            case IsNull():
                return 0.2
            case TextMatch():
                return _TEXT
            case Not():
                return 1.0 - min(self.selectivity(predicate.part, rows), 0.95)
            case AllOf():
                share = 1.0
                for part in predicate.parts:
                    share *= self.selectivity(part, rows)
                return share
            case AnyOf():
                return min(1.0, sum(self.selectivity(part, rows) for part in predicate.parts))
