"""The stable row ids behind positions: a large array and, after commits, small ones behind it.

Appending copies nothing large, and looking ids up does not sort what is sorted already, which freshly loaded tables
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

#: The last part is merged with a new one while it is at most this many times larger.
_MERGE_RATIO = 4


@dataclass(frozen=True)
class _Part:
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

    def __init__(self, *parts: Ids | _Part) -> None:
        self._parts = tuple(part if isinstance(part, _Part) else _Part(part) for part in parts)
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
