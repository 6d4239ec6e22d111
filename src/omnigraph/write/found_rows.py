"""The rows that an update or a delete means, when its `where` is more than one comparison or a pattern finds them.

Conditions and patterns are those of reads, and the engine decides them here too. What the storage can look up by an
index or test while it reads, it does first; every row that it gives is tested again. The answer is ids: which rows they
are is the same for stored rows and for those that a mutation has pending.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from omnigraph.engine.evaluate import passing_rows
from omnigraph.engine.execution_context import given_value
from omnigraph.engine.pending_view import PendingView, UnwrittenRows
from omnigraph.engine.query_runner import plan_query, run_plan
from omnigraph.query.typed import (
    Compare,
    Constant,
    ConstantValue,
    IsIn,
    KeyId,
    Now,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    RowCondition,
    RowTest,
    TypedQuery,
)
from omnigraph.query.typed.walk import columns_in_predicate, conjuncts
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Scalar
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.tables.filters import ColumnFilter, one_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import narrowed_rows
from omnigraph.write.stored_values import MutationValues, by_id

_COMPARISONS = frozenset({Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE})


def ids_of_pattern(
    workspace: Workspace,
    catalog: Catalog,
    pending: Mapping[str, tuple[pa.Table, pa.Array]],
    read: TypedQuery,
    values: MutationValues,
) -> pa.Array:
    """What a read of ids gives on a state under pending rows and removed ids, by table key; each id once."""
    view = PendingView(workspace, catalog, {key: UnwrittenRows(*each) for key, each in pending.items()}, values.budget)
    found = run_plan(view, plan_query(view, catalog, read), values.params, now=values.now, budget=values.budget)
    return found.column(0).combine_chunks().drop_null()  # an optional part may have found nothing


def ids_that_pass(
    handle: LanceTable, type_: NodeType | EdgeType, condition: RowCondition, values: MutationValues
) -> pa.Array:
    """Ids of the stored rows that satisfy a condition."""
    filters = _filters(condition.predicate, type_, values)
    if filters is None:
        return pa.array([], pa.string())
    columns = ["id", *(columns_in_predicate(condition.predicate) - {"id"})]
    chunks = []
    for batch in narrowed_rows(handle, columns, filters):
        values.budget.check()
        passing = passing_rows(batch, condition.predicate, values.params, values.now)
        chunks.append(batch.column("id").filter(pa.array(passing)))
    return pa.chunked_array(chunks, pa.string()).combine_chunks()


def rows_that_pass(rows: pa.Table, condition: RowCondition, values: MutationValues) -> pa.Table:
    """Those of some rows that satisfy a condition."""
    return rows.filter(pa.array(passing_rows(rows, condition.predicate, values.params, values.now)))


def _filters(predicate: Predicate, type_: NodeType | EdgeType, values: MutationValues) -> list[ColumnFilter] | None:
    """Filters that every row which satisfies the predicate passes; None when no row can."""
    found = []
    for part in conjuncts(predicate):
        match part:
            case Compare(
                operator=operator,
                left=PropertyRef() as column,
                right=(ParamRef() | Constant() | Now() | KeyId()) as value,
            ) if operator in _COMPARISONS:
                filter_ = values.filter(RowTest(column.property, operator, value, column.type))
            case IsIn(operand=PropertyRef() as column) if column.type.scalar is Scalar.STRING or _is_key(column, type_):
                filter_ = _one_of(column, part, type_, values)
            case _:
                continue
        if filter_ is None:
            return None
        found.append(by_id(type_, filter_))
    return found


def _is_key(column: PropertyRef, type_: NodeType | EdgeType) -> bool:
    """Whether ids are the texts of a column of whole numbers."""
    return column.type.scalar.is_integer and _key_of(type_) == (column.property,)


def _key_of(type_: NodeType | EdgeType) -> tuple[str, ...] | None:
    return type_.key if isinstance(type_, NodeType) else None


def _one_of(column: PropertyRef, test: IsIn, type_: NodeType | EdgeType, values: MutationValues) -> ColumnFilter | None:
    if isinstance(test.choices, tuple):
        choices = [given_value(each, values.params, values.now) for each in test.choices]  # type: ignore[arg-type]
    else:
        choices = list(given_value(test.choices, values.params, values.now) or ())
    texts = [text for text in map(_text, choices) if text is not None]
    name = "id" if _key_of(type_) == (column.property,) else column.property
    return one_of(name, pa.array(texts, pa.string())) if texts else None


def _text(value: ConstantValue) -> str | None:
    """A text, or a whole number as the text that ids are made of; None for what can be neither."""
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return None if value is None else str(value)
