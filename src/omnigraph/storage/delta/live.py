"""Rows that are live in one state of a fragment and deleted in the other.

A deletion file lists what is gone, and the metadata of a fragment which row id lies where, so two small files tell the
difference and no row is read. Where one of them has another form than the usual, the fragment is scanned for its
places instead, which says the same.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import limits
from omnigraph.storage.faults import READ_EXCEPTIONS
from omnigraph.storage.images import RowIds
from omnigraph.storage.manifest import Pin
from omnigraph.storage.row_ids import row_ids_in_metadata
from omnigraph.storage.tables import Handle, Tables

Offsets = npt.NDArray[np.int64]

_NONE = np.array([], np.uint64)
_OFFSET = np.uint64(0xFFFFFFFF)
_FRAGMENT = np.uint64(32)  # bits of an address below the number of its fragment


@dataclass(frozen=True, slots=True)
class State:
    """One state of a table and what opens its files."""

    tables: Tables
    pin: Pin
    handle: Handle


@dataclass(frozen=True, slots=True)
class Moved:
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


def moved_rows(before: State, after: State, fragments: tuple[int, ...]) -> tuple[RowIds, RowIds]:
    """Row ids of the rows that are live only before, and only after, in fragments with the same data files."""
    lost, regained = moved_places(before, after, fragments)
    return lost.row_ids, regained.row_ids


def moved_places(before: State, after: State, fragments: tuple[int, ...]) -> tuple[Moved, Moved]:
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
    return Moved(tuple(old for old, _ in pairs)), Moved(tuple(new for _, new in pairs))


class _Fragment:
    """One fragment in one state."""

    def __init__(self, state: State, number: int) -> None:
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
        pin = self._state.pin
        content = self._state.tables.read_file(pin.location, pin.branch, path)
        if content is None and pin.branch is not None:
            content = self._state.tables.read_file(pin.location, None, path)
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
