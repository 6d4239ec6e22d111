"""Stages a change of one table: files are written, nothing is visible, no version moves.

A change is rows to put (new, or replacing the row with the same id) and ids to remove. It becomes one Lance
transaction, whatever it mixes. Replaced rows keep their stable row id, so versions and indexes stay meaningful.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments

from omnigraph import limits
from omnigraph.storage.objects.error_mapping import store_errors
from omnigraph.storage.tables import digests, fragment_pruning
from omnigraph.storage.tables.blob_columns import has_blobs, physical_rows
from omnigraph.storage.tables.datasets import DATA_STORAGE_VERSION
from omnigraph.storage.tables.fragment_pruning import ID
from omnigraph.storage.tables.lance_types import LanceTable, as_dataset
from omnigraph.storage.tables.recent_changes import PendingChange, pending_change
from omnigraph.storage.tables.row_lookup import RowLocations

#: Fragments with at most this many rows are folded whatever their neighbours' sizes: rewriting them costs next to
#: nothing, and one-row writes between larger ones would otherwise keep a table from ever being folded.
_FOLD_ALWAYS_ROWS = 512


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """A table change that is ready to be committed.

    Attributes:
        operation: what Lance commits.
        read_version: version it was computed against.
        rows_after: row count of the table afterwards.
        uuid: names the transaction; recovery finds it in the table's history by this.
        digests: of the values in each new data file, by the name of the file.
        pending: the rows it puts and removes, if they are few; for readers in this process, not part of the record.
    """

    operation: Any
    read_version: int
    rows_after: int
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    digests: Mapping[str, str] = field(default_factory=dict)
    pending: PendingChange | None = field(default=None, compare=False, repr=False)


def stage_change(
    handle: LanceTable, rows_before: int, put: pa.Table, existing: RowLocations, remove: RowLocations
) -> StagedTransaction | None:
    """Stage rows to put and rows to remove as one transaction; None when there is nothing to do.

    Args:
        put: complete rows in the table's schema, each id once.
        existing: those of ``put`` that replace a row.
        remove: rows that go; disjoint from ``existing``.
    """
    gone = np.concatenate([existing.addresses, remove.addresses])
    if put.num_rows == 0 and len(gone) == 0:
        return None
    rows_after = rows_before + put.num_rows - len(gone)
    with store_errors("stage a table change", handle):
        updates, inserts = _split(put, existing)
        folded = _fold_small(handle, gone)
        files = _Files(handle)
        if len(gone) == 0 and folded is None:
            operation: Any = lance.LanceOperation.Append(files.write(inserts))
        else:
            operation = _update(files, updates, inserts, gone, folded)
        pending = pending_change(handle.schema, updates[0], inserts, updates[1], remove.row_ids)
        return StagedTransaction(operation, handle.version, rows_after, digests=files.digests, pending=pending)


def stage_overwrite(handle: LanceTable, rows: pa.Table) -> StagedTransaction:
    """Stage the replacement of all rows; zero rows empty the table."""
    with store_errors("stage an overwrite"):
        files = _Files(handle)
        fragments = files.write(rows) if rows.num_rows else []
        operation = lance.LanceOperation.Overwrite(handle.schema, fragments)
        return StagedTransaction(operation, handle.version, rows.num_rows, digests=files.digests)


def _split(put: pa.Table, existing: RowLocations) -> tuple[tuple[pa.Table, np.ndarray[Any, Any]], pa.Table]:
    """Rows that replace one, with the row ids they keep, and rows that are new."""
    if len(existing.ids) == 0:
        return (put.slice(0, 0), existing.row_ids), put
    positions = pc.index_in(put.column(ID), value_set=existing.ids)
    replaces = pc.is_valid(positions)
    updates = put.filter(replaces)
    kept = existing.row_ids[positions.drop_null().to_numpy()]
    return (updates, kept), put.filter(pc.invert(replaces))


@dataclass(frozen=True, slots=True)
class _Folded:
    """Small fragments that this write replaces by one, as their live rows."""

    fragment_ids: frozenset[int]
    rows: pa.Table
    row_ids: np.ndarray[Any, Any]


def _fold_small(handle: LanceTable, gone: np.ndarray[Any, Any]) -> _Folded | None:
    """Rows of the small fragments at the table's end, once there are too many of them.

    Taking the next older fragment only while it is not much larger than what was gathered keeps the work per written
    row logarithmic. Tables with blob columns are left alone: their bytes would have to be copied.
    """
    fragments = handle.get_fragments()
    if len(fragments) <= limits.SMALL_FRAGMENTS or has_blobs(handle.schema):
        return None
    chosen: list[Any] = []
    gathered = 0
    for fragment in sorted(fragments, key=lambda fragment: -fragment.fragment_id):
        size = fragment.metadata.physical_rows
        much_larger = size > max(limits.FOLD_RATIO * gathered, _FOLD_ALWAYS_ROWS)
        if size > limits.SMALL_FRAGMENT_ROWS or (chosen and much_larger):
            break
        chosen.append(fragment)
        gathered += size
    if len(chosen) < limits.SMALL_FRAGMENTS:
        return None
    rows = handle.scanner(fragments=chosen, with_row_id=True, with_row_address=True).to_table()
    keep = pc.invert(pc.is_in(rows.column("_rowaddr"), value_set=pa.array(gone, pa.uint64())))
    rows = rows.filter(keep)
    return _Folded(
        frozenset(fragment.fragment_id for fragment in chosen),
        rows.select(handle.schema.names),
        rows.column("_rowid").to_numpy(),
    )


def _update(
    files: _Files,
    updates: tuple[pa.Table, np.ndarray[Any, Any]],
    inserts: pa.Table,
    gone: np.ndarray[Any, Any],
    folded: _Folded | None,
) -> Any:
    handle = files.handle
    new: list[FragmentMetadata] = []
    replaced, kept_ids = updates
    if folded is not None and folded.rows.num_rows:
        replaced = pa.concat_tables([folded.rows.cast(handle.schema), replaced.cast(handle.schema)])
        kept_ids = np.concatenate([folded.row_ids, kept_ids])
    if replaced.num_rows:
        new += _with_row_ids(files.write(replaced), kept_ids)
    if inserts.num_rows:
        new += files.write(inserts)
    removed = set(folded.fragment_ids) if folded else set()
    changed = []
    fragment_of = gone >> np.uint64(32)
    for fragment_id in np.unique(fragment_of).tolist():
        if fragment_id in removed:
            continue
        offsets = (gone[fragment_of == fragment_id] & np.uint64(0xFFFFFFFF)).tolist()
        left = handle.get_fragment(fragment_id).delete_rows(offsets)
        if left is None:
            removed.add(fragment_id)
        else:
            changed.append(left)
    return lance.LanceOperation.Update(
        removed_fragment_ids=sorted(removed), updated_fragments=changed, new_fragments=new
    )


def _with_row_ids(fragments: list[FragmentMetadata], row_ids: np.ndarray[Any, Any]) -> list[FragmentMetadata]:
    start = 0
    for fragment in fragments:
        part = row_ids[start : start + fragment.physical_rows]
        fragment.row_id_meta = RowIdSequence(part.tolist()).to_inline_metadata()
        start += fragment.physical_rows
    return fragments


class _Files:
    """Writes the new data files of one transaction and keeps the digests of their values."""

    def __init__(self, handle: LanceTable) -> None:
        self.handle = handle
        self.digests: dict[str, str] = {}

    def write(self, rows: pa.Table) -> list[FragmentMetadata]:
        schema = self.handle.schema
        fragments = write_fragments(
            physical_rows(rows, schema),
            as_dataset(self.handle),
            schema=schema,
            mode="append",
            max_rows_per_file=limits.FRAGMENT_ROWS,
            data_storage_version=DATA_STORAGE_VERSION,
        )
        self.digests |= digests.of_files(fragments, rows)
        fragment_pruning.note(fragments, rows)
        return fragments
