"""A read of one row by its key, without the machinery of steps: most requests of a busy server are such reads.

It gives the very columns that the plan would give. Where that needs more than what is in memory, it gives nothing, and
the plan runs (`query_runner.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.execution_context import given_value
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.node_scan import key_operand
from omnigraph.query.plan import Plan
from omnigraph.query.plan.logical_plan import NodeScan
from omnigraph.query.typed import Constant, ParamRef, PropertyRef
from omnigraph.read_budget import ReadBudget
from omnigraph.schema.catalog import Catalog

#: At least the bytes of an array that shares nothing; summing up what it refers to takes much longer.
_buffer_bytes = pa.Array.get_total_buffer_size

#: The instant of a read that does not ask for it.
_NO_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PointRead:
    """A plan that looks up one node by its text key and returns properties of it.

    Attributes:
        key: what the key is to be.
        columns: properties in the order of the projections.
    """

    type_name: str
    key: ParamRef | Constant
    columns: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan, catalog: Catalog) -> PointRead | None:
        """The same read as a plan; None when the plan does more."""
        query = plan.query
        arranges = query.is_aggregated or query.distinct or query.order or query.rank is not None
        is_cut = query.limit is not None or query.offset is not None
        if plan.factorized is not None or arranges or is_cut or len(plan.steps) != 1:
            return None
        step = plan.steps[0]
        if not isinstance(step, NodeScan) or len(step.predicates) != 1:
            return None
        wanted = key_operand(catalog, step.variable, step.predicates[0])
        expressions = [column.expression for column in plan.columns]
        columns = [each.property for each in expressions if isinstance(each, PropertyRef)]
        if not isinstance(wanted, list) or len(wanted) != 1 or not columns or len(columns) != len(expressions):
            return None
        key = wanted[0]
        return cls(step.variable.type_name, key, tuple(columns)) if isinstance(key, ParamRef | Constant) else None

    def run(self, view: GraphView, params: Mapping[str, Any], budget: ReadBudget) -> list[pa.Array] | None:
        """The columns that the plan gives; None when there is no such row, or when something has to be read first."""
        wanted = given_value(self.key, params, _NO_INSTANT)
        rows = view.nodes(self.type_name)
        position = rows.known_position(wanted)
        if position is None or not all(map(rows.holds, self.columns)):
            return None
        budget.check()
        positions = np.array((position,), np.int64)
        columns = [rows.values(name, positions) for name in self.columns]
        if budget.max_bytes is not None and sum(map(_buffer_bytes, columns)) > budget.max_bytes:
            budget.hold(sum(column.nbytes for column in columns))
        return columns
