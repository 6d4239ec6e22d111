"""From bindings to rows: the columns of a result, fetched for the rows that are returned.

Results that are ordered, ranked, distinct or aggregated are made by `arranged_result.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import values
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.position_deltas import Positions
from omnigraph.query.plan.logical_plan import Plan
from omnigraph.query.typed import ParamRef, PropertyRef
from omnigraph.read_budget import PIECE_ROWS
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropertyType


def finish(context: ExecutionContext, plan: Plan, bindings: BindingTable) -> pa.Table:
    """The rows of a plan whose pipeline has run."""
    query = plan.query
    if plan.rank is not None or query.is_aggregated or query.distinct or query.order:
        from omnigraph.engine.arranged_result import finish_arranged  # sorts and groups, which most reads do not

        return finish_arranged(context, plan, bindings)
    is_cut = query.limit is not None or query.offset is not None
    chosen = bindings.take(page(context, plan, np.arange(bindings.length))) if is_cut else bindings
    return projected(context, plan, chosen)


def projected(context: ExecutionContext, plan: Plan, bindings: BindingTable) -> pa.Table:
    """One row per binding."""
    budget = context.budget
    if budget.max_rows is not None:
        budget.require_rows(bindings.length)
    if budget.max_bytes is None and bindings.length <= PIECE_ROWS:
        return table_of([column_of(context, plan, i, bindings) for i in range(len(plan.columns))], bindings.length)
    columns, held = [], 0
    for number in range(len(plan.columns)):
        columns.append(column_of(context, plan, number, bindings))
        held += columns[-1].nbytes
        budget.hold(held)
    return table_of(columns, bindings.length)


def table_of(columns: list[pa.Array], length: int = 0) -> pa.Table:
    names = [str(number) for number in range(len(columns))]
    return pa.table(columns, names=names) if columns else pa.table({"": pa.nulls(length)})


def column_of(context: ExecutionContext, plan: Plan, number: int, bindings: BindingTable) -> pa.Array:
    column = plan.columns[number]
    expression = column.expression
    if isinstance(expression, PropertyRef):
        return context.fetch(expression.variable, expression.property, bindings.of(expression.variable))
    return typed(values(context, expression, bindings), column.type)  # type: ignore[arg-type]


def typed(column: pa.Array, type_: PropertyType) -> pa.Array:
    """A column in the Arrow type of its declared type; constants arrive in whatever type Arrow guessed."""
    target = arrow_type(type_)
    if column.type == target:
        return column
    if pa.types.is_date64(target) and pa.types.is_int64(column.type):
        return column.view(target)
    return column.cast(target)


def page(context: ExecutionContext, plan: Plan, rows: Positions) -> Positions:
    """Rows that are in order already, from the offset up to the limit."""
    skipped = number_of(context, plan.query.offset) or 0
    limit = number_of(context, plan.query.limit)
    return rows[skipped : None if limit is None else skipped + limit]


def number_of(context: ExecutionContext, value: int | ParamRef | None) -> int | None:
    return int(context.value(value)) if isinstance(value, ParamRef) else value
