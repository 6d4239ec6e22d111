"""Who is connected to whom through one edge type, in both directions.

Built once from the edge table and then carried forward: a commit that adds edges adds a small layer, one that removes
edges filters the arrays. `pairs` counts parallel edges once, as a traversal without edge variable does; `edges` has
every edge row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.adjacency import Adjacency, Positions, build, build_few, contains, repeats
from omnigraph.engine.rows import Rows

#: Added edges are merged into one structure when they are more than this share of it.
_LAYER_SHARE = 0.05

#: A small layer is merged with the one below while that is at most this many times larger.
_MERGE_RATIO = 4


@dataclass(frozen=True, slots=True)
class Direction:
    """Neighbours in one direction: a large layer and, after commits, small ones on top.

    Attributes:
        pairs: layers in which every pair of nodes occurs once.
        edges: layers with every edge row; the same arrays where there are no parallel edges.
    """

    pairs: tuple[Adjacency, ...]
    edges: tuple[Adjacency, ...]

    @property
    def nbytes(self) -> int:
        layers = {id(layer): layer for layer in (*self.pairs, *self.edges)}
        return sum(layer.nbytes for layer in layers.values())

    @property
    def has_parallel_edges(self) -> bool:
        return any(pairs is not edges for pairs, edges in zip(self.pairs, self.edges, strict=True))

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

    def degrees(self, nodes: int) -> npt.NDArray[np.int64]:
        return np.asarray(np.sum([layer.degrees(nodes) for layer in self.pairs], axis=0), np.int64)


@dataclass(frozen=True, slots=True)
class Topology:
    """Both directions of one edge type over the positions of its two node types."""

    out: Direction
    into: Direction
    size: int

    @property
    def nbytes(self) -> int:
        return self.out.nbytes + self.into.nbytes


def build_topology(edges: Rows, sources: Rows, targets: Rows) -> Topology:
    """Read all edges and resolve their endpoints."""
    live = edges.all_positions()
    from_ = sources.locate(edges.column("src").take(pa.array(live)))
    to = targets.locate(edges.column("dst").take(pa.array(live)))
    keep = (from_ >= 0) & (to >= 0)
    return _topology([_Edges(from_[keep], to[keep], live[keep])], len(sources), len(targets))


def carry_forward(old: Topology, edges: Rows, sources: Rows, targets: Rows) -> Topology | None:
    """The topology after the last change of the edge table, or None when building it anew is cheaper."""
    delta = edges.delta
    if delta is None or (len(old.out.pairs) > 1 and len(delta.removed)):
        return None
    written = edges.added(["src", "dst"])
    if _endpoints_moved(edges, written):
        return None
    added = written.take(pa.array(delta.inserted_source))
    first = len(edges) - len(delta.inserted_source)
    from_ = sources.locate(added.column("src").combine_chunks())
    to = targets.locate(added.column("dst").combine_chunks())
    new = _Edges(from_, to, np.arange(first, len(edges)))
    if len(delta.removed):
        dead = np.zeros(len(edges), np.bool_)
        dead[delta.removed] = True
        if old.out.has_parallel_edges:
            return None  # with parallel edges a pair may live on
        old = Topology(_without(old.out, dead), _without(old.into, dead), old.size)
    extra = sum(len(layer.targets) for layer in old.out.edges[1:]) + len(from_)
    if extra > max(1_024, _LAYER_SHARE * old.size):
        return None
    if len(from_) == 0:
        return old
    return Topology(
        _with_layer(old.out, new.from_, new.to, new.rows),
        _with_layer(old.into, new.to, new.from_, new.rows),
        old.size,
    )


def _endpoints_moved(edges: Rows, written: pa.Table) -> bool:
    """Whether a rewritten edge now connects other nodes. Folding small files rewrites edges as they are."""
    delta, previous = edges.delta, edges.previous
    if delta is None or previous is None or len(delta.updated) == 0:
        return False
    now = written.take(pa.array(delta.update_source))
    return any(
        not now.column(end).combine_chunks().equals(previous.values(end, delta.updated)) for end in ("src", "dst")
    )


def ends_are_alive(topology: Topology, sources: Rows, targets: Rows) -> bool:
    """Whether a topology of older or newer nodes holds for these: a node that was removed and inserted has moved."""
    return _are_alive(topology.out, sources) and _are_alive(topology.into, targets)


def _are_alive(direction: Direction, nodes: Rows) -> bool:
    for layer in direction.edges:
        if nodes.alive is None and layer.nodes <= len(nodes):
            continue
        used, _ = layer.filled()
        if len(used) and int(used[-1]) >= len(nodes):
            return False
        if nodes.alive is not None and not nodes.alive[used].all():
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Edges:
    from_: Positions
    to: Positions
    rows: Positions


def _topology(groups: list[_Edges], sources: int, targets: int) -> Topology:
    (edges,) = groups
    return Topology(
        _direction(build(edges.from_, edges.to, edges.rows, sources)),
        _direction(build(edges.to, edges.from_, edges.rows, targets)),
        len(edges.rows),
    )


def _direction(all_edges: Adjacency) -> Direction:
    again = repeats(all_edges)
    pairs = all_edges.without(~again) if again.any() else all_edges
    return Direction((pairs,), (all_edges,))


def _with_layer(old: Direction, sources: Positions, targets: Positions, rows: Positions) -> Direction:
    layer = build_few(sources, targets, rows)
    again = repeats(layer) | old.connects(layer.sources(), layer.targets.astype(np.int64))
    if not again.any() and not old.has_parallel_edges:
        layers = _stacked(old.edges, layer)
        return Direction(layers, layers)
    return Direction(_stacked(old.pairs, layer.without(~again)), _stacked(old.edges, layer))


def _stacked(layers: tuple[Adjacency, ...], top: Adjacency) -> tuple[Adjacency, ...]:
    """A layer on top of others; small ones are merged, so that there are few however many commits came."""
    rest = list(layers)
    while len(rest) > 1 and len(rest[-1].targets) <= _MERGE_RATIO * len(top.targets):
        below = rest.pop()
        top = build_few(
            np.concatenate([below.sources(), top.sources()]),
            np.concatenate([below.targets, top.targets]),
            np.concatenate([below.edges, top.edges]),
        )
    return (*rest, top)


def _without(old: Direction, dead: npt.NDArray[np.bool_]) -> Direction:
    layers = tuple(layer.without(~dead[layer.edges]) for layer in old.edges)
    return Direction(layers, layers)
