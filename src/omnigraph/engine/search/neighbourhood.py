"""What lies around a node: the nodes within some edges of it, along all edge types in both directions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.search.search_result import SearchNeighbour
from omnigraph.read_budget import UNBOUNDED, ReadBudget


def neighbourhood(
    view: GraphView, type_name: str, start: Positions, hops: int, budget: ReadBudget = UNBOUNDED
) -> tuple[tuple[SearchNeighbour, ...], int]:
    """The nearest nodes, by distance, edge type, node type and id, and how many there are in all."""
    shown: list[SearchNeighbour] = []
    count = 0
    seen = {type_name: start}
    frontier = {type_name: start}
    for distance in range(1, hops + 1):
        reached: dict[str, list[Positions]] = {}
        for edge, name, positions in _steps(view, frontier, budget):
            fresh = np.setdiff1d(positions, seen.get(name, positions[:0]))
            if len(fresh) == 0:
                continue
            seen[name] = np.union1d(seen.get(name, fresh[:0]), fresh)
            reached.setdefault(name, []).append(fresh)
            count += len(fresh)
            room = limits.SEARCH_NEIGHBOURS - len(shown)
            if room:
                ids = view.nodes(name).values("id", fresh)
                first = ids.take(pc.sort_indices(ids)[:room])
                shown += [SearchNeighbour(name, each, distance, edge) for each in first.to_pylist()]
        frontier = {name: np.concatenate(parts) for name, parts in reached.items()}
    return tuple(shown), count


def _steps(view: GraphView, frontier: dict[str, Positions], budget: ReadBudget) -> Iterator[tuple[str, str, Positions]]:
    """Edge type, node type and nodes that one edge leads to; out of the frontier first, then into it."""
    for edge in view.catalog.edges.values():
        for near, far, forwards in ((edge.source, edge.target, True), (edge.target, edge.source, False)):
            if near in frontier:
                budget.check()
                topology = view.topology(edge.name)
                direction = topology.out if forwards else topology.into
                yield edge.name, far, direction.reached(frontier[near], len(view.nodes(far)))
