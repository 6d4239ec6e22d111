"""Breadth-first distances: which nodes lie between ``min`` and ``max`` hops from each origin.

A destination appears once per origin, at its shortest distance. A stored self-loop on a node at distance ``d`` gives
that node again at ``d + 1``, if it was not returned before. The loop counts at the destination, so a search from the
destination back to its origins asks the start of the search for loops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from omnigraph.engine.adjacency import Positions

#: (row of the frontier, neighbour) for a frontier of positions.
Neighbours = Callable[[Positions], tuple[Positions, Positions]]

#: Up to this many (origin, node) pairs are kept as flags; beyond, as sorted keys.
_FLAGS = 50_000_000


def within(neighbours: Neighbours, origins: Positions, nodes: int, low: int, high: int) -> tuple[Positions, Positions]:
    """(row of the origin, destination) pairs; ``origins`` are distinct positions."""
    seen = _Seen(len(origins), nodes)
    returned = _Seen(len(origins), nodes)
    rows, frontier = np.arange(len(origins)), origins
    seen.add(rows, frontier)
    found_rows: list[Positions] = []
    found: list[Positions] = []
    for hop in range(1, high + 1):
        if len(frontier) == 0:
            break
        entry, targets = neighbours(frontier)
        from_rows = rows[entry]
        loops = targets == frontier[entry]
        if hop >= low and loops.any():
            loop_rows, loop_nodes = returned.fresh(from_rows[loops], targets[loops])
            found_rows.append(loop_rows)
            found.append(loop_nodes)
        rows, frontier = seen.fresh(from_rows, targets)
        if hop >= low:
            returned.add(rows, frontier)
            found_rows.append(rows)
            found.append(frontier)
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(found_rows), np.concatenate(found)


def within_backwards(
    neighbours: Neighbours, ends: Positions, looped: npt.NDArray[np.bool_], nodes: int, low: int, high: int
) -> tuple[Positions, Positions]:
    """(row of the destination, origin) pairs; ``looped`` says which destinations have a self-loop."""
    seen = _Seen(len(ends), nodes)
    rows, frontier = np.arange(len(ends)), ends
    seen.add(rows, frontier)
    found_rows: list[Positions] = []
    found: list[Positions] = []
    for distance in range(high + 1):
        near = max(low, 1) <= distance
        again = low <= distance + 1 <= high
        keep = looped[rows] & again | near
        found_rows.append(rows[keep])
        found.append(frontier[keep])
        if distance == high or len(frontier) == 0:
            break
        entry, targets = neighbours(frontier)
        rows, frontier = seen.fresh(rows[entry], targets)
    return np.concatenate(found_rows), np.concatenate(found)


class _Seen:
    """A growing set of (row, node) pairs."""

    def __init__(self, rows: int, nodes: int) -> None:
        self._nodes = max(nodes, 1)
        self._flags: npt.NDArray[np.bool_] | None = (
            np.zeros(rows * self._nodes, np.bool_) if rows * self._nodes <= _FLAGS else None
        )
        self._keys = np.zeros(0, np.int64)

    def add(self, rows: Positions, nodes: Positions) -> None:
        keys = rows * self._nodes + nodes
        if self._flags is not None:
            self._flags[keys] = True
        else:
            self._keys = np.union1d(self._keys, keys)

    def fresh(self, rows: Positions, nodes: Positions) -> tuple[Positions, Positions]:
        """The pairs that are not in the set yet, each once; they are added."""
        keys = rows * self._nodes + nodes
        if self._flags is not None:
            keys = np.unique(keys[~self._flags[keys]])
            self._flags[keys] = True
        else:
            keys = np.setdiff1d(keys, self._keys)
            self._keys = np.union1d(self._keys, keys)
        return keys // self._nodes, keys % self._nodes
