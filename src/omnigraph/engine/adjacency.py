"""Neighbours of nodes as compressed sparse rows.

For node ``n`` the neighbours are the slice ``targets[starts[n]:starts[n + 1]]``. Plain arrays; knows nothing of types
or tables. What lies further away is found by `reachable_pairs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.engine.position_deltas import Positions

Index = npt.NDArray[np.int32]

_DIGIT = 1 << 16

#: A frontier with more than one node in this many is followed by passing over all edges.
_BULK = 16

#: So few edge rows are looked for one after the other.
_FEW_EDGES = 8


@dataclass(frozen=True)
class Adjacency:
    """Edges of one direction, grouped by node.

    Attributes:
        starts: where the entries of each slot begin, and one more.
        targets: neighbour positions; inside one node ascending.
        edges: position of the edge row behind each entry.
        owners: the node of each slot, ascending; None when slot ``n`` belongs to node ``n``. Few edges among many nodes
            are kept with owners.
        holes: entries that do not count any more, ascending. Few edges are taken out without copying the others.
    """

    starts: npt.NDArray[np.int64]
    targets: Index
    edges: Index
    owners: Positions | None = None
    holes: Positions | None = None

    @property
    def nodes(self) -> int:
        """Positions that may have entries."""
        if self.owners is None:
            return len(self.starts) - 1
        return int(self.owners[-1]) + 1 if len(self.owners) else 0

    def parts(self) -> Iterator[tuple[object, int]]:
        """The arrays and their bytes. Layers that differ in their holes share them."""
        held = (self.starts, self.targets, self.edges, self.owners, self.holes, self.__dict__.get("counts"))
        return ((array, array.nbytes) for array in held if array is not None)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of entries of each slot."""
        counts = np.diff(self.starts)
        if self.holes is not None:
            np.subtract.at(counts, np.searchsorted(self.starts, self.holes, side="right") - 1, 1)
        return counts

    @property
    def removed(self) -> int:
        return 0 if self.holes is None else len(self.holes)

    def filled(self) -> tuple[Positions, npt.NDArray[np.int64]]:
        """The nodes that have entries, and where those begin. What lies between them are holes."""
        slots = np.flatnonzero(self.counts)
        return (slots if self.owners is None else self.owners[slots]), self.starts[slots]

    def entries(self) -> tuple[Positions, Index, Index]:
        """Node, neighbour and edge row of each entry."""
        owners = np.arange(self.nodes) if self.owners is None else self.owners
        sources = np.repeat(owners, np.diff(self.starts))
        if self.holes is None:
            return sources, self.targets, self.edges
        return (
            np.delete(sources, self.holes),
            np.delete(self.targets, self.holes),
            np.delete(self.edges, self.holes),
        )

    def expand(self, frontier: Positions) -> tuple[Positions, npt.NDArray[np.int64]]:
        """For each frontier row its entries: (row of the frontier, entry), rows ascending."""
        if len(frontier) == 1:
            rows, entries = self._entries_of(int(frontier[0]))
        else:
            slots = self._slots(frontier)
            first = self.starts[slots]
            counts = self.starts[slots + 1] - first
            if len(slots) and int(slots.min()) < 0:
                counts = np.where(slots < 0, 0, counts)
            rows = np.repeat(np.arange(len(slots)), counts)
            before = np.cumsum(counts) - counts
            entries = np.arange(len(rows)) + np.repeat(first - before, counts)
        if self.holes is None or len(entries) == 0:
            return rows, entries
        keep = ~among(self.holes, entries)
        return rows[keep], entries[keep]

    def sizes(self, frontier: Positions) -> npt.NDArray[np.int64]:
        """How many entries each row of a frontier has, holes included."""
        if self.nodes == 0:
            return np.zeros(len(frontier), np.int64)
        slots = self._slots(frontier)
        return np.where(slots < 0, 0, self.starts[slots + 1] - self.starts[slots])

    def reach(self, frontier: Positions) -> int:
        """How many entries a frontier has, holes included."""
        slots = self._slots(frontier)
        slots = slots[slots >= 0]
        return int((self.starts[slots + 1] - self.starts[slots]).sum())

    def _entries_of(self, node: int) -> tuple[Positions, npt.NDArray[np.int64]]:
        if self.owners is None:
            slot = node if 0 <= node < self.nodes else -1
        else:
            slot = int(np.searchsorted(self.owners, node))
            slot = slot if slot < len(self.owners) and self.owners[slot] == node else -1
        if slot < 0:
            return _NOTHING, _NOTHING
        entries = np.arange(self.starts[slot], self.starts[slot + 1])
        return np.zeros(len(entries), np.int64), entries

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
            through = np.repeat(marked, np.diff(self.starts))
            if self.holes is not None:
                through[self.holes] = False
            found[self.targets[through]] = True
        return found

    def without(self, keep: npt.NDArray[np.bool_]) -> Adjacency:
        """The entries with a true flag."""
        if self.holes is not None:
            keep = keep.copy()
            keep[self.holes] = False
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Adjacency(kept[self.starts], self.targets[keep], self.edges[keep], self.owners)

    def punched(self, entries: Positions) -> Adjacency:
        """Without some entries; the arrays stay."""
        if len(entries) == 0:
            return self
        holes = np.unique(entries) if self.holes is None else np.union1d(self.holes, entries)
        return Adjacency(self.starts, self.targets, self.edges, self.owners, holes)

    def where(self, edges: Positions) -> Positions:
        """The entries of some edge rows, found by looking at all entries."""
        if len(edges) <= _FEW_EDGES:
            found = [np.flatnonzero(self.edges == edge) for edge in edges.tolist()]
            entries = np.concatenate(found) if found else _NOTHING
        else:
            entries = np.flatnonzero(np.isin(self.edges, edges))
        return entries if self.holes is None else entries[~among(self.holes, entries)]


def degrees(layers: tuple[Adjacency, ...], nodes: int) -> npt.NDArray[np.int64]:
    """Number of entries of each of the first ``nodes`` positions, in all layers."""
    total = np.zeros(nodes, np.int64)
    for layer in layers:
        if layer.owners is None:
            total[: layer.nodes] += layer.counts[:nodes]
        else:
            total[layer.owners] += layer.counts
    return total


def among(ascending: Positions, wanted: Positions) -> npt.NDArray[np.bool_]:
    """Which of the wanted numbers are in an ascending list."""
    if len(ascending) == 0:
        return np.zeros(len(wanted), np.bool_)
    where = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.asarray(ascending[where] == wanted)


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
