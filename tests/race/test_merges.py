"""Merges while others write to the source and to the target: nothing is lost, nothing is merged twice."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from tests.merge.branches import SCHEMA, edges, gone, people, state
from tests.support.crash_checks import assert_pins_are_heads, assert_whole, records
from tests.support.kill_runner import Rendezvous
from tests.support.merge_child import CHILD_SECONDS, start_merge


def age(value: int) -> pa.Array:
    return pa.array([value], pa.int32())


def two_branches(root: Path) -> og.Graph:
    graph = og.init(root, SCHEMA, actor="act-anna")
    graph.write([people("hub", "rim", "ann"), edges("e1")])
    graph.branches.create("source")
    graph.write([people("new", age=age(1)), edges("e2", dst="new")], branch="source")
    graph.write([people("own")], branch="main")
    return graph


@contextmanager
def waiting_merge(graph: og.Graph, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Rendezvous]]:
    """Another process that has prepared its merge and waits before it commits."""
    meeting = Rendezvous(folder / "meeting")
    with start_merge(graph.uri, "source", "main", f"write.after_stage={meeting.action}") as child:
        try:
            meeting.wait(child)
            yield child, meeting
        finally:
            meeting.release()
            if child.poll() is None:
                child.communicate(timeout=CHILD_SECONDS)


def finish(child: subprocess.Popen[str], meeting: Rendezvous) -> str:
    """Let the merge go on; returns what it complained about, nothing when it ended well."""
    meeting.release()
    _, complaint = child.communicate(timeout=CHILD_SECONDS)
    return complaint if child.returncode else ""


def test_a_target_that_moves_meanwhile_keeps_its_rows_and_gets_the_others(tmp_path: Path) -> None:
    graph = two_branches(tmp_path / "g")
    with waiting_merge(graph, tmp_path) as (child, meeting):
        graph.write([people("late", "ann", age=pa.array([7, 7], pa.int32())), edges("e3")])
        head = graph.commits.head()
        assert finish(child, meeting) == ""
    merged = graph.commits.head()
    assert (merged.parent, merged.merged_parent) == (head.id, graph.commits.head("source").id)
    found = state(graph, "main")
    assert set(found["node:Person"]) == {"hub", "rim", "ann", "new", "own", "late"}
    assert found["node:Person"]["ann"]["age"] == 7
    assert set(found["edge:Knows"]) == {"e1", "e2", "e3"}


@pytest.mark.parametrize(("kind", "entity"), [("DivergentInsert", "node:Person/new"), ("OrphanEdge", "edge:Knows/e2")])
def test_a_conflict_that_appears_meanwhile_refuses_the_merge(tmp_path: Path, kind: str, entity: str) -> None:
    graph = two_branches(tmp_path / "g")
    if kind == "OrphanEdge":
        graph.write([edges("e2", dst="ann")], branch="source")
    with waiting_merge(graph, tmp_path) as (child, meeting):
        if kind == "OrphanEdge":
            graph.write([gone("node:Person", "ann")])
        else:
            graph.write([people("new", age=age(2))])
        before, head = state(graph, "main"), graph.commits.head()
        complaint = finish(child, meeting)
    assert "MergeConflict" in complaint and kind in complaint
    assert state(graph, "main") == before
    assert graph.commits.head() == head
    assert records(graph.uri) == {}
    graph.write([people("free")])


def test_a_source_that_moves_meanwhile_is_merged_as_it_was(tmp_path: Path) -> None:
    graph = two_branches(tmp_path / "g")
    captured = graph.commits.head("source")
    with waiting_merge(graph, tmp_path) as (child, meeting):
        graph.write([people("later")], branch="source")
        assert finish(child, meeting) == ""
    assert graph.commits.head().merged_parent == captured.id
    assert "later" not in state(graph, "main")["node:Person"]
    graph.branches.merge("source")
    assert "later" in state(graph, "main")["node:Person"]


def test_a_source_that_is_deleted_and_made_again_meanwhile_leaves_no_mixture(tmp_path: Path) -> None:
    graph = two_branches(tmp_path / "g")
    wanted = {*state(graph, "main")["node:Person"], "new"}
    with waiting_merge(graph, tmp_path) as (child, meeting):
        graph.branches.delete("source")
        graph.branches.create("source")
        graph.write([people("other")], branch="source")
        assert finish(child, meeting) == ""
    assert set(state(graph, "main")["node:Person"]) == wanted
    graph.branches.merge("source")
    assert set(state(graph, "main")["node:Person"]) == {*wanted, "other"}


def test_a_source_that_is_made_again_is_not_read_when_the_merge_is_computed_again(tmp_path: Path) -> None:
    """The target moved too, so the merge looks at a source that is not there any more."""
    graph = two_branches(tmp_path / "g")
    with waiting_merge(graph, tmp_path) as (child, meeting):
        graph.branches.delete("source")
        graph.branches.create("source")
        graph.write([people("other")], branch="source")
        graph.write([people("late")])
        before = state(graph, "main")
        complaint = finish(child, meeting)
    assert "OmniGraphError" in complaint or "omnigraph.errors" in complaint
    assert state(graph, "main") == before


def test_two_merges_of_one_branch_are_one_merge(tmp_path: Path) -> None:
    graph = two_branches(tmp_path / "g")
    with waiting_merge(graph, tmp_path) as (child, meeting):
        assert graph.branches.merge("source").outcome == "merged"
        head = graph.commits.head()
        assert finish(child, meeting) == ""
    assert graph.commits.head() == head, "the second merge wrote a commit"


def test_writers_on_both_branches_and_merges_in_both_directions_lose_nothing(tmp_path: Path) -> None:
    graph = two_branches(tmp_path / "g")
    failures: list[str] = []
    acknowledged: dict[str, set[str]] = {"source": set(), "main": set()}

    def write(branch: str) -> None:
        try:
            for number in range(12):
                name = f"{branch}-{number}"
                graph.write([people(name), edges(f"edge-{name}", dst=name)], branch=branch)
                acknowledged[branch].add(name)
        except OmniGraphError as error:
            failures.append(repr(error))

    def merge(source: str, target: str) -> None:
        try:
            for _ in range(5):
                graph.branches.merge(source, target)
        except OmniGraphError as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=write, args=(branch,)) for branch in ("source", "main")]
    threads += [threading.Thread(target=merge, args=pair) for pair in (("source", "main"), ("main", "source"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    graph.branches.merge("source", "main")
    graph.branches.merge("main", "source")
    everybody = {"hub", "rim", "ann", "new", "own", *acknowledged["source"], *acknowledged["main"]}
    for branch in ("source", "main"):
        found = state(graph, branch)
        assert set(found["node:Person"]) == everybody
        assert {row["dst"] for row in found["edge:Knows"].values()} >= everybody - {"hub", "ann", "own"}
        assert_pins_are_heads(graph, branch)
        chain = graph.commits.list(branch)
        assert all(child.parent == parent.id for child, parent in itertools.pairwise(chain))
    assert records(graph.uri) == {}
    assert_whole(graph)
