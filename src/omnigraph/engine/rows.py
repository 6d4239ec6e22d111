"""The rows of one table at one version, by dense position.

A position is an index into arrays, given to a row when it is first seen and kept while the row lives: it follows the
stable row id of the storage, so an update does not move a row and a new row goes to the end. That lets columns and
topologies of the previous version be carried forward by what a commit changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.reading import TableReader

Positions = npt.NDArray[np.int64]

#: Carrying forward pays while a commit touched less than this share of the rows.
_CARRY_SHARE = 0.25

#: Versions that wait to be carried forward one after the other; beyond, a column is read anew.
_LONGEST_CHAIN = 32


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed from one version to the next.

    Attributes:
        updated: positions of rows with new values; ``update_source`` are their offsets in the added rows.
        inserted_source: offsets of the new rows in the added rows; their positions follow the old ones.
        removed: positions of rows that are gone.
        fragments: ids of the fragments that hold the added rows.
    """

    updated: Positions
    update_source: Positions
    inserted_source: Positions
    removed: Positions
    fragments: tuple[int, ...]


class Rows:
    """A table at one version. Columns are read when first asked for and kept; safe for several threads."""

    def __init__(
        self,
        reader: TableReader,
        row_ids: npt.NDArray[np.uint64],
        alive: npt.NDArray[np.bool_] | None,
        space: object,
        previous: Rows | None = None,
        delta: Delta | None = None,
    ) -> None:
        self.reader = reader
        self.row_ids = row_ids
        self.alive = alive
        self.space = space
        self.previous = previous
        self.delta = delta
        self._depth: int = previous._depth + 1 if previous else 0
        self._columns: dict[str, pa.Array] = {}
        self._positions: dict[str, int] | None = None
        self._lock = threading.RLock()

    @staticmethod
    def read(reader: TableReader, columns: Sequence[str] = ()) -> Rows:
        """All rows in storage order, with some columns that are needed anyway."""
        table = reader.scan([*columns], with_row_id=True)
        rows = Rows(reader, _numbers(table.column("_rowid")), None, object())
        for name in columns:
            rows._columns[name] = _one(table.column(name))
        return rows

    def __len__(self) -> int:
        """Positions in use, dead ones included."""
        return len(self.row_ids)

    @property
    def count(self) -> int:
        return len(self) if self.alive is None else int(self.alive.sum())

    @property
    def nbytes(self) -> int:
        arrays = sum(column.nbytes for column in self._columns.values())
        index = 120 * len(self._positions) if self._positions is not None else 0
        return int(arrays + self.row_ids.nbytes + index)

    def all_positions(self) -> Positions:
        return np.arange(len(self)) if self.alive is None else np.flatnonzero(self.alive)

    def column(self, name: str) -> pa.Array:
        """A column by position. Values at dead positions mean nothing."""
        with self._lock:
            if name not in self._columns:
                self._columns[name] = self._carried(name) if self._can_carry(name) else self._scan(name)
            return self._columns[name]

    def values(self, name: str, positions: Positions) -> pa.Array:
        """A column at some positions; null where the position is negative.

        Few rows of a column that is not in memory are fetched one by one instead of reading the whole column.
        """
        if (
            name not in self._columns
            and not self._can_carry(name)
            and self.reader.prefers_take(len(positions), len(self))
        ):
            return self._take(name, positions)
        column = self.column(name)
        if len(positions) and positions.min() < 0:
            return column.take(pa.array(positions, mask=positions < 0))
        return column.take(pa.array(positions))

    def find(self, ids: Iterable[str]) -> Positions:
        """Positions of the rows with these ids; ids that do not exist are left out."""
        index = self._id_index()
        found = [index[value] for value in ids if value in index]
        return np.array(found, np.int64)

    def advance(self, reader: TableReader) -> Rows | None:
        """The same table at a later version of the same lineage, or None when reading it anew is cheaper."""
        change = reader.changes_since(self.reader)
        if change is None or change.rows > max(4_096, _CARRY_SHARE * len(self)) or self._depth >= _LONGEST_CHAIN:
            return None
        order = np.argsort(self.row_ids, kind="stable")
        by_id = self.row_ids[order]
        lost = order[np.searchsorted(by_id, change.lost_row_ids)]
        where = np.searchsorted(by_id, change.added_row_ids)
        known = (where < len(by_id)) & (by_id[np.minimum(where, len(by_id) - 1)] == change.added_row_ids)
        if len(by_id) == 0:
            known = np.zeros(len(change.added_row_ids), np.bool_)
        inserted = np.flatnonzero(~known)
        delta = Delta(
            updated=order[where[known]].astype(np.int64),
            update_source=np.flatnonzero(known),
            inserted_source=inserted,
            removed=lost.astype(np.int64),
            fragments=change.fragments,
        )
        row_ids = np.concatenate([self.row_ids, change.added_row_ids[inserted]])
        return Rows(reader, row_ids, _alive(self, delta, len(row_ids)), self.space, self, delta)

    def added(self, columns: Sequence[str]) -> pa.Table:
        """The rows that the last change added or rewrote, in the order that `delta` refers to."""
        assert self.delta is not None
        return self.reader.scan([*columns], fragments=self.delta.fragments)

    def _can_carry(self, name: str) -> bool:
        return self.previous is not None and (name in self.previous._columns or self.previous._can_carry(name))

    def _carried(self, name: str) -> pa.Array:
        assert self.previous is not None
        assert self.delta is not None
        old = self.previous.column(name)
        added = _one(self.added([name]).column(name))
        if len(self.delta.updated):
            old = _patched(old, self.delta.updated, added.take(pa.array(self.delta.update_source)))
        if len(self.delta.inserted_source):
            old = pa.concat_arrays([old, added.take(pa.array(self.delta.inserted_source))])
        return old

    def _scan(self, name: str) -> pa.Array:
        table = self.reader.scan([name], with_row_id=True)
        return _one(table.column(name)).take(self._scan_order(_numbers(table.column("_rowid"))))

    def _scan_order(self, scanned: npt.NDArray[np.uint64]) -> pa.Array:
        """Where in a scan each position's row is; null for dead positions."""
        if len(scanned) == len(self.row_ids) and bool((scanned == self.row_ids).all()):
            return pa.array(np.arange(len(scanned)))
        order = np.argsort(scanned, kind="stable")
        where = np.minimum(np.searchsorted(scanned[order], self.row_ids), max(len(scanned) - 1, 0))
        found = scanned[order[where]] == self.row_ids if len(scanned) else np.zeros(len(self.row_ids), np.bool_)
        return pa.array(order[where] if len(scanned) else where, mask=~found)

    def _take(self, name: str, positions: Positions) -> pa.Array:
        valid = positions >= 0
        unique, inverse = np.unique(positions[valid], return_inverse=True)
        values = self.reader.take(self.row_ids[unique], name)
        source = np.full(len(positions), -1, np.int64)
        source[valid] = inverse
        return values.take(pa.array(source, mask=~valid))

    def _id_index(self) -> dict[str, int]:
        with self._lock:
            if self._positions is None:
                ids = self.column("id").to_pylist()
                self._positions = dict(zip(ids, range(len(ids)), strict=True))
                if self.alive is not None:
                    for position in np.flatnonzero(~self.alive).tolist():
                        if self._positions.get(ids[position]) == position:
                            del self._positions[ids[position]]
            return self._positions


def _alive(previous: Rows, delta: Delta, size: int) -> npt.NDArray[np.bool_] | None:
    if previous.alive is None and len(delta.removed) == 0:
        return None
    alive = np.ones(size, np.bool_)
    if previous.alive is not None:
        alive[: len(previous.alive)] = previous.alive
    alive[delta.removed] = False
    return alive


def _patched(column: pa.Array, positions: Positions, values: pa.Array) -> pa.Array:
    """A copy of a column with new values at some positions."""
    source = np.arange(len(column))
    source[positions] = len(column) + np.arange(len(positions))
    return pa.concat_arrays([column, values]).take(pa.array(source))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pc.take(column, pa.array([], pa.int64())).combine_chunks() if len(column) == 0 else column.combine_chunks()


def _numbers(column: Any) -> npt.NDArray[np.uint64]:
    return np.asarray(column.to_numpy(), np.uint64)
