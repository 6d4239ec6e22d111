"""Rows by position across versions: their stable row ids, what a commit changed, and columns that wait for changes.

Appending row ids copies nothing large, and looking ids up does not sort what is sorted already, which freshly loaded
tables are. A column of an older version is not copied when a commit changed a few of its rows: the changed values lie
over it, and the two become one array when somebody wants the whole column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.table_reader import TableChange, TableReader

Ids = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

#: The last part is merged with a new one while it is at most this many times larger.
_MERGE_RATIO = 4


@dataclass(frozen=True)
class _IdRun:
    """Row ids in the order of their positions."""

    ids: Ids

    @cached_property
    def order(self) -> Positions | None:
        """Positions by ascending id; None when they are ascending as they are."""
        if bool((self.ids[1:] > self.ids[:-1]).all()):
            return None
        return np.argsort(self.ids, kind="stable")

    def find(self, wanted: Ids) -> Positions:
        """Position of each wanted id, -1 where there is none."""
        if len(self.ids) == 0:
            return np.full(len(wanted), -1, np.int64)
        where = np.minimum(np.searchsorted(self.ids, wanted, sorter=self.order), len(self.ids) - 1)
        positions = where if self.order is None else self.order[where]
        return np.where(self.ids[positions] == wanted, positions, -1).astype(np.int64)


class RowIds:
    """Row ids by position."""

    def __init__(self, *parts: Ids | _IdRun) -> None:
        self._parts = tuple(part if isinstance(part, _IdRun) else _IdRun(part) for part in parts)
        self._starts = np.concatenate([[0], np.cumsum([len(part.ids) for part in self._parts])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def parts(self) -> Iterator[tuple[object, int]]:
        """The arrays and their bytes; versions share them."""
        return ((part.ids, part.ids.nbytes) for part in self._parts)

    def all(self) -> Ids:
        """One array with every id."""
        return self._parts[0].ids if len(self._parts) == 1 else np.concatenate([part.ids for part in self._parts])

    def first(self, count: int) -> Ids:
        """The ids of the first positions; without a copy when they lie in the large part."""
        whole = self._parts[0].ids
        return whole[:count] if count <= len(whole) else self.all()[:count]

    def at(self, positions: Positions) -> Ids:
        if len(self._parts) == 1:
            return self._parts[0].ids[positions]
        found = np.empty(len(positions), np.uint64)
        which = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(which).tolist():
            rows = which == number
            found[rows] = self._parts[number].ids[positions[rows] - self._starts[number]]
        return found

    def find(self, wanted: Ids) -> Positions:
        """Position of each wanted id, -1 where there is none."""
        found = np.full(len(wanted), -1, np.int64)
        for part, start in zip(self._parts, self._starts.tolist(), strict=False):
            hits = part.find(wanted)
            found = np.where(hits >= 0, hits + start, found)
        return found

    def extended(self, ids: Ids) -> RowIds:
        """With more ids at the end."""
        if len(ids) == 0:
            return self
        parts = list(self._parts)
        while len(parts) > 1 and len(parts[-1].ids) <= _MERGE_RATIO * len(ids):
            ids = np.concatenate([parts.pop().ids, ids])
        return RowIds(*parts, ids)


#: So few values are cut out one by one, which is quicker than starting a kernel.
_FEW_POSITIONS = 4

_NONE = np.zeros(0, np.int64)

#: So few changed values are put between slices of a column; for more, the whole column is gathered anew.
_FEW_PATCHES = 64


@dataclass(frozen=True, slots=True)
class PositionDelta:
    """What changed from one version to the next.

    Attributes:
        reader: the later version.
        first: position of the first new row; the others follow.
        updated: positions of rows with new values; ``update_source`` are their offsets in the added rows.
        inserted_source: offsets of the new rows in the added rows.
        removed: positions of rows that are gone.
        change: what the storage said.
    """

    reader: TableReader
    first: int
    updated: Positions
    update_source: Positions
    inserted_source: Positions
    removed: Positions
    change: TableChange

    @staticmethod
    def of(reader: TableReader, change: TableChange, row_ids: RowIds) -> PositionDelta:
        """A change of the rows with these row ids."""
        size = len(change.added_row_ids)
        updated, update_source, inserted_source = _NONE, _NONE, np.arange(size)
        if change.rewritten:
            where = row_ids.find(change.added_row_ids)
            known = where >= 0
            updated, update_source, inserted_source = where[known], np.flatnonzero(known), np.flatnonzero(~known)
        removed = _NONE
        if len(change.lost_row_ids):
            removed = row_ids.find(change.lost_row_ids)
            removed = removed[removed >= 0]
        return PositionDelta(reader, len(row_ids), updated, update_source, inserted_source, removed, change)

    @property
    def nbytes(self) -> int:
        return self.change.nbytes

    @property
    def inserted(self) -> Positions:
        return np.arange(self.first, self.first + len(self.inserted_source))

    @property
    def written(self) -> Positions:
        """Positions of the rows that were rewritten, then those of new ones."""
        return np.concatenate([self.updated, self.inserted]) if len(self.updated) else self.inserted

    def written_column(self, name: str) -> pa.Array:
        """Values at the written positions."""
        change = self.change
        if change.fragments is None or name in change.added.column_names:
            column = one_chunk(change.added.column(name))
        else:
            column = one_chunk(self.reader.scan([name], fragments=change.fragments).column(name))
        if len(self.inserted_source) == len(column):
            return column
        return column.take(pa.array(np.concatenate([self.update_source, self.inserted_source])))


class ColumnOverlay:
    """A column of an older version with the changes since then on top of it.

    Attributes:
        waiting: changes whose values were not looked at yet.
    """

    def __init__(
        self,
        base: pa.Array,
        name: str,
        waiting: tuple[PositionDelta, ...],
        known: tuple[Positions, pa.Array] | None = None,
    ) -> None:
        self.base = base
        self.waiting = waiting
        self._name = name
        self._known = known

    @property
    def is_known(self) -> bool:
        """Whether the values of all changes were looked at."""
        return "patch" in self.__dict__

    def under(self, deltas: tuple[PositionDelta, ...]) -> ColumnOverlay:
        """With more changes on top."""
        if self.is_known:
            return ColumnOverlay(self.base, self._name, deltas, self.patch)
        return ColumnOverlay(self.base, self._name, (*self.waiting, *deltas), self._known)

    def take(self, positions: Positions) -> pa.Array:
        """Values at some positions; null where the position is negative."""
        changed, patch = self.patch
        if len(changed) == 0:
            return take(self.base, positions)
        where = np.minimum(np.searchsorted(changed, positions), len(changed) - 1)
        hit = changed[where] == positions
        if not hit.any():
            return take(self.base, positions)
        below = self.base.take(pa.array(positions[~hit], mask=positions[~hit] < 0))
        both = pa.concat_arrays([below, patch.take(pa.array(where[hit]))])
        source = np.empty(len(positions), np.int64)
        source[~hit] = np.arange(len(below))
        source[hit] = np.arange(len(below), len(both))
        return both.take(pa.array(source))

    def folded(self) -> pa.Array:
        """The whole column."""
        changed, patch = self.patch
        new = int(np.searchsorted(changed, len(self.base)))
        column = self.base if new == 0 else _patched(self.base, changed[:new], patch.slice(0, new))
        return pa.concat_arrays([column, patch.slice(new)]) if new < len(patch) else column

    @cached_property
    def patch(self) -> tuple[Positions, pa.Array]:
        """Positions that changed, ascending, and their newest values. All new positions are among them."""
        known = [] if self._known is None else [self._known]
        found = [*known, *((delta.written, delta.written_column(self._name)) for delta in self.waiting)]
        if len(found) == 1 and _is_ascending(found[0][0]):
            return found[0]
        every = np.concatenate([positions for positions, _ in found])
        changed, newest = np.unique(every[::-1], return_index=True)
        return changed, pa.concat_arrays([values for _, values in found]).take(pa.array(len(every) - 1 - newest))


def take(column: pa.Array, positions: Positions) -> pa.Array:
    """Values at some positions; null where the position is negative."""
    if len(positions) <= _FEW_POSITIONS:
        wanted = positions.tolist()
        if wanted and min(wanted) >= 0:
            return pa.concat_arrays([column.slice(position, 1) for position in wanted])
    if len(positions) and int(positions.min()) < 0:
        return column.take(pa.array(positions, mask=positions < 0))
    return column.take(pa.array(positions))


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pc.take(column, pa.array([], pa.int64())).combine_chunks() if len(column) == 0 else column.combine_chunks()


def _is_ascending(numbers: Positions) -> bool:
    return len(numbers) < 2 or bool((numbers[1:] > numbers[:-1]).all())


def _patched(column: pa.Array, positions: Positions, values: pa.Array) -> pa.Array:
    """A copy of a column with new values at some positions, which ascend."""
    if len(positions) > _FEW_PATCHES:
        source = np.arange(len(column))
        source[positions] = len(column) + np.arange(len(positions))
        return pa.concat_arrays([column, values]).take(pa.array(source))
    parts, begin = [], 0
    for number, position in enumerate(positions.tolist()):
        parts += [column.slice(begin, position - begin), values.slice(number, 1)]
        begin = position + 1
    return pa.concat_arrays([*parts, column.slice(begin)])
