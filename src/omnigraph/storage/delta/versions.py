"""Candidates from Lance's own version delta (D1): rows made, rewritten or removed between two versions of a lineage.

It reads row-version columns instead of files, so a table that was compacted in between costs nothing. It misses what a
restore brought back and what a transaction did that it does not know; such an interval is refused, not guessed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.storage.delta.candidates import ID, Candidates, Rows, rows_of
from omnigraph.storage.delta.fragments import plan, rows_by_row_id
from omnigraph.storage.faults import READ_EXCEPTIONS, store_errors
from omnigraph.storage.images import ROW_ID
from omnigraph.storage.manifest import Pin
from omnigraph.storage.same_rows import Mask
from omnigraph.storage.tables import Handle, Tables

#: Operations whose rows the version columns tell completely; the tests hold each against the full comparison.
_UNDERSTOOD = frozenset({"Append", "Update", "Delete", "Overwrite", "CreateIndex", "Rewrite"})

_CREATED, _UPDATED = "_row_created_at_version", "_row_last_updated_at_version"

#: What pylance calls an operation that it has no class for.
_UNNAMED = "BaseOperation"


def applies(tables: Tables, before: Pin, after: Pin) -> bool:
    """Whether the version delta is exact here, in whichever direction the two states lie."""
    old, new = (before, after) if before.version <= after.version else (after, before)
    if not _same_lineage(tables, old, new) or new.version - old.version > limits.DELTA_TRANSACTIONS:
        return False
    handle = tables.at(new.location, new.branch, new.version, new.origin)
    if not handle.has_stable_row_ids:
        return False
    return all(_is_understood(handle, version) for version in range(old.version + 1, new.version + 1))


def candidates(before: Handle, after: Handle) -> Candidates:
    """Rows that the version columns name. Only where `applies` says so."""
    if before.version > after.version:
        return candidates(after, before).reversed()
    with store_errors("compare two versions of a table", before, after):
        new, is_update = _touched(after, before.version)
        delta = after.delta(begin_version=before.version, end_version=after.version)
        deleted = [batch.column(ROW_ID).to_numpy() for batch in delta.get_deleted_row_ids()]
        replaced = np.concatenate([new.row_ids[is_update], *deleted]).astype(np.uint64)
        return Candidates(rows_by_row_id(before, np.unique(replaced)), new)


def _touched(handle: Handle, begin: int) -> tuple[Rows, Mask]:
    """Rows that were written after a version, and which of them existed then.

    Lance's delta could give them too, but as complete rows; this reads ids and numbers only.
    """
    schema = pa.schema([pa.field(ID, pa.string()), *(pa.field(name, pa.uint64()) for name in (ROW_ID, _CREATED))])
    found = []
    for batch in handle.scanner(columns=[ID, _CREATED, _UPDATED], with_row_id=True).to_batches():
        recent = pc.greater(batch.column(_UPDATED), begin)
        found.append(batch.filter(recent).select(schema.names).cast(schema))
    table = pa.Table.from_batches(found, schema)
    existed = pc.less_equal(table.column(_CREATED), begin).to_numpy()
    return rows_of(table), np.asarray(existed, np.bool_)


def _same_lineage(tables: Tables, old: Pin, new: Pin) -> bool:
    """One branch, or a branch and the very version that it was made from."""
    if old.location != new.location:
        return False
    if old.branch == new.branch:
        return True
    ref = tables.ref(new.location, new.branch) if new.branch is not None else None
    return ref is not None and (ref.parent_branch, ref.parent_version) == (old.branch, old.version)


def _is_understood(handle: Handle, version: int) -> bool:
    try:
        transaction = handle.read_transaction(version)
        if transaction is None:
            return False
        name = type(transaction.operation).__name__
        return name in _UNDERSTOOD or (name == _UNNAMED and _moves_nothing(handle, version))
    except READ_EXCEPTIONS:
        return False


def _moves_nothing(handle: Handle, version: int) -> bool:
    """Whether a version shows the same rows in the same files as the one before, as when numbers are reserved."""
    older, newer = handle.checkout_version(version - 1), handle.checkout_version(version)
    found = plan(older, newer)
    return not (found.before_only or found.after_only or found.thinned) and older.schema == newer.schema
