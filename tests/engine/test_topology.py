"""Adjacency that is changed step by step equals adjacency that is built at once."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from omnigraph.engine.adjacency import Adjacency, build, build_few, contains, degrees
from omnigraph.engine.factorized_aggregation import _sum_neighbours
from omnigraph.engine.topology import DirectedAdjacency, Topology, _direction, _EdgeDelta, _Edges

NODES = 12

#: (source, target, edge row)
Triple = tuple[int, int, int]


def numbers(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def edges_of(triples: list[Triple]) -> _Edges:
    return _Edges(*(numbers([triple[i] for triple in triples]) for i in range(3)))


def built(triples: list[Triple]) -> Topology:
    found = edges_of(triples)
    return Topology(
        _direction(build(found.from_, found.to, found.rows, NODES)),
        _direction(build(found.to, found.from_, found.rows, NODES)),
        len(triples),
        NODES,
    )


def check_direction(direction: DirectedAdjacency, triples: list[Triple]) -> None:
    """Every way of asking a direction gives what the list of edges says."""
    pairs = {(source, target) for source, target, _ in triples}
    everybody = np.arange(NODES)
    for frontier in (everybody, numbers([3]), numbers([5, 5, 1]), numbers([])):
        rows, targets = direction.neighbours(frontier)
        asked = [(row, t) for row, node in enumerate(frontier.tolist()) for s, t in pairs if s == node]
        assert Counter(zip(rows.tolist(), targets.tolist(), strict=True)) == Counter(asked)
        rows, targets, edges = direction.incident(frontier)
        asked_edges = [(row, t, e) for row, node in enumerate(frontier.tolist()) for s, t, e in triples if s == node]
        assert Counter(zip(rows.tolist(), targets.tolist(), edges.tolist(), strict=True)) == Counter(asked_edges)
        wanted = {t for s, t in pairs if s in frontier.tolist()}
        assert direction.reached(frontier, NODES).tolist() == sorted(wanted)
    counts = Counter(source for source, _, _ in triples)
    assert degrees(direction.edges, NODES).tolist() == [counts[node] for node in range(NODES)]
    sources, targets = np.repeat(everybody, NODES), np.tile(everybody, NODES)
    found = direction.connects(sources, targets)
    assert set(zip(sources[found].tolist(), targets[found].tolist(), strict=True)) == pairs
    weights = np.arange(NODES) + 1
    sums = np.sum([_sum_neighbours(layer, weights, NODES) for layer in direction.edges], axis=0)
    expected = [sum(t + 1 for s, t, _ in triples if s == node) for node in range(NODES)]
    assert np.asarray(sums).tolist() == expected
    used = {node for layer in direction.edges for node in layer.filled()[0].tolist()}
    assert used == set(counts)


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_topology_equals_a_built_one(seed: int) -> None:
    rng = random.Random(seed)
    every = [(s, t) for s in range(NODES) for t in range(NODES)]
    triples = [(s, t, row) for row, (s, t) in enumerate(rng.sample(every, 30))]
    topology, next_row = built(triples), len(triples)
    for _ in range(20):
        gone = rng.sample(triples, rng.choice([0, 1, 3, 10]) if len(triples) > 10 else 0)
        left = [triple for triple in triples if triple not in gone]
        free = [pair for pair in every if pair not in {(s, t) for s, t, _ in left}]
        new = [(s, t, next_row + i) for i, (s, t) in enumerate(rng.sample(free, rng.choice([0, 1, 2, 9])))]
        next_row += len(new)
        topology = topology.changed(_EdgeDelta(edges_of(gone).rows, edges_of(new)))
        triples = left + new
        check_direction(topology.out, triples)
        if rng.random() < 0.3:  # the other direction waits for whoever goes that way
            check_direction(topology.into, [(t, s, row) for s, t, row in triples])
    check_direction(topology.into, [(t, s, row) for s, t, row in triples])


def test_parallel_edges_that_are_added_count_once_as_pairs() -> None:
    topology = built([(0, 1, 0), (1, 2, 1)])
    triples = [(0, 1, 0), (1, 2, 1), (0, 1, 2), (0, 1, 3), (4, 4, 4), (4, 4, 5)]
    topology = topology.changed(_EdgeDelta(numbers([]), edges_of(triples[2:])))
    assert topology.out.has_parallel_edges
    check_direction(topology.out, triples)
    check_direction(topology.into, [(t, s, row) for s, t, row in triples])


def test_an_older_topology_is_not_touched_by_later_changes() -> None:
    triples = [(0, 1, 0), (0, 2, 1), (3, 0, 2)]
    older = built(triples)
    older.changed(_EdgeDelta(numbers([0, 2]), edges_of([(5, 6, 3)])))
    check_direction(older.out, triples)
    check_direction(older.into, [(t, s, row) for s, t, row in triples])


def test_many_edge_rows_are_found_as_few_are() -> None:
    rows = np.random.default_rng(3).permutation(500)
    adjacency = build(rows % 7, rows % 11, rows, 7)
    wanted = rows[:40]
    one_by_one = np.concatenate([adjacency.where(wanted[i : i + 1]) for i in range(40)])
    assert sorted(adjacency.where(wanted).tolist()) == sorted(one_by_one.tolist())
    punched = adjacency.punched(one_by_one)
    assert len(punched.where(wanted)) == 0
    assert punched.removed == 40


def test_entries_without_holes_can_be_built_again() -> None:
    layer = build_few(numbers([5, 2, 5]), numbers([1, 4, 0]), numbers([7, 8, 9])).punched(numbers([1]))
    again = build_few(*layer.entries())
    assert again.owners is not None
    assert contains(again, numbers([2, 5, 5]), numbers([4, 1, 0])).tolist() == [True, True, False]


def test_nodes_beyond_a_layer_have_no_entries() -> None:
    empty = Adjacency(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert empty.expand(numbers([0, 3]))[1].tolist() == []
    assert empty.reach(numbers([4])) == 0
    small = build(numbers([0]), numbers([0]), numbers([0]), 1)
    assert [part.tolist() for part in small.expand(numbers([9]))] == [[], []]
    assert [part.tolist() for part in small.expand(numbers([9, 0]))] == [[1], [0]]
