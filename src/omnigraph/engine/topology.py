"""Who is connected to whom through one edge type, in both directions.

Built once from the edge table and then carried forward: a commit that adds edges adds a small layer, one that removes
edges marks their entries as holes. `pairs` counts parallel edges once, as a traversal without edge variable does;
`edges` has every edge row.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.adjacency import Adjacency, build, build_few, contains, repeats
from omnigraph.engine.pieces import finished
from omnigraph.engine.position_deltas import PositionDelta, Positions
from omnigraph.engine.table_rows import TableRows
from omnigraph.schema.catalog import SOURCE_COLUMN, TARGET_COLUMN

#: Added and removed edges are merged into one structure when they are more than this share of it.
_LAYER_SHARE = 0.05

#: So few of them never are: building anew costs more than their detour.
_FEW_CHANGES = 1_024

#: So many changes may wait for somebody to go against the direction of the edges.
_LONGEST_WAIT = 32

#: A small layer is merged with the one below while that is at most this many times larger, or this small.
_MERGE_RATIO = 4
_MERGE_ALWAYS = 1_024


@dataclass(frozen=True, slots=True)
class DirectedAdjacency:
    """Neighbours in one direction: a large layer and, after commits, small ones on top.

    Attributes:
        pairs: layers in which every pair of nodes occurs once.
        edges: layers with every edge row; the same object where there are no parallel edges.
    """

    pairs: tuple[Adjacency, ...]
    edges: tuple[Adjacency, ...]

    def parts(self) -> Iterator[tuple[object, int]]:
        """What is held in memory, and its bytes; versions share most of it."""
        for layer in (*self.pairs, *self.edges):
            yield from layer.parts()

    @property
    def has_parallel_edges(self) -> bool:
        return self.pairs is not self.edges

    def sizes(self, frontier: Positions, *, edges: bool = False) -> npt.NDArray[np.int64]:
        """At least the number of neighbours, or of edges, of each row of a frontier."""
        first, *others = self.edges if edges else self.pairs
        sizes = first.sizes(frontier)
        for layer in others:
            sizes += layer.sizes(frontier)
        return sizes

    @property
    def entries(self) -> int:
        """At least the number of edges."""
        return sum(len(layer.targets) for layer in self.edges)

    def neighbours(self, frontier: Positions) -> tuple[Positions, Positions]:
        """(row of the frontier, neighbour), each pair once."""
        found = [(rows, layer.targets[entries]) for layer in self.pairs for rows, entries in [layer.expand(frontier)]]
        rows = np.concatenate([rows for rows, _ in found]) if len(found) > 1 else found[0][0]
        targets = np.concatenate([targets for _, targets in found]) if len(found) > 1 else found[0][1]
        return rows, targets.astype(np.int64)

    def incident(self, frontier: Positions) -> tuple[Positions, Positions, Positions]:
        """(row of the frontier, neighbour, edge row), once per edge."""
        found = [
            (rows, layer.targets[entries], layer.edges[entries])
            for layer in self.edges
            for rows, entries in [layer.expand(frontier)]
        ]
        rows, targets, edges = (np.concatenate([part[i] for part in found]) for i in range(3))
        return rows, targets.astype(np.int64), edges.astype(np.int64)

    def reached(self, frontier: Positions, nodes: int) -> Positions:
        """The neighbours of a frontier, each once, ascending."""
        found = np.zeros(nodes, np.bool_)
        for layer in self.pairs:
            found |= layer.reached(frontier, nodes)
        return np.flatnonzero(found)

    def connects(self, sources: Positions, targets: Positions) -> npt.NDArray[np.bool_]:
        """Whether each pair is connected."""
        found = np.zeros(len(sources), np.bool_)
        for layer in self.pairs:
            found |= contains(layer, sources, targets)
        return found


@dataclass(frozen=True, slots=True)
class _Edges:
    from_: Positions
    to: Positions
    rows: Positions

    def at(self, keep: npt.NDArray[np.bool_]) -> _Edges:
        return self if keep.all() else _Edges(self.from_[keep], self.to[keep], self.rows[keep])

    def reversed(self) -> _Edges:
        return _Edges(self.to, self.from_, self.rows)


@dataclass(frozen=True)
class Topology:
    """Both directions of one edge type over the positions of its two node types.

    Attributes:
        out: from sources to targets.
        size: number of edges when it was built.
        width: all positions of targets are below this.
    """

    out: DirectedAdjacency
    _into: DirectedAdjacency
    size: int
    width: int
    _waiting: tuple[_EdgeDelta, ...] = ()

    @cached_property
    def into(self) -> DirectedAdjacency:
        """From targets to sources. Changes reach it when somebody goes that way."""
        direction = self._into
        for step in self._waiting:
            direction = step.on(direction, backwards=True)
        return direction

    def changed(self, step: _EdgeDelta) -> Topology:
        out, width = step.on(self.out), max(self.width, int(step.new.to.max(initial=-1)) + 1)
        if "into" in self.__dict__ or len(self._waiting) >= _LONGEST_WAIT:
            return Topology(out, self.into, self.size, width, (step,))
        return Topology(out, self._into, self.size, width, (*self._waiting, step))

    @property
    def changes(self) -> int:
        """Entries that were added or taken out since it was built."""
        return sum(layer.removed for layer in self.out.edges) + sum(len(layer.targets) for layer in self.out.edges[1:])

    def parts(self) -> Iterator[tuple[object, int]]:
        yield from self.out.parts()
        yield from self.__dict__.get("into", self._into).parts()


@dataclass(frozen=True, slots=True)
class _EdgeDelta:
    """Edges that a commit took out and put in."""

    gone: Positions
    new: _Edges

    def on(self, direction: DirectedAdjacency, *, backwards: bool = False) -> DirectedAdjacency:
        if len(self.gone):
            layers = tuple(layer.punched(layer.where(self.gone)) for layer in direction.edges)
            direction = DirectedAdjacency(layers, layers)
        if len(self.new.rows):
            direction = _with_layer(direction, self.new.reversed() if backwards else self.new)
        return direction


def build_topology(edges: TableRows, sources: TableRows, targets: TableRows) -> Topology:
    """Read all edges and resolve their endpoints."""
    return finished(topology_made(edges, sources, targets))


def topology_made(edges: TableRows, sources: TableRows, targets: TableRows) -> Generator[None, None, Topology]:
    """The same, with pauses."""
    live = edges.all_positions()
    from_ = sources.locate(edges.column(SOURCE_COLUMN).take(pa.array(live)))
    yield
    to = targets.locate(edges.column(TARGET_COLUMN).take(pa.array(live)))
    yield
    keep = (from_ >= 0) & (to >= 0)
    found = _Edges(from_[keep], to[keep], live[keep])
    yield
    out = _direction(build(found.from_, found.to, found.rows, len(sources)))
    yield
    into = _direction(build(found.to, found.from_, found.rows, len(targets)))
    return Topology(out, into, len(found.rows), len(targets))


def carry_forward(
    old: Topology, deltas: list[PositionDelta], sources: TableRows, targets: TableRows
) -> Topology | None:
    """The topology after some changes of the edge table, or None when building it anew is cheaper."""
    topology: Topology | None = old
    for delta in deltas:
        if topology is not None:
            topology = _carried(topology, delta, sources, targets)
    return topology


def _carried(old: Topology, delta: PositionDelta, sources: TableRows, targets: TableRows) -> Topology | None:
    new = _Edges(
        sources.locate(delta.written_column(SOURCE_COLUMN)),
        targets.locate(delta.written_column(TARGET_COLUMN)),
        delta.written,
    )
    gone, rewritten = delta.removed, len(delta.updated)
    if rewritten:  # most often their ends are what they were
        moved = ~_is_entry(old.out, new)
        moved[rewritten:] = True
        gone = np.concatenate([gone, delta.updated[moved[:rewritten]]])
        new = new.at(moved)
    new = new.at((new.from_ >= 0) & (new.to >= 0))
    if len(gone) and old.out.has_parallel_edges:
        return None  # a pair of nodes may stay connected
    if len(gone) == 0 and len(new.rows) == 0:
        return old
    topology = old.changed(_EdgeDelta(gone, new))
    return topology if topology.changes <= max(_FEW_CHANGES, _LAYER_SHARE * old.size) else None


def _is_entry(direction: DirectedAdjacency, edges: _Edges) -> npt.NDArray[np.bool_]:
    """Which edges a direction has, between these ends and as these rows."""
    found = np.zeros(len(edges.rows), np.bool_)
    for layer in direction.edges:
        rows, entries = layer.expand(edges.from_)
        same = (layer.targets[entries] == edges.to[rows]) & (layer.edges[entries] == edges.rows[rows])
        found[rows[same]] = True
    return found


def ends_are_alive(topology: Topology, sources: TableRows, targets: TableRows) -> bool:
    """Whether a topology of older or newer nodes holds for these: a node that was removed and inserted has moved."""
    if targets.alive is not None or topology.width > len(targets):
        return _are_alive(topology.out, sources) and _are_alive(topology.into, targets)
    return _are_alive(topology.out, sources)


def _are_alive(direction: DirectedAdjacency, nodes: TableRows) -> bool:
    for layer in direction.edges:
        if nodes.alive is None and layer.nodes <= len(nodes):
            continue
        used, _ = layer.filled()
        if len(used) and int(used[-1]) >= len(nodes):
            return False
        if nodes.alive is not None and not nodes.alive[used].all():
            return False
    return True


def _direction(all_edges: Adjacency) -> DirectedAdjacency:
    again = repeats(all_edges)
    edges = (all_edges,)
    return DirectedAdjacency((all_edges.without(~again),) if again.any() else edges, edges)


def _with_layer(old: DirectedAdjacency, new: _Edges) -> DirectedAdjacency:
    again = old.connects(new.from_, new.to)
    if len(new.rows) > 1:
        _, first = np.unique(new.from_ * (int(new.to.max()) + 1) + new.to, return_index=True)
        repeated = np.ones(len(new.rows), np.bool_)
        repeated[first] = False
        again |= repeated
    if not again.any() and not old.has_parallel_edges:
        layers = _stacked(old.edges, new)
        return DirectedAdjacency(layers, layers)
    return DirectedAdjacency(_stacked(old.pairs, new.at(~again)), _stacked(old.edges, new))


def _stacked(layers: tuple[Adjacency, ...], new: _Edges) -> tuple[Adjacency, ...]:
    """Edges on top of layers; small layers are merged, so that there are few however many commits came."""
    if len(new.rows) == 0:
        return layers
    rest = list(layers)
    merged: list[tuple[npt.NDArray[Any], ...]] = [(new.from_, new.to, new.rows)]
    size = len(new.rows)
    while len(rest) > 1 and len(rest[-1].targets) <= max(_MERGE_RATIO * size, _MERGE_ALWAYS):
        below = rest.pop()
        merged.append(below.entries())
        size += len(below.targets)
    sources, targets, edges = (np.concatenate(parts) for parts in zip(*merged, strict=True))
    return (*rest, build_few(sources, targets, edges))
