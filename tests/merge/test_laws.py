"""Laws that hold for any merge: with an ancestor it changes nothing, twice is once, order does not matter without
conflicts, and a refusal leaves both branches as they were."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflict
from omnigraph.write.change import Change, Mode
from tests.merge.branches import ANCESTRIES, DIRECTIONS, SCHEMA, apart, edges, fingerprint, gone, people, state


@pytest.mark.parametrize("ancestry", ANCESTRIES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_merging_twice_is_merging_once_and_an_ancestor_brings_nothing(
    tmp_path: Path, ancestry: str, direction: str
) -> None:
    branches = apart(tmp_path / "g", ancestry, direction, people("ann"), edges("e1", "e2"))
    graph = branches.graph
    graph.write([people("s"), gone("edge:Knows", "e1")], branch=branches.source)
    graph.write([people("t"), edges("e3")], branch=branches.target)
    branches.merge()
    once = fingerprint(graph, branches.target)
    assert branches.merge().outcome == "already_up_to_date"
    assert fingerprint(graph, branches.target) == once
    graph.branches.create("old", branches.source)
    graph.write([people("later")], branch=branches.source)
    source = fingerprint(graph, branches.source)
    assert graph.branches.merge("old", branches.source).outcome == "already_up_to_date"
    assert fingerprint(graph, branches.source) == source
    # And back: the source gets what only the target had, and then both are the same.
    graph.branches.merge(branches.target, branches.source)
    branches.merge()
    assert state(graph, branches.source) == state(graph, branches.target)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_delete_that_reached_the_target_returns_only_by_a_newer_insert(tmp_path: Path, direction: str) -> None:
    branches = apart(tmp_path / "g", "plain", direction, people("ann"))
    graph = branches.graph
    graph.write([gone("node:Person", "ann")], branch=branches.source)
    branches.merge()
    graph.write([people("other")], branch=branches.source)
    branches.merge()
    assert "ann" not in state(graph, branches.target)["node:Person"]
    graph.write([people("ann", age=pa.array([5], pa.int32()))], branch=branches.source)
    branches.merge()
    assert state(graph, branches.target)["node:Person"]["ann"]["age"] == 5


def test_a_refused_merge_leaves_both_branches_as_they_were(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "between siblings", people("ann"))
    graph = branches.graph
    for number, branch in enumerate(("a", "b")):
        graph.write([people("ann", age=pa.array([number], pa.int32()))], branch=branch)
    before = [fingerprint(graph, branch) for branch in ("a", "b")]
    with pytest.raises(MergeConflict):
        branches.merge()
    assert [fingerprint(graph, branch) for branch in ("a", "b")] == before
    graph.write([people("free")], branch="b")
    graph.write([people("free")], branch="main")


def change_of(number: int, rng: random.Random) -> list[Change]:
    """What one of forty branches does; no two of them touch the same row."""
    name = f"p{number}"
    kinds = (
        [people(f"new-{number}", age=pa.array([number], pa.int32()))],
        [people(name, age=pa.array([-number], pa.int32()))],
        [gone("node:Person", name)],
        [edges(f"e{number}", dst=f"q{number}"), people(f"q{number}")],
        [gone("edge:Knows", f"old-{number}"), people(name, email=pa.array([f"{name}@x"]))],
    )
    return list(kinds[rng.randrange(len(kinds))])


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(2, 12))])
def test_forty_branches_merged_in_any_order_are_one_sequential_history(tmp_path: Path, seed: int) -> None:
    """Some straight into main, some into another branch first."""
    rng = random.Random(seed)
    base = [
        people(*(f"p{number}" for number in range(40)), "hub", "rim", mode=Mode.APPEND),
        edges(*(f"old-{number}" for number in range(40))),
    ]
    changes = [change_of(number, rng) for number in range(40)]

    straight = og.init(tmp_path / "straight", SCHEMA)
    straight.write(base)
    for each in changes:
        straight.write(each)

    graph = og.init(tmp_path / "branched", SCHEMA)
    graph.write(base)
    names = [f"b{number}" for number in range(40)]
    for name, each in zip(names, changes, strict=True):
        graph.branches.create(name)
        graph.write(each, branch=name)
    waiting = rng.sample(names, len(names))
    while waiting:
        name = waiting.pop()
        into = rng.choice(waiting) if waiting and rng.random() < 0.3 else "main"
        graph.branches.merge(name, into)
    assert state(graph, "main") == state(straight, "main")
    assert all(graph.branches.merge(name).outcome == "already_up_to_date" for name in rng.sample(names, 5))
