"""The copies of the commits that other readers know: what a killed writer or damage left is put in order on request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.storage.recovery.repair_mirrors import mend_mirrors
from tests.support.crash_checks import assert_mirrored, assert_whole, files
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, SCHEMA, perform
from tests.support.foreign_writer import SECOND, old_graph
from tests.support.kill_runner import Target, kill_child
from tests.support.ledger import Ledger

COMMITS, ACTORS = "_graph_commits.lance", "_graph_commit_actors.lance"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Two commits on main and two on a branch, all of them copied."""
    graph = og.init(tmp_path / "g", SCHEMA, actor=ACTOR)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    perform(graph, "seed", MAIN, ledger, "seed")
    graph.branches.create(BRANCH)
    for branch, op in ((MAIN, "one"), (BRANCH, "two"), (BRANCH, "three")):
        perform(graph, "insert_one", branch, ledger, op)
    graph._store.mirror.flush()
    return graph


def copies(graph: og.Graph, branch: str, path: str = COMMITS) -> lance.LanceDataset:
    dataset = lance.dataset(f"{graph.uri}/{path}")
    return dataset if branch == MAIN else dataset.checkout_version((branch, None))


def newest(graph: og.Graph, branch: str) -> str:
    return f"graph_commit_id = '{graph.commits.head(branch).id}'"


def told_twice(graph: og.Graph, branch: str) -> None:
    mirror = copies(graph, branch)
    lance.write_dataset(mirror.to_table().slice(0, 1), mirror, mode="append")


def told_differently(graph: og.Graph, branch: str) -> None:
    copies(graph, branch).update({"parent_commit_id": "'another'"}, where=newest(graph, branch))


def lost(graph: og.Graph, branch: str) -> None:
    copies(graph, branch).delete(newest(graph, branch))


def another_author(graph: og.Graph, branch: str) -> None:
    copies(graph, MAIN, ACTORS).update({"actor_id": "'act-eve'"}, where=newest(graph, branch))


def author_twice(graph: og.Graph, branch: str) -> None:
    actors = copies(graph, MAIN, ACTORS)
    lance.write_dataset(actors.to_table(filter=newest(graph, branch)), actors, mode="append")


def author_lost(graph: og.Graph, branch: str) -> None:
    copies(graph, MAIN, ACTORS).delete(newest(graph, branch))


@pytest.mark.parametrize("branch", [MAIN, BRANCH])
@pytest.mark.parametrize("damage", [told_twice, told_differently, lost, another_author, author_twice, author_lost])
def test_a_damaged_copy_is_written_anew(graph: og.Graph, damage: Callable[[og.Graph, str], None], branch: str) -> None:
    damage(graph, branch)
    assert graph.recover() == 0
    assert_whole(graph)
    for name in (MAIN, BRANCH):
        assert_mirrored(graph, name)
    assert mend_mirrors(graph._store) == 0


def test_a_lost_branch_of_the_copies_is_made_again(graph: og.Graph) -> None:
    copies(graph, MAIN).branches.delete(BRANCH)
    graph.recover()
    assert_mirrored(graph, BRANCH)
    assert_whole(graph)


def test_nothing_is_written_where_nothing_is_wrong(graph: og.Graph) -> None:
    before = files(graph.uri)
    assert (graph.recover(), mend_mirrors(graph._store)) == (0, 0)
    assert files(graph.uri) == before


@pytest.mark.parametrize("point", ["graph_publish.before_commit_append", "graph_publish.between_commit_and_actor"])
def test_a_gap_that_a_killed_writer_left_on_a_branch_is_filled_on_request(
    graph: og.Graph, tmp_path: Path, point: str
) -> None:
    kill_child(Target(graph.uri, BRANCH, tmp_path / "ledger.jsonl"), "insert_one=killed", point)
    with og.open(graph.uri, mode="ro") as reader:
        report = reader.verify()
        assert report.ok, "a copy that is behind is no damage"
        assert {problem.check for problem in report.problems} <= {"mirrors", "records"}
    with og.open(graph.uri, actor=ACTOR) as other:
        assert {problem.check for problem in other.verify().problems} == {"mirrors"}
        assert other.recover() == 0
        assert_mirrored(other, BRANCH)
        assert_whole(other)


def test_the_next_write_of_the_branch_fills_the_gap_that_a_killed_writer_left(graph: og.Graph, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    kill_child(Target(graph.uri, BRANCH, ledger), "insert_one=killed", "graph_publish.before_commit_append")
    with og.open(graph.uri, actor=ACTOR) as other:
        perform(other, "insert_one", BRANCH, Ledger(ledger), "next")
        other._store.mirror.flush()
        assert_mirrored(other, BRANCH)
        assert other.verify().problems == ()


def test_copies_that_are_the_only_history_are_left_alone(tmp_path: Path) -> None:
    """Other software keeps its commits there and nowhere else; a later commit of ours does not make them ours."""
    root = old_graph(tmp_path / "g", "2")
    with og.open(root, actor=ACTOR) as graph:
        graph.mutate('query add() { insert Person { name: "cyd" } }')
    copies(graph, MAIN).update({"parent_commit_id": "'another'"}, where=f"graph_commit_id = '{SECOND}'")
    before = sorted(map(repr, copies(graph, MAIN).to_table().to_pylist()))
    with og.open(root, actor=ACTOR) as other:
        other.recover()
    assert sorted(map(repr, copies(graph, MAIN).to_table().to_pylist())) == before
