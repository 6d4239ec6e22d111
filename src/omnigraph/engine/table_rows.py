"""The rows of one table at one version, by dense position.

A position is an index into arrays, given to a row when it is first seen and kept while the row lives: it follows the
stable row id of the storage, so an update does not move a row and a new row goes to the end. That lets columns and
topologies of an older version be carried forward by what commits changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.position_deltas import ColumnOverlay, PositionDelta, Positions, RowIds, one_chunk, take
from omnigraph.errors import HistoricalVersionReclaimed, StorageError
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.storage.table_reader import TableReader

#: Carrying forward pays while a commit touched less than this share of the rows.
_CARRY_SHARE = 0.25

#: So few changed rows are carried forward whatever the size of the table.
_FEW_CHANGES = 4_096

#: Changes whose values may wait to be looked at, and that a topology may be behind.
_LONGEST_CHAIN = 32

#: Columns are gathered through their overlay for up to one row in this many; for more they become one array first.
_OVERLAY_SHARE = 16

#: A column is copied when more than these rows, or one in so many, lie over it.
_FEW_PATCHES = 1_024
_PATCH_SHARE = 64

#: A call that fetches rows costs as much as fetching this many.
_CALL_COST = 500

#: One id is looked up in the storage for every so many rows of a table before all its ids are read into memory: by then
#: the look-ups have cost as much.
_ROWS_PER_LOOKUP = 25_000

#: Below this many rows a table is read as a whole at once.
_SMALL = 10_000

#: Up to this many ids are looked up one by one; more are joined with the whole column.
_FEW_IDS = 256

#: Bytes of an entry of the index of ids.
_INDEX_ENTRY = 120

#: What reading a version may raise that was removed since it was opened.
_RECLAIMED = (HistoricalVersionReclaimed, StorageError)


class TableRows:
    """A table at one version. Columns are read when first asked for and kept; safe for several threads.

    Attributes:
        space: the meaning of positions; the same object along one line of versions.
        mark: stands for this version in the history of later ones.
        history: the last changes that led here, each with the mark of the version before it.
    """

    def __init__(
        self,
        reader: TableReader,
        row_ids: RowIds,
        alive: npt.NDArray[np.bool_] | None = None,
        space: object | None = None,
        history: tuple[tuple[object, PositionDelta], ...] = (),
    ) -> None:
        self.reader = reader
        self.row_ids = row_ids
        self.alive = alive
        self.space = object() if space is None else space
        self.mark = object()
        self.history = history
        self._columns: dict[str, pa.Array] = {}
        self._inherited: dict[str, ColumnOverlay] = {}
        self._positions: dict[str, int] | None = None
        self._has_successor = False
        self._lookups = 0
        self._fetched: dict[str, int] = {}  # rows fetched one by one, per column
        self._lock = threading.RLock()

    @staticmethod
    def read(reader: TableReader, columns: Sequence[str] = (), budget: ReadBudget = UNBOUNDED) -> TableRows:
        """All rows in storage order, with some columns that are needed anyway."""
        table = reader.scan([*columns], with_row_id=True, budget=budget)
        rows = TableRows(reader, RowIds(_numbers(table.column("_rowid"))))
        for name in columns:
            rows._columns[name] = one_chunk(table.column(name))
        return rows

    def __len__(self) -> int:
        """Positions in use, dead ones included."""
        return len(self.row_ids)

    @property
    def is_derived(self) -> bool:
        """Whether this was an older version that changes were applied to; else the positions are those of a scan."""
        return bool(self.history)

    def parts(self) -> Iterator[tuple[object, int]]:
        """What this version holds in memory, and its bytes. Versions share parts."""
        with self._lock:
            held = [*self._columns.values(), *(overlay.base for overlay in self._inherited.values())]
            index = self._positions
        yield from ((each, each.nbytes) for each in (*held, *(delta for _, delta in self.history)))
        yield from self.row_ids.parts()
        if self.alive is not None:
            yield self.alive, self.alive.nbytes
        if index is not None:
            yield index, _INDEX_ENTRY * len(index)

    def all_positions(self) -> Positions:
        return np.arange(len(self)) if self.alive is None else np.flatnonzero(self.alive)

    def column(self, name: str, budget: ReadBudget = UNBOUNDED) -> pa.Array:
        """A column by position. Values at dead positions mean nothing."""
        known = self._columns.get(name)
        if known is not None:
            return known
        with budget.locked(self._lock):
            if name not in self._columns:
                carried = self._carried(name)
                self._columns[name] = self._scan(name, budget) if carried is None else carried
                self._inherited.pop(name, None)
            return self._columns[name]

    def passing_column(self, name: str, budget: ReadBudget = UNBOUNDED) -> pa.Array:
        """A column by position for one use: it is not kept if it is not in memory already."""
        with budget.locked(self._lock):
            if name in self._columns:
                return self._columns[name]
            carried = self._carried(name)
        return self._scan(name, budget) if carried is None else carried

    def values(self, name: str, positions: Positions) -> pa.Array:
        """A column at some positions; null where the position is negative.

        Few rows of a column that is not in memory are fetched one by one instead of reading the whole column.
        """
        column = self._columns.get(name)
        if column is None:
            overlay = self._inherited.get(name)
            if overlay is not None and len(positions) * _OVERLAY_SHARE <= len(self):
                try:
                    return overlay.take(positions)
                except _RECLAIMED:
                    pass
            elif overlay is None and self._fetches_rows(name, len(positions)):
                return self._take(name, positions)
            column = self.column(name)
        return take(column, positions)

    def fetches_singly(self, name: str, positions: Positions) -> bool:
        """Whether `values` would not need the whole column in memory."""
        if name in self._columns:
            return False
        if name in self._inherited:
            return len(positions) * _OVERLAY_SHARE <= len(self)
        return self.reader.prefers_take(len(positions) + _CALL_COST, len(self))

    def has_column(self, name: str) -> bool:
        """Whether the whole column is in memory already."""
        return name in self._columns

    def holds(self, name: str) -> bool:
        """Whether single values of a column can be had without reading it."""
        return name in self._columns or name in self._inherited

    def known_position(self, id_: str) -> int | None:
        """Position of the row with an id; None when there is none, or when memory alone does not tell."""
        position = None if self._positions is None else self._positions.get(id_)
        if position is None or position >= len(self) or (self.alive is not None and not self.alive[position]):
            return None
        return position

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

    def advance(self, reader: TableReader, eager: Sequence[str] = (), *, aside: bool = False) -> TableRows | None:
        """The same table at a later version of the same lineage, or None when reading it anew is cheaper.

        Args:
            aside: the later version is a draft. The line of versions goes on without it.
        """
        most = max(_FEW_CHANGES, int(_CARRY_SHARE * len(self)))
        try:
            changes = reader.changes_since(self.reader, eager, most)
        except _RECLAIMED:
            return None
        if changes is None:
            return None
        row_ids, alive, mark = self.row_ids, self.alive, self.mark
        history: list[tuple[object, PositionDelta]] = []
        for change in changes:
            delta = PositionDelta.of(reader, change, row_ids)
            row_ids = row_ids.extended(change.added_row_ids[delta.inserted_source])
            alive = _alive(alive, delta, len(row_ids))
            history.append((mark, delta))
            mark = object()
        whole = (*self.history, *history)[-max(_LONGEST_CHAIN, len(history)) :]
        rows = TableRows(reader, row_ids, alive, None if aside else self._space_of_successor(), whole)
        rows._inherit(self, tuple(delta for _, delta in history))
        return rows

    def deltas_since(self, mark: object) -> list[PositionDelta] | None:
        """The changes since an older version, oldest first; None when they are too many, or it is no older version."""
        if mark is self.mark:
            return []
        for number, (before, _) in enumerate(self.history):
            if before is mark:
                return [delta for _, delta in self.history[number:]]
        return None

    def _inherit(self, older: TableRows, deltas: tuple[PositionDelta, ...]) -> None:
        """Take over what an older version holds. It is let go when it is no longer needed."""
        with older._lock:
            for name, overlay in list(older._inherited.items()):
                if older._must_fold(overlay, len(deltas)):
                    older.column(name)
                else:
                    self._inherited[name] = overlay.under(deltas)
            for name, column in older._columns.items():
                self._inherited[name] = ColumnOverlay(column, name, deltas)
            index = older._positions
        if index is None or self.space is not older.space:
            return
        try:
            for delta in deltas:
                if len(delta.inserted_source):
                    index.update(zip(delta.written_column("id").to_pylist(), delta.written.tolist(), strict=True))
        except _RECLAIMED:
            return
        self._positions = index

    def _must_fold(self, overlay: ColumnOverlay, more: int) -> bool:
        """Whether so much lies over a column that it is better copied. Changes that wait for long are looked at."""
        if not overlay.is_known and len(overlay.waiting) + more <= _LONGEST_CHAIN:
            return False
        try:
            changed, _ = overlay.patch
        except _RECLAIMED:
            return True
        return len(changed) > max(_FEW_PATCHES, len(self) // _PATCH_SHARE)

    def _space_of_successor(self) -> object:
        """The same positions continue in one line of versions only; a second successor, after a look into the past,
        gives the positions behind the common ones to other rows."""
        with self._lock:
            space = object() if self._has_successor else self.space
            self._has_successor = True
            return space

    def _carried(self, name: str) -> pa.Array | None:
        """A column of an older version and the changes since; None when there is none, or a change is not stored any
        more."""
        overlay = self._inherited.get(name)
        try:
            return overlay.folded() if overlay is not None else None
        except _RECLAIMED:
            return None

    def _scan(self, name: str, budget: ReadBudget) -> pa.Array:
        table = self.reader.scan([name], with_row_id=True, budget=budget)
        return one_chunk(table.column(name)).take(self._scan_order(_numbers(table.column("_rowid"))))

    def _scan_order(self, scanned: npt.NDArray[np.uint64]) -> pa.Array:
        """Where in a scan each position's row is; null for dead positions."""
        mine = self.row_ids.all()
        if np.array_equal(scanned, mine):
            return pa.arange(0, len(scanned))
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
                ids = self.column("id").to_pylist()
                self._positions = dict(zip(ids, range(len(ids)), strict=True))
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


def _alive(before: npt.NDArray[np.bool_] | None, delta: PositionDelta, size: int) -> npt.NDArray[np.bool_] | None:
    if len(delta.removed) == 0 and (before is None or len(before) == size):
        return before
    alive = np.ones(size, np.bool_)
    if before is not None:
        alive[: len(before)] = before
    alive[delta.removed] = False
    return alive


def _numbers(column: Any) -> npt.NDArray[np.uint64]:
    return np.asarray(column.to_numpy(), np.uint64)
