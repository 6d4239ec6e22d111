"""Branches that came together on several ways: what both already share is no change of either, whatever way it came."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import HistoricalVersionReclaimed, MergeConflict
from tests.merge.branches import SCHEMA, edges, fingerprint, gone, people, state


def age(value: int) -> pa.Array:
    return pa.array([value], pa.int32())


def crossed(root: Path) -> og.Graph:
    """Branches a and b that each did something and then merged the other's old head."""
    graph = og.init(root, SCHEMA)
    graph.write([people("hub", "rim", "old", "kept"), edges("e-old")])
    for name in ("a", "b"):
        graph.branches.create(name)
        graph.write([people(f"by-{name}"), edges(f"e-{name}")], branch=name)
    graph.write([people("kept", age=age(1))], branch="a")
    graph.write([gone("node:Person", "old")], branch="a")
    graph.branches.create("b-was", "b")
    graph.branches.merge("a", "b")
    graph.branches.merge("b-was", "a")
    assert state(graph, "a") == state(graph, "b")
    return graph


def ids(graph: og.Graph, branch: str, key: str = "node:Person") -> set[str]:
    return set(state(graph, branch)[key])


@pytest.mark.parametrize("loser", ["a", "b"])
@pytest.mark.parametrize("inserted", ["by-a", "by-b"])
def test_a_delete_after_a_criss_cross_is_not_undone(tmp_path: Path, loser: str, inserted: str) -> None:
    """Whichever of the two ancestors is chosen, one of them never had the row."""
    graph = crossed(tmp_path / "g")
    other = "b" if loser == "a" else "a"
    graph.write([gone("node:Person", inserted)], branch=loser)
    graph.write([people("news")], branch=other)
    graph.branches.merge(other, loser)
    assert inserted not in ids(graph, loser)
    assert "news" in ids(graph, loser)
    graph.branches.merge(loser, other)
    assert state(graph, "a") == state(graph, "b")


@pytest.mark.parametrize("keeper", ["a", "b"])
def test_a_row_that_is_inserted_again_after_a_criss_cross_stays(tmp_path: Path, keeper: str) -> None:
    graph = crossed(tmp_path / "g")
    other = "b" if keeper == "a" else "a"
    graph.write([people("old")], branch=keeper)
    graph.write([people("news")], branch=other)
    graph.branches.merge(other, keeper)
    assert "old" in ids(graph, keeper)


@pytest.mark.parametrize("changer", ["a", "b"])
def test_an_update_after_a_criss_cross_is_taken_without_a_conflict(tmp_path: Path, changer: str) -> None:
    graph = crossed(tmp_path / "g")
    other = "b" if changer == "a" else "a"
    graph.write([people("kept", "by-a", age=pa.array([2, 2], pa.int32()))], branch=changer)
    graph.write([people("news")], branch=other)
    graph.branches.merge(changer, other)
    assert {state(graph, other)["node:Person"][id_]["age"] for id_ in ("kept", "by-a")} == {2}


def test_a_row_that_the_crossing_decided_twice_and_differently_is_a_conflict(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([people("hub", "rim", "torn")])
    for number, name in enumerate(("a", "b")):
        graph.branches.create(name)
        graph.write([people("torn", age=age(number))], branch=name)
    graph.branches.create("b-was", "b")
    graph.branches.merge("a", "b", resolve="ours")
    graph.branches.merge("b-was", "a", resolve="ours")
    before = fingerprint(graph, "b")
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("a", "b")
    assert [(each.kind, each.entity) for each in caught.value.conflicts] == [("DivergentUpdate", "node:Person/torn")]
    assert fingerprint(graph, "b") == before
    graph.branches.merge("a", "b", resolve="theirs")
    assert state(graph, "b")["node:Person"]["torn"]["age"] == 0


def shared_and_lost(root: Path) -> og.Graph:
    """Branches a and b that both merged a third one, which was deleted since."""
    graph = og.init(root, SCHEMA)
    graph.write([people("hub", "rim", "old", "kept"), edges("e-old")])
    for name in ("a", "b", "lost"):
        graph.branches.create(name)
        graph.write([people(f"by-{name}")], branch=name)
    graph.write([people("kept", age=age(1)), edges("e-lost")], branch="lost")
    graph.write([gone("node:Person", "old")], branch="lost")
    for name in ("a", "b"):
        graph.branches.merge("lost", name)
    graph.branches.delete("lost")
    graph.branches.create("lost")  # the name means another branch now, with versions of the same numbers
    for number in range(5):
        graph.write([people(f"other-{number}")], branch="lost")
    return graph


def test_branches_that_share_a_deleted_branch_are_merged(tmp_path: Path) -> None:
    graph = shared_and_lost(tmp_path / "g")
    graph.branches.merge("a", "b")
    assert ids(graph, "b") == {"hub", "rim", "kept", "by-a", "by-b", "by-lost"}
    assert ids(graph, "b", "edge:Knows") == {"e-old", "e-lost"}
    graph.branches.merge("b", "a")
    assert state(graph, "a") == state(graph, "b")


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("b", "a")])
def test_what_a_deleted_branch_brought_is_shared_and_no_change_of_one_side(
    tmp_path: Path, source: str, target: str
) -> None:
    graph = shared_and_lost(tmp_path / "g")
    graph.write([gone("node:Person", "by-lost")], branch=target)
    graph.write([people("old", "kept", age=pa.array([9, 2], pa.int32()))], branch=target)
    graph.write([people("news")], branch=source)
    graph.branches.merge(source, target)
    found = state(graph, target)["node:Person"]
    assert "by-lost" not in found, "a deleted row came back"
    assert (found["old"]["age"], found["kept"]["age"]) == (9, 2)
    assert "news" in found


def test_a_base_that_nothing_stands_for_is_refused_and_nothing_is_guessed(tmp_path: Path) -> None:
    """Both merged later commits of the deleted branch; what they share is known to nobody any more."""
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([people("hub", "rim")])
    for name in ("a", "b", "lost", "other"):
        graph.branches.create(name)
    graph.write([people("shared")], branch="lost")
    graph.branches.merge("lost", "other")
    for name, way in (("a", "lost"), ("b", "other")):
        graph.write([people(f"by-{name}")], branch=name)
        graph.write([people(f"on-{way}")], branch=way)
        graph.branches.merge(way, name)
    graph.branches.delete("lost")
    graph.branches.delete("other")
    before = fingerprint(graph, "b")
    with pytest.raises(HistoricalVersionReclaimed, match="lost"):
        graph.branches.merge("a", "b")
    assert fingerprint(graph, "b") == before
