"""Neighbours of nodes as compressed sparse rows: for node ``n`` the slice ``targets[starts[n]:starts[n + 1]]``.

Plain arrays and the few operations on them that every traversal is made of. Knows nothing of types or tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Index = npt.NDArray[np.int32]

_DIGIT = 1 << 16

#: A frontier with more than one node in this many is followed by passing over all edges.
_BULK = 16


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Edges of one direction, grouped by node.

    Attributes:
        starts: where the entries of each slot begin, and one more.
        targets: neighbour positions; inside one node ascending.
        edges: position of the edge row behind each entry.
        owners: the node of each slot, ascending; None when slot ``n`` belongs to node ``n``. Few edges among many nodes
            are kept with owners.
    """

    starts: npt.NDArray[np.int64]
    targets: Index
    edges: Index
    owners: Positions | None = None

    @property
    def nodes(self) -> int:
        """Positions that may have entries."""
        if self.owners is None:
            return len(self.starts) - 1
        return int(self.owners[-1]) + 1 if len(self.owners) else 0

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.targets.nbytes + self.edges.nbytes

    def filled(self) -> tuple[Positions, npt.NDArray[np.int64]]:
        """The nodes that have entries, and where those begin."""
        slots = np.flatnonzero(np.diff(self.starts))
        return (slots if self.owners is None else self.owners[slots]), self.starts[slots]

    def degrees(self, nodes: int) -> npt.NDArray[np.int64]:
        """Number of neighbours of each of the first ``nodes`` positions."""
        found = np.diff(self.starts)
        if self.owners is None and len(found) == nodes:
            return found
        spread = np.zeros(nodes, np.int64)
        spread[np.arange(len(found)) if self.owners is None else self.owners] = found
        return spread

    def sources(self) -> npt.NDArray[np.int64]:
        """The node of each entry."""
        owners = np.arange(self.nodes) if self.owners is None else self.owners
        return np.repeat(owners, np.diff(self.starts))

    def expand(self, frontier: Positions) -> tuple[Positions, npt.NDArray[np.int64]]:
        """For each frontier row its entries: (row of the frontier, entry), rows ascending."""
        slots = self._slots(frontier)
        first = self.starts[slots]
        counts = self.starts[slots + 1] - first
        if len(slots) and int(slots.min()) < 0:
            counts = np.where(slots < 0, 0, counts)
        total = int(counts.sum())
        if len(frontier) == 1:
            return np.zeros(total, np.int64), np.arange(int(first[0]), int(first[0]) + total) if total else _NOTHING
        rows = np.repeat(np.arange(len(slots)), counts)
        before = np.cumsum(counts) - counts
        return rows, np.arange(total) + np.repeat(first - before, counts)

    def _slots(self, frontier: Positions) -> Positions:
        """The slot of each node, -1 for one without entries."""
        if self.owners is not None:
            if len(self.owners) == 0:
                return np.full(len(frontier), -1, np.int64)
            slots = np.minimum(np.searchsorted(self.owners, frontier), len(self.owners) - 1)
            return np.where(self.owners[slots] == frontier, slots, -1)
        if self.nodes == 0:
            return np.full(len(frontier), -1, np.int64) if len(self.starts) > 1 else frontier[:0]
        if len(frontier) and int(frontier.max()) >= self.nodes:
            return np.where(frontier < self.nodes, frontier, -1)
        return frontier

    def reached(self, frontier: Positions, nodes: int) -> npt.NDArray[np.bool_]:
        """Which of ``nodes`` positions are a neighbour of the frontier."""
        found = np.zeros(nodes, np.bool_)
        if len(frontier) * _BULK < self.nodes or self.owners is not None:
            found[self.targets[self.expand(frontier)[1]]] = True
        elif self.nodes:
            marked = np.zeros(self.nodes, np.bool_)
            marked[frontier[frontier < self.nodes]] = True
            found[self.targets[np.repeat(marked, np.diff(self.starts))]] = True
        return found

    def without(self, keep: npt.NDArray[np.bool_]) -> Adjacency:
        """The entries with a true flag."""
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Adjacency(kept[self.starts], self.targets[keep], self.edges[keep], self.owners)


_NOTHING = np.zeros(0, np.int64)


def build(sources: npt.NDArray[Any], targets: npt.NDArray[Any], edges: npt.NDArray[Any], nodes: int) -> Adjacency:
    """Group edges by source, targets ascending inside a group."""
    order = _order(sources, targets)
    starts = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=nodes), out=starts[1:])
    return Adjacency(starts, targets[order].astype(np.int32), edges[order].astype(np.int32))


def build_few(sources: npt.NDArray[Any], targets: npt.NDArray[Any], edges: npt.NDArray[Any]) -> Adjacency:
    """As `build`, for edges that are few compared with the nodes."""
    order = np.lexsort((targets, sources))
    owners, starts = np.unique(sources[order], return_index=True)
    ends = np.append(starts, len(order)).astype(np.int64)
    return Adjacency(ends, targets[order].astype(np.int32), edges[order].astype(np.int32), owners.astype(np.int64))


def _order(sources: npt.NDArray[Any], targets: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Stable order by (source, target), as passes over 16-bit digits, which NumPy sorts in linear time."""
    order: npt.NDArray[np.int64] | None = None
    for keys in (targets, sources):
        highest = int(keys.max()) if len(keys) else 0
        shift = 0
        while shift == 0 or highest >> shift:
            digit = ((keys >> shift) % _DIGIT).astype(np.uint16)
            step = np.argsort(digit if order is None else digit[order], kind="stable")
            order = step if order is None else order[step]
            shift += 16
    return order if order is not None else _NOTHING


def repeats(adjacency: Adjacency) -> npt.NDArray[np.bool_]:
    """Entries that repeat the pair of the entry before: parallel edges."""
    same = np.zeros(len(adjacency.targets), np.bool_)
    if len(same) > 1:
        same[1:] = adjacency.targets[1:] == adjacency.targets[:-1]
        first = adjacency.starts[:-1]
        same[first[(first < len(same)) & (np.diff(adjacency.starts) > 0)]] = False
    return same


def contains(adjacency: Adjacency, sources: Positions, targets: Positions) -> npt.NDArray[np.bool_]:
    """Whether each pair is an edge."""
    rows, entries = adjacency.expand(sources)
    hits = adjacency.targets[entries] == targets[rows]
    found = np.zeros(len(sources), np.bool_)
    found[rows[hits]] = True
    return found
