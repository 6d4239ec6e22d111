"""Values of expressions and truth of predicates over a binding table, in SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import ids
from omnigraph.engine.adjacency import Positions
from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.compare import compare
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.table_rows import TableRows
from omnigraph.errors import InputError
from omnigraph.query.plan.logical_plan import Step, TopK
from omnigraph.query.typed import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    Distance,
    Entity,
    IsIn,
    IsNull,
    NodeId,
    Not,
    Now,
    Operand,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    TextMatch,
    Variable,
)


def distances(column: pa.Array, query: Sequence[float] | str | None) -> npt.NDArray[np.float64]:
    """L2 distance of each vector; not-a-number where there is no vector."""
    if isinstance(query, str):
        raise InputError("nearest() with a text needs an embedding provider", hint="pass a vector")
    if query is None:
        return np.full(len(column), np.nan)
    size = column.type.list_size
    values = column.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    far = np.full(len(column), np.nan)
    given = np.asarray(np.asarray(query, np.float32), np.float64)
    far[known] = np.sqrt(((values.reshape(-1, size) - given) ** 2).sum(axis=1))
    return far


#: Fetches a property of a variable for the bindings at hand.
Fetch = Callable[[Variable, str], pa.Array]


@dataclass(slots=True)
class ExecutionTrace:
    """What each step did, for `explain(run=True)`: the step, the rows that it gave, the seconds that it took."""

    steps: list[tuple[Step | TopK, int, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """One run of one query: its snapshot, its parameters, its instant, and who wants to know what it did."""

    view: GraphView
    params: Mapping[str, Any]
    now: datetime
    trace: ExecutionTrace | None = None

    def rows(self, variable: Variable) -> TableRows:
        if variable.entity is Entity.NODE:
            return self.view.nodes(variable.type_name)
        return self.view.edges(variable.type_name)

    def value(self, operand: ParamRef | Constant | Now) -> Any:
        """A constant in the form that Arrow compares: instants are milliseconds, dates are dates."""
        match operand:
            case Now():
                return _plain(self.now)
            case ParamRef():
                return _plain(self.params[operand.name])
            case Constant():
                return _plain(operand.value)


def matching(
    context: ExecutionContext, predicates: tuple[Predicate, ...], bindings: BindingTable
) -> npt.NDArray[np.bool_]:
    """Which bindings satisfy all predicates."""

    def fetch(variable: Variable, name: str) -> pa.Array:
        return context.rows(variable).values(name, bindings.of(variable))

    def missing(variable: Variable) -> pa.Array:
        return pa.array(bindings.of(variable) < 0)

    return _mask(_Evaluation(context, fetch, missing, bindings.length), predicates)


def matching_rows(
    context: ExecutionContext, predicates: tuple[Predicate, ...], variable: Variable, positions: Positions | None
) -> npt.NDArray[np.bool_]:
    """Which rows of one variable's table satisfy predicates about it: all rows, or those at some positions."""
    rows = context.rows(variable)

    def fetch(_: Variable, name: str) -> pa.Array:
        return rows.column(name) if positions is None else rows.values(name, positions)

    length = len(rows) if positions is None else len(positions)
    mask = _mask(_Evaluation(context, fetch, lambda _: pa.array(np.zeros(length, np.bool_)), length), predicates)
    return mask & rows.alive if positions is None and rows.alive is not None else mask


def values(context: ExecutionContext, operand: Operand, bindings: BindingTable) -> pa.Array:
    """A column of values for the bindings."""

    def fetch(variable: Variable, name: str) -> pa.Array:
        return context.rows(variable).values(name, bindings.of(variable))

    return _Evaluation(context, fetch, lambda _: pa.nulls(0, pa.bool_()), bindings.length).column(operand)


def _mask(evaluation: _Evaluation, predicates: tuple[Predicate, ...]) -> npt.NDArray[np.bool_]:
    if not predicates:
        return np.ones(evaluation.length, np.bool_)
    mask = _true(evaluation.truth(predicates[0]), evaluation.length)
    for predicate in predicates[1:]:
        mask = mask & _true(evaluation.truth(predicate), evaluation.length)
    return mask


def _true(truth: Any, length: int) -> npt.NDArray[np.bool_]:
    if not isinstance(truth, pa.Array):
        return np.full(length, truth is True)
    known = truth.fill_null(False) if truth.null_count else truth
    return np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    context: ExecutionContext
    fetch: Fetch
    missing: Callable[[Variable], pa.Array]
    length: int

    def operand(self, operand: Operand) -> Any:
        """An array for properties and ids, a Python value for constants."""
        match operand:
            case PropertyRef():
                return _comparable(self.fetch(operand.variable, operand.property))
            case NodeId():
                return self.fetch(operand.variable, "id")
            case ParamRef() | Constant() | Now():
                return self.context.value(operand)
            case Distance():
                column = self.fetch(operand.field.variable, operand.field.property)
                far = distances(column, self.context.value(operand.query))
                return pa.array(far, mask=np.isnan(far))
        raise needs_search("bm25")

    def column(self, operand: Operand) -> pa.Array:
        if isinstance(operand, PropertyRef):
            return self.fetch(operand.variable, operand.property)
        found = self.operand(operand)
        return found if isinstance(found, pa.Array) else pa.array([found] * self.length)

    def truth(self, predicate: Predicate) -> Any:
        match predicate:
            case Compare():
                return self._compare(predicate)
            case IsIn():
                return self._is_in(predicate)
            case IsNull():
                if isinstance(predicate.operand, Variable):
                    return self.missing(predicate.operand)
                found = self.operand(predicate.operand)
                return pc.is_null(found) if isinstance(found, pa.Array) else found is None
            case Not():
                inner = self.truth(predicate.part)
                return pc.invert(inner) if isinstance(inner, pa.Array) else (None if inner is None else not inner)
            case AllOf():
                return self._fold(predicate.parts, pc.and_kleene)
            case AnyOf():
                return self._fold(predicate.parts, pc.or_kleene)
            case TextMatch():
                raise needs_search(predicate.function)

    def _fold(self, parts: tuple[Predicate, ...], kernel: Any) -> Any:
        found = [self._array(self.truth(part)) for part in parts]
        result = found[0]
        for other in found[1:]:
            result = kernel(result, other)
        return result

    def _array(self, truth: Any) -> pa.Array:
        return truth if isinstance(truth, pa.Array) else pa.array([truth] * self.length, pa.bool_())

    def _compare(self, predicate: Compare) -> Any:
        left, right = self.operand(predicate.left), self.operand(predicate.right)
        match predicate.operator:
            case Operator.LIST_CONTAINS:
                return _list_contains(left, right, self.length)
            case Operator.TEXT_CONTAINS | Operator.STARTS_WITH:
                return self._text(predicate.operator, left, right)
        return compare(predicate.operator, left, right)

    def _text(self, operator: Operator, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if isinstance(left, pa.Array) and isinstance(right, str):
            kernel = pc.match_substring if operator is Operator.TEXT_CONTAINS else pc.starts_with
            return kernel(left, pattern=right)
        if isinstance(left, str) and isinstance(right, str):
            return right in left if operator is Operator.TEXT_CONTAINS else left.startswith(right)
        # Arrow searches one pattern per call; a pattern per row is left to Python.
        texts = left.to_pylist() if isinstance(left, pa.Array) else [left] * self.length
        patterns = right.to_pylist() if isinstance(right, pa.Array) else [right] * self.length
        test = str.__contains__ if operator is Operator.TEXT_CONTAINS else str.startswith
        return pa.array(
            [None if t is None or p is None else test(t, p) for t, p in zip(texts, patterns, strict=True)], pa.bool_()
        )

    def _is_in(self, predicate: IsIn) -> Any:
        operand = self.operand(predicate.operand)
        if isinstance(predicate.choices, ParamRef):
            chosen = self.context.value(predicate.choices)
            if chosen is None:
                return None
            choices: list[Any] = list(chosen)
        else:
            choices = [self.operand(choice) for choice in predicate.choices]
        choices = [choice for choice in choices if choice is not None]
        if isinstance(operand, pa.Array) and pa.types.is_string(operand.type) and _all(choices, str):
            found = pc.is_in(operand, value_set=pa.array(choices, pa.string()))
            return found if operand.null_count == 0 else pc.if_else(pc.is_valid(operand), found, None)
        if operand is None:
            return None
        if not choices:
            return compare(Operator.NE, operand, operand) if isinstance(operand, pa.Array) else False
        tests = [self._array(compare(Operator.EQ, operand, choice)) for choice in choices]
        result = tests[0]
        for test in tests[1:]:
            result = pc.or_kleene(result, test)
        return result


def needs_search(function: str) -> InputError:
    return InputError(f"{function}() needs the search feature", hint="use contains or starts_with on the property")


def _all(values: list[Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _list_contains(lists: Any, wanted: Any, length: int) -> Any:
    """Membership; unknown where the list or the wanted value is null. Null elements never match."""
    if not isinstance(lists, pa.Array):
        if lists is None or wanted is None:
            return None
        elements = [element for element in lists if element is not None]
        if not isinstance(wanted, pa.Array):
            return any(compare(Operator.EQ, element, wanted) for element in elements)
        tests = [compare(Operator.EQ, wanted, element) for element in elements]
        result = compare(Operator.NE, wanted, wanted)
        for test in tests:
            result = pc.or_kleene(result, test)
        return result
    if wanted is None:
        return pa.nulls(length, pa.bool_())
    parents = pc.list_parent_indices(lists)
    flat = _comparable(pc.list_flatten(lists))
    value = wanted.take(parents) if isinstance(wanted, pa.Array) else wanted
    hits = _true(compare(Operator.EQ, flat, value), len(flat))
    found = np.zeros(length, np.bool_)
    found[parents.to_numpy(zero_copy_only=False)[hits]] = True
    known = pc.is_valid(lists)
    if isinstance(wanted, pa.Array):
        known = pc.and_(known, pc.is_valid(wanted))
    return pc.if_else(known, pa.array(found), None)


def _comparable(column: pa.Array) -> pa.Array:
    """Instants compare as milliseconds; Arrow would treat them as days."""
    return column.view(pa.int64()) if pa.types.is_date64(column.type) else column


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return ids.micros(value) // 1_000
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    return value
