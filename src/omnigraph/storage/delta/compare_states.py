"""What changed between two states of one table: chooses the method and runs it.

Three methods give the same answer at different cost; the cheapest one that is exact runs. Files and deletions come
first (`fragment_diff.py`), because two fragment lists tell at once how many rows they leave open. A table that was
rewritten is asked for its row-version columns instead (D1), unless the interval holds a restore or a transaction of
unknown kind. Otherwise all rows are compared (D3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.storage.delta import fragment_diff
from omnigraph.storage.delta.changed_rows import (
    ID,
    Candidates,
    Method,
    RowChanges,
    RowSet,
    TableDelta,
    compare_candidates,
    no_rows,
    rows_of,
)
from omnigraph.storage.delta.fragment_diff import OpenedTable, plan, rows_by_row_id
from omnigraph.storage.delta.matched_columns import Matched, match, side_of
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS, store_errors
from omnigraph.storage.tables.datasets import Tables, transaction_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_equality import Mask
from omnigraph.storage.tables.row_lookup import ROW_ID, existing_rows
from omnigraph.storage.tables.version_steps import are_upkeep

#: Operations whose rows the version columns tell completely; the tests hold each against the full comparison.
_UNDERSTOOD = frozenset({"Append", "Update", "Delete", "Overwrite", "CreateIndex", "Rewrite"})

_CREATED, _UPDATED = "_row_created_at_version", "_row_last_updated_at_version"

#: What pylance calls an operation that it has no class for.
_UNNAMED = "BaseOperation"


def _versions_are_exact(tables: Tables, before: Pin, after: Pin) -> bool:
    """Whether the version delta is exact here, in whichever direction the two states lie."""
    old, new = (before, after) if before.version <= after.version else (after, before)
    if not _same_lineage(tables, old, new) or new.version - old.version > limits.DELTA_TRANSACTIONS:
        return False
    handle = tables.at(table_version_of(new))
    if not handle.has_stable_row_ids:
        return False
    return all(_is_understood(handle, version) for version in range(old.version + 1, new.version + 1))


def _version_candidates(before: LanceTable, after: LanceTable) -> Candidates:
    """Rows that the version columns name. Only where `_versions_are_exact` says so."""
    if before.version > after.version:
        return _version_candidates(after, before).reversed()
    with store_errors("compare two versions of a table", before, after):
        new, is_update = _touched(after, before.version)
        delta = after.delta(begin_version=before.version, end_version=after.version)
        deleted = [batch.column(ROW_ID).to_numpy() for batch in delta.get_deleted_row_ids()]
        replaced = np.concatenate([new.row_ids[is_update], *deleted]).astype(np.uint64)
        return Candidates(rows_by_row_id(before, np.unique(replaced)), new)


def _touched(handle: LanceTable, begin: int) -> tuple[RowSet, Mask]:
    """Rows that were written after a version, and which of them existed then.

    Lance's delta could give them too, but as complete rows; this reads ids and numbers only.
    """
    numbers = _few_recent(handle, begin, limits.FILTERED_ROWS)
    if numbers is None:
        table = pa.concat_tables(_recent_batches(handle, begin, [ID]))
    elif numbers.num_rows == 0:
        return no_rows(), np.zeros(0, np.bool_)
    else:  # the numbers of all rows are metadata; the ids of few rows are found by them
        found = existing_rows(handle, np.asarray(numbers.column(ROW_ID).to_numpy(), np.uint64), [ID])
        table = found.append_column(_CREATED, numbers.column(_CREATED))
    existed = pc.less_equal(table.column(_CREATED), begin).to_numpy()
    return rows_of(table), np.asarray(existed, np.bool_)


def _few_recent(handle: LanceTable, begin: int, most: int) -> pa.Table | None:
    """Numbers of the rows that were written after a version; None when there are more than so many."""
    found, count = [], 0
    for rows in _recent_batches(handle, begin, []):
        found.append(rows)
        count += rows.num_rows
        if count > most:
            return None
    return pa.concat_tables(found)


def _recent_batches(handle: LanceTable, begin: int, columns: list[str]) -> Iterator[pa.Table]:
    kinds = {ID: pa.string(), ROW_ID: pa.uint64(), _CREATED: pa.uint64()}
    schema = pa.schema([pa.field(name, kinds[name]) for name in (*columns, ROW_ID, _CREATED)])
    yield schema.empty_table()
    for batch in handle.scanner(columns=[*columns, _CREATED, _UPDATED], with_row_id=True).to_batches():
        recent = batch.filter(pc.greater(batch.column(_UPDATED), begin))
        yield pa.Table.from_batches([recent.select(schema.names).cast(schema)])


def _is_upkeep(tables: Tables, before: Pin, after: Pin) -> bool:
    """Whether nothing but upkeep lies between two states, in whichever direction."""
    old, new = (before, after) if before.version <= after.version else (after, before)
    return _same_lineage(tables, old, new) and are_upkeep(_handle(tables, new), above=old.version)


def _same_lineage(tables: Tables, old: Pin, new: Pin) -> bool:
    """One branch, or a branch and the very version that it was made from. What lies between commits that were published
    together has no place in a lineage."""
    if old.location != new.location or old.derived is not None or new.derived is not None:
        return False
    if old.branch == new.branch:
        return True
    ref = tables.ref(new.location, new.branch) if new.branch is not None else None
    return ref is not None and (ref.parent_branch, ref.parent_version) == (old.branch, old.version)


def _is_understood(handle: LanceTable, version: int) -> bool:
    try:
        transaction = transaction_of(handle, version)
        if transaction is None:
            return False
        name = type(transaction.operation).__name__
        return name in _UNDERSTOOD or (name == _UNNAMED and _moves_nothing(handle, version))
    except READ_EXCEPTIONS:
        return False


def _moves_nothing(handle: LanceTable, version: int) -> bool:
    """Whether a version shows the same rows in the same files as the one before, as when numbers are reserved."""
    older, newer = handle.checkout_version(version - 1), handle.checkout_version(version)
    found = plan(older, newer)
    return not (found.before_only or found.after_only or found.thinned) and older.schema == newer.schema


def table_delta(tables: Tables, before: Pin | None, after: Pin | None, *, method: Method | None = None) -> TableDelta:
    """Rows that differ between two states of a table; None stands for a state without the table.

    Args:
        method: insist on a method instead of the cheapest exact one; tests compare them.

    Raises:
        ChangeSchemaBoundary: both states have rows, of different properties.
        InputError: the method asked for is not exact here.
    """
    if (
        before is not None
        and after is not None
        and table_version_of(before) == table_version_of(after)
        and method is None
    ):
        return TableDelta(
            Method.FRAGMENTS, _nothing(), side_of(_handle(tables, before)), side_of(_handle(tables, after))
        )
    if before is None or after is None or before.row_count == 0 or after.row_count == 0:
        return _one_sided(tables, before, after)
    matched = match(after.table_key, _handle(tables, before), _handle(tables, after))
    chosen, found = _find(tables, before, after, matched, method)
    return TableDelta(chosen, compare_candidates(found, matched.before, matched.after), matched.before, matched.after)


def require_comparable(tables: Tables, before: Pin | None, after: Pin | None) -> None:
    """Open both states and make sure that `table_delta` will compare them; reads no rows.

    Raises:
        ChangeSchemaBoundary: both states have rows, of different properties.
        HistoricalVersionReclaimed: a state is no longer stored.
    """
    old = _handle(tables, before) if before else None
    new = _handle(tables, after) if after else None
    if old is not None and new is not None and before and after and before.row_count and after.row_count:
        match(after.table_key, old, new)


def _find(tables: Tables, before: Pin, after: Pin, matched: Matched, asked: Method | None) -> tuple[Method, Candidates]:
    old, new = matched.before.handle, matched.after.handle
    one_dataset = before.location == after.location and matched.same_columns
    if asked is Method.FULL or (asked is None and not one_dataset):
        return Method.FULL, _all(old, new)
    if not one_dataset:
        raise InputError(f"'{after.table_key}' cannot be compared by {asked}: the columns were made anew")
    if asked is Method.VERSIONS:
        if not _versions_are_exact(tables, before, after):
            raise InputError(f"'{after.table_key}' cannot be compared by versions here")
        return Method.VERSIONS, _version_candidates(old, new)
    plan = fragment_diff.plan(old, new)
    if asked is None and plan.before_only and _is_upkeep(tables, before, after):
        return Method.FRAGMENTS, Candidates(no_rows(), no_rows())
    is_cheap = plan.rewritten_rows <= limits.DELTA_REWRITTEN_ROWS
    if asked is None and not is_cheap and _versions_are_exact(tables, before, after):
        return Method.VERSIONS, _version_candidates(old, new)
    states = OpenedTable(tables, table_version_of(before), old), OpenedTable(tables, table_version_of(after), new)
    return Method.FRAGMENTS, fragment_diff.candidates(*states, matched, plan)


def _one_sided(tables: Tables, before: Pin | None, after: Pin | None) -> TableDelta:
    """One state has no rows: everything of the other one was inserted or deleted."""
    old = side_of(_handle(tables, before)) if before else None
    new = side_of(_handle(tables, after)) if after else None
    inserted = _every_row(new.handle).by_id() if new and after and after.row_count else no_rows()
    deleted = _every_row(old.handle).by_id() if old and before and before.row_count else no_rows()
    return TableDelta(Method.FULL, RowChanges(inserted, deleted, no_rows(), no_rows()), old, new)


def _nothing() -> RowChanges:
    return RowChanges(no_rows(), no_rows(), no_rows(), no_rows())


def _all(before: LanceTable, after: LanceTable) -> Candidates:
    return Candidates(_every_row(before), _every_row(after))


def _every_row(handle: LanceTable) -> RowSet:
    with store_errors("read a table", handle):
        return rows_of(handle.scanner(columns=[ID], with_row_id=True).to_table())


def _handle(tables: Tables, pin: Pin) -> LanceTable:
    return tables.at(table_version_of(pin))
