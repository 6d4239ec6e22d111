"""Follows the edges of a traversal from bound nodes, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.engine.evaluate import matching_rows
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.pieces import cuts, slices
from omnigraph.engine.position_deltas import Positions
from omnigraph.query.plan.logical_plan import Expand
from omnigraph.query.typed import EdgeReading, Predicate, Traversal, Variable

if TYPE_CHECKING:
    from omnigraph.engine.reachable_pairs import PairSearch, Run
    from omnigraph.engine.topology import DirectedAdjacency, Topology

#: Testing predicates on the whole table pays once the rows to test are more than this share of it.
_WHOLE_TABLE = 0.25

#: So few origins times all edges cannot be much, and are followed without looking how many edges each has.
_SURELY_FEW = 1 << 18

#: What was followed: (row of the origin, target, edge row if the traversal binds its edge).
Followed: TypeAlias = tuple[Positions, Positions, Positions | None]


def followed(context: ExecutionContext, step: Expand, origins: Positions, width: int) -> Iterator[Followed]:
    """What a traversal leads to from each origin, piece by piece; at least one piece.

    Args:
        width: bytes that are held for each of them.
    """
    traversal, budget = step.traversal, context.budget
    topology = context.view.topology(traversal.edge_type)
    if traversal.edge is None and (traversal.min_hops, traversal.max_hops) != (1, 1):
        yield from _hops(context, step, topology, origins, width)
        return
    if len(origins) <= 1 or len(origins) * _entries(topology, traversal, step.origin) <= _SURELY_FEW:
        yield _at_once(topology, traversal, step.origin, origins)
        return
    counts = np.empty(len(origins), np.int64)
    for part in slices(len(origins)):
        budget.check()
        counts[part] = _sizes(topology, traversal, step.origin, origins[part])
    total = int(counts.sum())
    budget.hold(total * width)
    if total + len(origins) <= _SURELY_FEW:
        yield _at_once(topology, traversal, step.origin, origins)
        return
    for piece in cuts(counts):
        budget.check()
        rows, targets, edges = _at_once(topology, traversal, step.origin, origins[piece])
        yield rows + piece.start, targets, edges


def connected(
    context: ExecutionContext, traversal: Traversal, left: Positions, right: Positions
) -> npt.NDArray[np.bool_]:
    """Whether each pair is joined by an edge of a traversal of one hop."""
    out = context.view.topology(traversal.edge_type).out
    ways = [(left, right) if leaves(traversal, traversal.left) else (right, left)]
    if traversal.reading is EdgeReading.UNDIRECTED:
        ways = [(left, right), (right, left)]
    found = np.zeros(len(left), np.bool_)
    for sources, targets in ways:
        if len(sources) * out.entries <= _SURELY_FEW:
            found |= out.connects(sources, targets)
            continue
        for part in slices(len(sources)):
            here, there = sources[part], targets[part]
            for piece in cuts(out.sizes(here)):
                context.budget.check()
                found[part][piece] |= out.connects(here[piece], there[piece])
    return found


def leaves(traversal: Traversal, origin: Variable) -> bool:
    """Whether edges are followed in their own direction from a bound end."""
    if traversal.reading is EdgeReading.UNDIRECTED or traversal.left == traversal.right:
        return True
    return traversal.source == origin


class TargetTest:
    """Which positions satisfy predicates about their variable, each row of the table tested at most once or so."""

    def __init__(self, context: ExecutionContext, predicates: tuple[Predicate, ...], variable: Variable) -> None:
        self._context = context
        self._predicates = predicates
        self._variable = variable
        self._tested = 0
        self._every: npt.NDArray[np.bool_] | None = None

    def passing(self, positions: Positions) -> npt.NDArray[np.bool_]:
        self._tested += len(positions)
        if self._every is None and self._tested > _WHOLE_TABLE * len(self._context.rows(self._variable)):
            self._every = matching_rows(self._context, self._predicates, self._variable, None)
        if self._every is not None:
            return self._every[positions]
        return matching_rows(self._context, self._predicates, self._variable, positions)


def _hops(
    context: ExecutionContext, step: Expand, topology: Topology, origins: Positions, width: int
) -> Iterator[Followed]:
    traversal = step.traversal
    edge = context.view.catalog.edges[traversal.edge_type]
    if edge.source != edge.target:  # edges between different types cannot be chained
        if traversal.min_hops != 1:
            yield origins[:0], origins[:0], None
            return
        single = Traversal(traversal.edge_type, traversal.left, traversal.right, traversal.reading)
        yield from followed(context, Expand(single, step.origin, step.target), origins, width)
        return
    bound = np.flatnonzero(origins >= 0)
    unique, inverse = np.unique(origins[bound], return_inverse=True)
    search = _search(context, step, topology)
    looped = None
    if step.origin == traversal.right and traversal.left != traversal.right:
        looped = topology.out.connects(unique, unique)
    nothing = True
    by_origin: Positions | None = None
    for part, runs in search.pairs(unique, looped):
        which = bound
        own = inverse
        if part != slice(0, len(unique)):
            if by_origin is None:
                by_origin = np.argsort(inverse, kind="stable")
            first, last = np.searchsorted(inverse[by_origin], [part.start, part.stop]).tolist()
            which, own = bound[by_origin[first:last]], inverse[by_origin[first:last]] - part.start
        for found in _assembled(context, runs, part.stop - part.start, own, width):
            nothing = False
            yield which[found[0]], found[1], None
    if nothing:
        yield origins[:0], origins[:0], None


def _search(context: ExecutionContext, step: Expand, topology: Topology) -> PairSearch:
    from omnigraph.engine.reachable_pairs import PairSearch, Way

    traversal, origin = step.traversal, step.origin
    way = Way(
        lambda frontier: _neighbours(topology, traversal, origin, frontier),
        lambda frontier: _sizes(topology, traversal, origin, frontier),
        _entries(topology, traversal, origin),
    )
    return PairSearch(way, len(context.rows(step.target)), traversal.min_hops, traversal.max_hops, context.budget)


def _assembled(
    context: ExecutionContext, runs: list[Run], origins: int, own: Positions, width: int
) -> Iterator[tuple[Positions, Positions]]:
    """What each of some rows leads to, by the runs of its origin: (row, target), rows ascending."""
    starts = [np.searchsorted(rows, np.arange(origins + 1)) for rows, _ in runs if len(rows)]
    found = [targets for rows, targets in runs if len(rows)]
    if not found:
        return
    total = sum(each[1:] - each[:-1] for each in starts)
    counts = np.asarray(total)[own]
    context.budget.hold(int(counts.sum()) * width)
    for piece in cuts(counts):
        context.budget.check()
        mine = own[piece]
        parts = []
        for begins, targets in zip(starts, found, strict=True):
            sizes = begins[mine + 1] - begins[mine]
            base = np.repeat(begins[mine] - (np.cumsum(sizes) - sizes), sizes)
            parts.append((np.repeat(np.arange(len(mine)), sizes), targets[np.arange(len(base)) + base]))
        rows = np.concatenate([each for each, _ in parts])
        order = np.argsort(rows, kind="stable")
        yield rows[order] + piece.start, np.concatenate([each for _, each in parts])[order]


def _direction(topology: Topology, traversal: Traversal, origin: Variable) -> DirectedAdjacency:
    """Edges as seen from a bound end."""
    return topology.out if leaves(traversal, origin) else topology.into


def _entries(topology: Topology, traversal: Traversal, origin: Variable) -> int:
    """No node has more edges than this."""
    if traversal.reading is EdgeReading.UNDIRECTED:
        return topology.out.entries + topology.into.entries
    return _direction(topology, traversal, origin).entries


def _sizes(topology: Topology, traversal: Traversal, origin: Variable, frontier: Positions) -> Positions:
    """At least the number of edges that go on from each position."""
    each = traversal.edge is not None
    if traversal.reading is EdgeReading.UNDIRECTED:
        return topology.out.sizes(frontier, edges=each) + topology.into.sizes(frontier, edges=each)
    return _direction(topology, traversal, origin).sizes(frontier, edges=each)


def _at_once(topology: Topology, traversal: Traversal, origin: Variable, frontier: Positions) -> Followed:
    if traversal.edge is not None:
        return _incident(topology, traversal, origin, frontier)
    return *_neighbours(topology, traversal, origin, frontier), None


def _neighbours(
    topology: Topology, traversal: Traversal, origin: Variable, frontier: Positions
) -> tuple[Positions, Positions]:
    if traversal.reading is not EdgeReading.UNDIRECTED:
        return _direction(topology, traversal, origin).neighbours(frontier)
    out_rows, out = topology.out.neighbours(frontier)
    in_rows, into = topology.into.neighbours(frontier)
    rows, targets = np.concatenate([out_rows, in_rows]), np.concatenate([out, into])
    width = int(targets.max()) + 1 if len(targets) else 1
    keys = np.unique(rows * width + targets)
    return keys // width, keys % width


def _incident(topology: Topology, traversal: Traversal, origin: Variable, frontier: Positions) -> Followed:
    if traversal.reading is not EdgeReading.UNDIRECTED:
        return _direction(topology, traversal, origin).incident(frontier)
    out, into = topology.out.incident(frontier), topology.into.incident(frontier)
    loops = into[1] == frontier[into[0]]  # a loop lies in both directions but is one edge
    rows, targets, edges = (np.concatenate([a, b[~loops]]) for a, b in zip(out, into, strict=True))
    return rows, targets, edges
