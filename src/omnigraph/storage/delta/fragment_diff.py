"""Candidate rows from the files of two states (D2).

Fragments whose data files and deletions are the same on both sides hold the same rows, on whatever branch they are.
Where only the deletions differ, the deletion file and the row ids in the fragment's metadata name the rows, and nothing
else is read; metadata of an unusual form makes the fragment be scanned for its addresses instead. Fragments that one
side has alone are candidates as a whole.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import limits
from omnigraph.storage.delta.changed_rows import ID, Candidates, RowSet, no_rows, rows_of
from omnigraph.storage.delta.matched_columns import Matched, TableSide
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS, store_errors
from omnigraph.storage.tables.datasets import Tables, TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import RowIds, existing_rows, row_ids_in_metadata, rows_at_addresses

Offsets = npt.NDArray[np.int64]

_NONE = np.array([], np.uint64)
_OFFSET = np.uint64(0xFFFFFFFF)
_FRAGMENT = np.uint64(32)  # bits of an address below the number of its fragment


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """One state of a table and what opens its files."""

    tables: Tables
    version: TableVersion
    handle: LanceTable


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Rows that only one of two states shows: some places of fragments that both have."""

    parts: tuple[tuple[_Fragment, Offsets], ...]

    def __len__(self) -> int:
        return sum(len(offsets) for _, offsets in self.parts)

    @property
    def addresses(self) -> RowIds:
        """Free: an address says just this, the fragment and the place in it."""
        return np.concatenate([_NONE, *(_addresses(part.number, offsets) for part, offsets in self.parts)])

    @property
    def row_ids(self) -> RowIds:
        """Costs as much as the fragments are large."""
        return np.concatenate([_NONE, *(part.row_ids(offsets) for part, offsets in self.parts)])


def addresses_in(fragment: int, rows: int) -> RowIds:
    """Addresses of all places of a fragment, deleted ones included."""
    return _addresses(fragment, np.arange(rows))


def _addresses(fragment: int, offsets: Offsets) -> RowIds:
    return offsets.astype(np.uint64) + (np.uint64(fragment) << _FRAGMENT)


def moved_rows(before: OpenedTable, after: OpenedTable, fragments: tuple[int, ...]) -> tuple[RowIds, RowIds]:
    """Row ids of the rows that are live only before, and only after, in fragments with the same data files."""
    lost, regained = moved_places(before, after, fragments)
    return lost.row_ids, regained.row_ids


def moved_places(before: OpenedTable, after: OpenedTable, fragments: tuple[int, ...]) -> tuple[MovedRows, MovedRows]:
    """The same rows by where they lie."""

    def compare(number: int) -> tuple[tuple[_Fragment, Offsets], tuple[_Fragment, Offsets]]:
        old, new = _Fragment(before, number), _Fragment(after, number)
        gone_before, gone_after = old.deleted(), new.deleted()
        lost = np.setdiff1d(gone_after, gone_before, assume_unique=True)
        return (old, lost), (new, np.setdiff1d(gone_before, gone_after, assume_unique=True))

    if before.tables.is_local or len(fragments) <= 1:
        pairs = [compare(number) for number in fragments]  # a local file is read before a thread has started
    else:
        with ThreadPoolExecutor(min(limits.TABLE_THREADS, len(fragments))) as threads:
            pairs = list(threads.map(compare, fragments))
    return MovedRows(tuple(old for old, _ in pairs)), MovedRows(tuple(new for _, new in pairs))


class _Fragment:
    """One fragment in one state."""

    def __init__(self, state: OpenedTable, number: int) -> None:
        self._state = state
        self.number = number
        self._fragment = state.handle.get_fragment(number)
        self._meta = self._fragment.metadata
        self._scanned: tuple[Offsets, RowIds] | None = None

    def deleted(self) -> Offsets:
        """Places that hold no row any more."""
        file = self._meta.deletion_file
        if file is None:
            return np.array([], np.int64)
        listed = self._listed(file.path(self._fragment.fragment_id)) if file.file_type == "array" else None
        if listed is not None and len(listed) == file.num_deleted_rows:
            return listed
        return np.setdiff1d(np.arange(self._meta.physical_rows), self._live()[0], assume_unique=True)

    def row_ids(self, offsets: Offsets) -> RowIds:
        """Row ids at places that hold a row."""
        if len(offsets) == 0:
            return _NONE
        known = row_ids_in_metadata(self._meta)
        if known is not None:
            return known[offsets]
        live, row_ids = self._live()
        return row_ids[np.searchsorted(live, offsets)]

    def _listed(self, path: str) -> Offsets | None:
        """A deletion file lies with the branch that wrote it: this one, or most often the table's main lineage."""
        table = self._state.version
        content = self._state.tables.read_file(table.location, table.branch, path)
        if content is None and table.branch is not None:
            content = self._state.tables.read_file(table.location, None, path)
        if content is None:
            return None
        try:
            column = pa.ipc.open_file(io.BytesIO(content)).read_all().column(0)
            return np.unique(column.to_numpy().astype(np.int64))
        except READ_EXCEPTIONS:
            return None

    def _live(self) -> tuple[Offsets, RowIds]:
        if self._scanned is None:
            scanner = self._state.handle.scanner(
                columns=[], fragments=[self._fragment], with_row_id=True, with_row_address=True, scan_in_order=True
            )
            places = scanner.to_table()
            addresses = np.asarray(places.column("_rowaddr").to_numpy(), np.uint64)
            row_ids = np.asarray(places.column("_rowid").to_numpy(), np.uint64)
            self._scanned = (addresses & _OFFSET).astype(np.int64), row_ids
        return self._scanned


@dataclass(frozen=True, slots=True)
class FragmentPlan:
    """What the metadata of two states says, before any row is read.

    Attributes:
        before_only, after_only: fragments that the other side does not have.
        thinned: fragments with the same files and other deletions.
        rewritten_rows: rows of the fragments that one side has alone.
    """

    before_only: tuple[int, ...]
    after_only: tuple[int, ...]
    thinned: tuple[int, ...]
    rewritten_rows: int


def plan(before: LanceTable, after: LanceTable) -> FragmentPlan:
    """Compare the fragment lists of two states of one dataset."""
    with store_errors("compare two versions of a table", before, after):
        old, new = _shapes(before), _shapes(after)
    before_only = [number for number, shape in old.items() if number not in new or new[number].files != shape.files]
    after_only = [number for number, shape in new.items() if number not in old or old[number].files != shape.files]
    alone = set(before_only)
    thinned = [
        number for number, shape in old.items() if number not in alone and new[number].deletions != shape.deletions
    ]
    rows = sum(old[number].rows for number in before_only) + sum(new[number].rows for number in after_only)
    return FragmentPlan(tuple(before_only), tuple(after_only), tuple(thinned), rows)


def candidates(before: OpenedTable, after: OpenedTable, matched: Matched, plan_: FragmentPlan) -> Candidates:
    """Every row that the plan cannot rule out. The two sides are read at the same time."""
    handles = before.handle, after.handle
    with store_errors("compare two versions of a table", *handles), ThreadPoolExecutor(1) as beside:
        lost, regained = moved_places(before, after, plan_.thinned)
        old = beside.submit(_found, matched.before, plan_.before_only, lost)
        new = _found(matched.after, plan_.after_only, regained)
        return Candidates(old.result(), new)


def _found(side: TableSide, fragments: tuple[int, ...], moved: MovedRows) -> RowSet:
    """Rows of whole fragments and rows at some places. Few of them are read completely and kept: what they hold is
    asked for next, and most of the way to a row is finding it."""
    whole = [side.handle.get_fragment(number) for number in fragments]
    count = sum(fragment.metadata.physical_rows for fragment in whole) + len(moved)
    if count == 0:
        return no_rows()
    if side.would_keep(count, _row_bytes(side.handle)):
        table = _complete(side, whole, moved)
        side.keep(table)
        return rows_of(table)
    parts = [existing_rows(side.handle, moved.row_ids, [ID])] if len(moved) else []
    if whole:
        parts.append(side.handle.scanner(columns=[ID], fragments=whole, with_row_id=True).to_table())
    return rows_of(pa.concat_tables(parts))


def _complete(side: TableSide, whole: list[Any], moved: MovedRows) -> pa.Table:
    """All columns of few rows, row ids and addresses in one read."""
    columns = list(side.columns)
    if not len(moved):
        scanner = side.handle.scanner(columns=columns, fragments=whole, with_row_id=True, with_row_address=True)
        return scanner.to_table()
    every = [addresses_in(fragment.fragment_id, fragment.metadata.physical_rows) for fragment in whole]
    return rows_at_addresses(side.handle, np.concatenate([moved.addresses, *every]), columns)


def _row_bytes(handle: LanceTable) -> float:
    """What a row takes on the disk, on average."""
    pieces = [fragment.metadata for fragment in handle.get_fragments()]
    size = sum(file.file_size_bytes or 0 for piece in pieces for file in piece.files)
    return float(size / max(1, sum(piece.physical_rows for piece in pieces)))


def rows_by_row_id(handle: LanceTable, row_ids: RowIds) -> RowSet:
    """Those of the row ids that exist, with their ids."""
    if len(row_ids) == 0:
        return no_rows()
    return rows_of(existing_rows(handle, row_ids, [ID]))


@dataclass(frozen=True, slots=True)
class _Shape:
    files: tuple[str, ...]
    deletions: tuple[Any, ...] | None
    rows: int


def _shapes(handle: LanceTable) -> dict[int, _Shape]:
    shapes = {}
    for fragment in handle.get_fragments():
        meta = fragment.metadata
        deletion = meta.deletion_file
        shapes[fragment.fragment_id] = _Shape(
            tuple(file._path for file in meta.files),  # `path` makes a new class at each look, 0.1 ms
            (deletion.read_version, deletion.id, deletion.num_deleted_rows) if deletion else None,
            meta.physical_rows,
        )
    return shapes
