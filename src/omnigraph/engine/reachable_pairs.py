"""Which nodes lie between some hops of each origin: breadth-first search from many origins at once.

Where the search grows wide it is cut into pieces: origins that do not fit into flags together are followed block by
block, and a frontier is followed a part at a time. So memory stays bounded, and the budget is asked between the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.engine.adjacency import among
from omnigraph.engine.pieces import cuts, slices, stacked
from omnigraph.engine.position_deltas import Positions
from omnigraph.read_budget import PIECE_ROWS, ReadBudget

#: (row of the frontier, neighbour) for a frontier of positions.
Neighbours: TypeAlias = Callable[[Positions], tuple[Positions, Positions]]

#: (row of the origin, node) pairs that were found at one distance, rows ascending.
Run: TypeAlias = tuple[Positions, Positions]

#: Up to this many (origin, node) pairs are kept as flags; beyond, as sorted keys.
_FLAGS = 50_000_000

#: Pairs of a block of origins in a wide search.
_BLOCK = 8_000_000

#: A search is wide when one hop follows more edges than this, and more than one for so many pairs there may be.
_WIDE = 16 * PIECE_ROWS
_SPARSE_SHARE = 64

#: Bytes of a pair.
_PAIR = 16


@dataclass(frozen=True, slots=True)
class Way:
    """How edges go on from a frontier.

    Attributes:
        sizes: at least the number of neighbours of each position.
        entries: no position has more neighbours.
    """

    neighbours: Neighbours
    sizes: Callable[[Positions], Positions]
    entries: int

    def is_short(self, frontier: Positions) -> bool:
        """Whether a frontier certainly has few neighbours."""
        return len(frontier) * self.entries <= PIECE_ROWS


@dataclass(frozen=True, slots=True)
class PairSearch:
    """What to look for: nodes from ``low`` to ``high`` hops away."""

    way: Way
    nodes: int
    low: int
    high: int
    budget: ReadBudget

    def pairs(
        self, origins: Positions, looped: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[slice, list[Run]]]:
        """The pairs of some distinct origins, for a part of the origins at a time; rows count from its begin.

        Args:
            looped: which origins have a self-loop, when the search goes from the ends of a path to its beginnings.
        """
        block = max(1, _BLOCK // max(self.nodes, 1))
        if len(origins) <= block:
            found = self._search(origins, looped, None)
            assert found is not None
            yield slice(0, len(origins)), found
            return
        found = self._search(origins, looped, max(_WIDE, len(origins) * self.nodes // _SPARSE_SHARE))
        if found is not None:
            yield slice(0, len(origins)), found
            return
        for part in slices(len(origins), block):
            found = self._search(origins[part], None if looped is None else looped[part], None)
            assert found is not None
            yield part, found

    def _search(self, origins: Positions, looped: npt.NDArray[np.bool_] | None, limit: int | None) -> list[Run] | None:
        return self._forwards(origins, limit) if looped is None else self._backwards(origins, looped, limit)

    def _forwards(self, origins: Positions, limit: int | None) -> list[Run] | None:
        seen, returned = (_visited(len(origins), self.nodes) for _ in range(2))
        rows, frontier = np.arange(len(origins)), origins
        seen.add(rows, frontier)
        runs: list[Run] = []
        held = 0
        for hop in range(1, self.high + 1):
            if len(frontier) == 0:
                break
            parts = self._parts(rows, frontier, seen, limit)
            if parts is None:
                return None
            fresh_rows: list[Positions] = []
            fresh: list[Positions] = []
            for part in parts:
                self.budget.check()
                here = frontier[part]
                entry, targets = self.way.neighbours(here)
                from_rows = rows[part][entry]
                loops = targets == here[entry]
                if hop >= self.low and loops.any():
                    runs.append(returned.fresh(from_rows[loops], targets[loops]))
                found_rows, found = seen.fresh(from_rows, targets)
                fresh_rows.append(found_rows)
                fresh.append(found)
                held += _PAIR * len(found)
                self.budget.hold(held)
            seen.settle()
            returned.settle()
            rows, frontier = stacked(fresh_rows, self.budget.check), stacked(fresh, self.budget.check)
            if hop >= self.low:
                returned.add(rows, frontier)
                runs.append((rows, frontier))
        return runs

    def _backwards(self, ends: Positions, looped: npt.NDArray[np.bool_], limit: int | None) -> list[Run] | None:
        seen = _visited(len(ends), self.nodes)
        rows, frontier = np.arange(len(ends)), ends
        seen.add(rows, frontier)
        runs: list[Run] = []
        held = 0
        for distance in range(self.high + 1):
            near = max(self.low, 1) <= distance
            again = self.low <= distance + 1 <= self.high
            keep = looped[rows] & again | near
            runs.append((rows[keep], frontier[keep]))
            if distance == self.high or len(frontier) == 0:
                break
            parts = self._parts(rows, frontier, seen, limit)
            if parts is None:
                return None
            fresh_rows: list[Positions] = []
            fresh: list[Positions] = []
            for part in parts:
                self.budget.check()
                entry, targets = self.way.neighbours(frontier[part])
                found_rows, found = seen.fresh(rows[part][entry], targets)
                fresh_rows.append(found_rows)
                fresh.append(found)
                held += _PAIR * len(found)
                self.budget.hold(held)
            seen.settle()
            rows, frontier = stacked(fresh_rows, self.budget.check), stacked(fresh, self.budget.check)
        return runs

    def _parts(self, rows: Positions, frontier: Positions, seen: _Visited, limit: int | None) -> Iterator[slice] | None:
        """The parts in which a frontier is followed; None when it has more edges than a narrow search follows."""
        if self.way.is_short(frontier):
            return iter((slice(0, len(frontier)),))
        counts = self.way.sizes(frontier)
        if limit is not None and int(counts.sum()) > limit:
            return None
        return cuts(counts, within=rows if seen.whole_rows else None)


class _Visited(Protocol):
    """A growing set of (row, node) pairs.

    Attributes:
        whole_rows: the pairs of one row have to be asked for at once between two calls of `settle`.
    """

    whole_rows: bool

    def add(self, rows: Positions, nodes: Positions) -> None: ...

    def fresh(self, rows: Positions, nodes: Positions) -> Run:
        """The pairs that are not in the set yet, each once, ascending; they are added."""

    def settle(self) -> None:
        """Before rows are asked for again."""


def _visited(rows: int, nodes: int) -> _Visited:
    width = max(nodes, 1)
    return _Flags(rows, width) if rows * width <= _FLAGS or rows == 1 else _Keys(width)


class _Flags:
    """A flag for each pair there may be."""

    whole_rows = False

    def __init__(self, rows: int, nodes: int) -> None:
        self._nodes = nodes
        self._flags = np.zeros(rows * nodes, np.bool_)

    def add(self, rows: Positions, nodes: Positions) -> None:
        self._flags[rows * self._nodes + nodes] = True

    def fresh(self, rows: Positions, nodes: Positions) -> Run:
        keys = rows * self._nodes + nodes
        keys = np.unique(keys[~self._flags[keys]])
        self._flags[keys] = True
        return keys // self._nodes, keys % self._nodes

    def settle(self) -> None:
        pass


class _Keys:
    """The pairs as ascending numbers."""

    whole_rows = True

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._keys = np.zeros(0, np.int64)
        self._new: list[Positions] = []

    def add(self, rows: Positions, nodes: Positions) -> None:
        self._new.append(rows * self._nodes + nodes)
        self.settle()

    def fresh(self, rows: Positions, nodes: Positions) -> Run:
        keys = np.unique(rows * self._nodes + nodes)
        keys = keys[~among(self._keys, keys)]
        self._new.append(keys)
        return keys // self._nodes, keys % self._nodes

    def settle(self) -> None:
        if self._new:
            self._keys = np.sort(np.concatenate([self._keys, *self._new]), kind="stable")
            self._new.clear()
