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

from omnigraph.engine.row_ids import RowIds
from omnigraph.storage.reading import TableReader

Positions = npt.NDArray[np.int64]

#: Carrying forward pays while a commit touched less than this share of the rows.
_CARRY_SHARE = 0.25

#: Versions that wait to be carried forward one after the other; beyond, the columns in memory are carried at once.
_LONGEST_CHAIN = 32

#: A call that fetches rows costs as much as fetching this many.
_CALL_COST = 500

#: One id is looked up in the storage for every so many rows of a table before all its ids are read into memory: by then
#: the look-ups have cost as much.
_ROWS_PER_LOOKUP = 25_000

#: Below this many rows a table is read as a whole at once.
_SMALL = 10_000

#: Up to this many ids are looked up one by one; more are joined with the whole column.
_FEW_IDS = 256


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed from one version to the next.

    Attributes:
        updated: positions of rows with new values; ``update_source`` are their offsets in the added rows.
        inserted_source: offsets of the new rows in the added rows; their positions follow the old ones.
        removed: positions of rows that are gone.
        fragments: ids of the fragments that hold the added rows.
        added: columns of the added rows that are at hand.
    """

    updated: Positions
    update_source: Positions
    inserted_source: Positions
    removed: Positions
    fragments: tuple[int, ...]
    added: pa.Table


class Rows:
    """A table at one version. Columns are read when first asked for and kept; safe for several threads."""

    def __init__(
        self,
        reader: TableReader,
        row_ids: RowIds,
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
        self._has_successor = False
        self._lookups = 0
        self._fetched: dict[str, int] = {}  # rows fetched one by one, per column
        self._lock = threading.RLock()

    @staticmethod
    def read(reader: TableReader, columns: Sequence[str] = ()) -> Rows:
        """All rows in storage order, with some columns that are needed anyway."""
        table = reader.scan([*columns], with_row_id=True)
        rows = Rows(reader, RowIds(_numbers(table.column("_rowid"))), None, object())
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
        arrays = sum(column.nbytes for column in list(self._columns.values()))  # others may add columns meanwhile
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
        if name not in self._columns and not self._can_carry(name) and self._fetches_rows(name, len(positions)):
            return self._take(name, positions)
        column = self.column(name)
        if len(positions) and positions.min() < 0:
            return column.take(pa.array(positions, mask=positions < 0))
        return column.take(pa.array(positions))

    def find(self, ids: Iterable[str]) -> Positions:
        """Positions of the rows with these ids; ids that do not exist are left out."""
        wanted = list(ids)
        if self._asks_storage(len(wanted)):
            return self.row_ids.find(self.reader.row_ids_of(wanted))
        index = self._id_index()
        found = [self._live(index, value) for value in wanted]
        return np.array([position for position in found if position >= 0], np.int64)

    def locate(self, ids: pa.Array) -> Positions:
        """Position of the live row with each id, -1 where there is none."""
        if len(ids) <= _FEW_IDS:
            index = self._id_index()
            return np.array([self._live(index, value) for value in ids.to_pylist()], np.int64)
        found = pc.index_in(ids, value_set=self.column("id")).fill_null(-1)
        positions = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
        if self.alive is not None:  # an id that was removed and inserted again has a dead position too
            dead = (positions >= 0) & ~self.alive[positions]
            index = self._id_index()
            positions[dead] = [self._live(index, value) for value in ids.filter(pa.array(dead)).to_pylist()]
        return positions

    def advance(self, reader: TableReader, eager: Sequence[str] = ()) -> Rows | None:
        """The same table at a later version of the same lineage, or None when reading it anew is cheaper."""
        change = reader.changes_since(self.reader, eager)
        if change is None or change.rows > max(4_096, _CARRY_SHARE * len(self)):
            return None
        if self._depth >= _LONGEST_CHAIN:
            self._settle()
        where = self.row_ids.find(change.added_row_ids)
        known = where >= 0
        inserted = np.flatnonzero(~known)
        delta = Delta(
            updated=where[known],
            update_source=np.flatnonzero(known),
            inserted_source=inserted,
            removed=self.row_ids.find(change.lost_row_ids),
            fragments=change.fragments,
            added=change.added,
        )
        row_ids = self.row_ids.extended(change.added_row_ids[inserted])
        return Rows(reader, row_ids, _alive(self, delta, len(row_ids)), self._space_of_successor(), self, delta)

    def _space_of_successor(self) -> object:
        """The same positions continue in one line of versions only; a second successor, after a look into the past,
        gives the positions behind the common ones to other rows."""
        with self._lock:
            space = object() if self._has_successor else self.space
            self._has_successor = True
            return space

    def added(self, columns: Sequence[str]) -> pa.Table:
        """The rows that the last change added or rewrote, in the order that `delta` refers to."""
        assert self.delta is not None
        if set(columns) <= set(self.delta.added.column_names):
            return self.delta.added.select(list(columns))
        return self.reader.scan([*columns], fragments=self.delta.fragments)

    def _settle(self) -> None:
        """Take over what older versions hold, and let go of them."""
        with self._lock:
            older = self.previous
            while older is not None:
                for name in list(older._columns):
                    self.column(name)
                older = older.previous
            if self.previous is not None and self.previous._positions is not None:
                self._id_index()
            self.previous, self._depth = None, 0

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
        mine = self.row_ids.all()
        if np.array_equal(scanned, mine):
            return pa.array(np.arange(len(scanned)))
        where = RowIds(scanned).find(mine)
        return pa.array(where, mask=where < 0)

    def _fetches_rows(self, name: str, wanted: int) -> bool:
        """Single rows are fetched until that has cost as much as reading the column would have."""
        with self._lock:
            self._fetched[name] = self._fetched.get(name, 0) + wanted + _CALL_COST
            return self.reader.prefers_take(self._fetched[name], len(self))

    def _take(self, name: str, positions: Positions) -> pa.Array:
        valid = positions >= 0
        unique, inverse = np.unique(positions[valid], return_inverse=True)
        values = self.reader.take(self.row_ids.at(unique), name)
        source = np.full(len(positions), -1, np.int64)
        source[valid] = inverse
        return values.take(pa.array(source, mask=~valid))

    def _asks_storage(self, wanted: int) -> bool:
        """The first few look-ups go to the index of the storage; more of them pay for an index in memory."""
        with self._lock:
            if self._positions is not None or ("id" in self._columns and len(self) < _SMALL):
                return False
            self._lookups += wanted
            return len(self) >= _SMALL and self._lookups * _ROWS_PER_LOOKUP <= len(self)

    def _id_index(self) -> dict[str, int]:
        """Position by id, shared along one line of versions; entries may be newer than this version."""
        with self._lock:
            if self._positions is None:
                before = self.previous
                carried = before._positions if before is not None and before.space is self.space else None
                if carried is None or self.delta is None:
                    ids = self.column("id").to_pylist()
                    self._positions = dict(zip(ids, range(len(ids)), strict=True))
                else:
                    new = _one(self.added(["id"]).column("id")).take(pa.array(self.delta.inserted_source)).to_pylist()
                    first = len(self) - len(new)
                    carried.update(zip(new, range(first, len(self)), strict=True))
                    self._positions = carried
            return self._positions

    def _live(self, index: dict[str, int], value: str) -> int:
        """Position of the live row with an id, or -1."""
        position = index.get(value, -1)
        if 0 <= position < len(self):
            return position if self.alive is None or self.alive[position] else self._other_live(value)
        return -1 if position < 0 else self._other_live(value)

    def _other_live(self, value: str) -> int:
        """The index shows another version's row of this id; this version's own column tells."""
        same = np.asarray(pc.equal(self.column("id"), value).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
        found = np.flatnonzero(same if self.alive is None else same & self.alive)
        return int(found[0]) if len(found) else -1


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
