"""A merge dies by SIGKILL at each failpoint that it reaches: the next open shows all of it or nothing, as one commit
with both parents, and the merge can be asked for again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.storage.metadata.manifest import Commit
from tests.merge.branches import SCHEMA, edges, gone, people, state
from tests.support.crash_checks import (
    assert_mirrored,
    assert_pins_are_heads,
    assert_whole,
    drafted_commit,
    files,
    records,
)
from tests.support.kill_runner import Target, kill_opening
from tests.support.merge_child import ACTOR, kill_merge

OLD, NEW = "old", "new"

#: Where a merge of several tables can die, and what must be there afterwards.
POINTS: tuple[tuple[str, str], ...] = (
    ("write.after_stage", OLD),
    ("write.after_gate_checks", OLD),
    ("recovery.sidecar_write", OLD),
    ("write.after_sidecar", OLD),
    ("write.after_table_commit", NEW),
    ("table.lost_ack", NEW),
    ("write.after_all_table_commits", NEW),
    ("write.after_all_table_commits[BranchMerge]", NEW),
    ("publish.before_commit", NEW),
    ("publish.lost_ack", NEW),
    ("write.after_publish_before_delete", NEW),
    ("recovery.sidecar_delete", NEW),
    ("graph_publish.before_commit_append", NEW),
    ("graph_publish.between_commit_and_actor", NEW),
)

#: Those that a merge reaches besides when its target has no lineage of its own yet.
FORKS: tuple[tuple[str, str], ...] = (("fork.before_create", OLD), ("fork.post_create_pre_open", OLD))

#: The states that a dead merge can leave, one failpoint each.
STATES = ("write.after_sidecar", "write.after_table_commit", "publish.lost_ack")


@dataclass(frozen=True, slots=True)
class Arranged:
    """Two branches about to be merged, and what must come of it."""

    uri: str
    source: str
    target: str
    head: Commit
    source_head: Commit
    before: dict[str, Any]
    after: dict[str, Any]


def graph_at(uri: str) -> og.Graph:
    graph = og.init(uri, SCHEMA, actor=ACTOR)
    graph.write([people("hub", "rim", "ann", "ben", "cid"), edges("e1", "e2")])
    return graph


def arrange(graph: og.Graph, number: int, target: str) -> Arranged:
    """A source with inserts, updates and deletes in two tables, a target that moved too."""
    source = f"source-{number}"
    graph.branches.create(source, target)
    name, edge = f"new-{number}", f"edge-{number}"
    ages = pa.array([number, number], pa.int32())
    graph.write([people(name, "ann", age=ages), edges(edge, dst=name)], branch=source)
    graph.write([gone("edge:Knows", f"edge-{number - 1}"), people("ben", age=ages[:1])], branch=source)
    graph.write([people(f"own-{number}")], branch=target)
    before = state(graph, target)
    after = {key: dict(rows) for key, rows in before.items()}
    theirs = state(graph, source)
    for key, id_ in (("node:Person", name), ("node:Person", "ann"), ("node:Person", "ben"), ("edge:Knows", edge)):
        after[key][id_] = theirs[key][id_]
    after["edge:Knows"].pop(f"edge-{number - 1}", None)
    return Arranged(graph.uri, source, target, graph.commits.head(target), graph.commits.head(source), before, after)


def check(arranged: Arranged, end: str, drafted: str | None) -> None:
    """The first open resolves everything, a second one changes nothing, and asking again does what is left to do."""
    with og.open(arranged.uri, actor=ACTOR) as graph:
        target = arranged.target
        assert records(arranged.uri) == {}
        head = graph.commits.head(target)
        if end == OLD:
            assert head == arranged.head
            assert state(graph, target) == arranged.before
        else:
            assert (head.parent, head.merged_parent) == (arranged.head.id, arranged.source_head.id)
            assert (head.actor, head.id) == (ACTOR, drafted or head.id)
            assert state(graph, target) == arranged.after
            assert graph.commits.get(arranged.source_head.id) == arranged.source_head
        assert graph.commits.head(arranged.source) == arranged.source_head, "the source moved"
        for branch in {target, arranged.source, "main"}:
            assert_pins_are_heads(graph, branch)
        audited = [recovery.operation_id for recovery in graph.recoveries]
        assert len(audited) == len(set(audited))
        graph._store.mirror.flush()
        graph.recover()  # copies what a killed writer of a branch did not
        assert_whole(graph)
        version = graph.snapshot(target).version
    before = files(arranged.uri)
    with og.open(arranged.uri, actor=ACTOR) as graph:
        assert files(arranged.uri) == before, "a second open changed something"
        assert graph.snapshot(target).version == version
        again = graph.branches.merge(arranged.source, target)
        assert again.outcome == ("merged" if end == OLD else "already_up_to_date")
        assert state(graph, target) == arranged.after
        graph.write([people("free")], branch=target)
        graph._store.mirror.flush()
        assert_mirrored(graph, target)


def kill_in_turn(uri: str, target: str, points: tuple[tuple[str, str], ...]) -> None:
    """One graph lives through all of the kills; each merge meets what the one before left."""
    graph = graph_at(uri)
    if target != "main":
        graph.branches.create(target)
        graph.write([people("free"), edges("edge--1")], branch=target)  # a lineage of its own
    for number, (point, end) in enumerate(points):
        arranged = arrange(graph, number, target)
        graph.close()
        kill_merge(uri, arranged.source, target, point)
        check(arranged, end, drafted_commit(uri))
        graph = og.open(uri, actor=ACTOR)
    graph.close()


@pytest.mark.parametrize(
    ("target", "points"),
    [
        pytest.param("main", POINTS[::2], id="into main"),
        pytest.param("review/t", POINTS[1::2], id="into a branch with its own tables"),
    ],
)
def test_merges_killed_one_after_another_end_whole(
    tmp_path: Path, target: str, points: tuple[tuple[str, str], ...]
) -> None:
    kill_in_turn(str(tmp_path / "g"), target, points)


@pytest.mark.s3
def test_merges_killed_on_an_object_store_end_whole(s3_root: str) -> None:
    kill_in_turn(s3_root, "main", tuple(each for each in POINTS if each[0] in STATES))


@pytest.mark.torture
@pytest.mark.parametrize("target", ["main", "review/t"])
def test_merges_killed_at_every_failpoint_end_whole(tmp_path: Path, target: str) -> None:
    kill_in_turn(str(tmp_path / "g"), target, POINTS)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("target", ["main", "review/t"])
def test_merges_killed_at_every_failpoint_on_an_object_store_end_whole(s3_root: str, target: str) -> None:
    kill_in_turn(s3_root, target, POINTS)


@pytest.mark.parametrize(("point", "end"), [*FORKS, ("write.after_table_commit", NEW)])
def test_a_merge_that_forks_its_target_and_dies_ends_whole(tmp_path: Path, point: str, end: str) -> None:
    """The target has never written to these tables, so the merge makes its lineage first."""
    uri = str(tmp_path / "g")
    with graph_at(uri) as graph:
        graph.branches.create("target")
        graph.branches.create("source")
        graph.write(
            [people("new", "ann", age=pa.array([1, 1], pa.int32())), edges("fresh", dst="new")], branch="source"
        )
        graph.write([gone("edge:Knows", "e1")], branch="source")
        arranged = Arranged(
            uri,
            "source",
            "target",
            graph.commits.head("target"),
            graph.commits.head("source"),
            state(graph, "target"),
            state(graph, "source"),
        )
    kill_merge(uri, "source", "target", point)
    with og.open(uri, actor=ACTOR) as graph:
        assert state(graph, "target") == (arranged.before if end == OLD else arranged.after)
        again = graph.branches.merge("source", "target")
        assert again.outcome == ("fast_forward" if end == OLD else "already_up_to_date")
        assert state(graph, "target") == arranged.after
        graph.branches.delete("target")
        graph.branches.create("target")
        graph.write([people("reused")], branch="target")
        assert records(uri) == {}


@pytest.mark.parametrize(
    ("shape", "point"),
    [
        ("net zero", "write.after_sidecar"),
        ("net zero", "publish.lost_ack"),
        ("pointers", "publish.before_commit"),
        pytest.param("pointers", "write.after_sidecar", marks=pytest.mark.torture),
        pytest.param("pointers", "publish.lost_ack", marks=pytest.mark.torture),
        pytest.param("net zero", "publish.before_commit", marks=pytest.mark.torture),
    ],
)
def test_a_merge_that_moves_no_table_ends_as_before_or_with_one_merge_commit(
    tmp_path: Path, shape: str, point: str
) -> None:
    uri = str(tmp_path / "g")
    with graph_at(uri) as graph:
        graph.branches.create("side")
        source, target = ("side", "main") if shape == "net zero" else ("main", "side")
        graph.write([people("brief")], branch=source)
        if shape == "net zero":
            graph.write([gone("node:Person", "brief")], branch=source)
        head, source_head = graph.commits.head(target), graph.commits.head(source)
        before, after = state(graph, target), state(graph, source)
    kill_merge(uri, source, target, point)
    with og.open(uri, actor=ACTOR) as graph:
        found = graph.commits.head(target)
        merged = found.id != head.id
        assert records(uri) == {}
        assert state(graph, target) == (after if merged else before)
        if merged:
            assert (found.parent, found.merged_parent) == (head.id, source_head.id)
        assert graph.branches.merge(source, target).outcome == ("already_up_to_date" if merged else "fast_forward")
        assert state(graph, target) == after


@pytest.mark.parametrize("point", ["branch_merge.before_branch_delete", "branch_delete.before_table_cleanup"])
def test_a_merge_that_dies_while_it_deletes_its_source_is_done(tmp_path: Path, point: str) -> None:
    uri = str(tmp_path / "g")
    with graph_at(uri) as graph:
        arranged = arrange(graph, 1, "main")
    kill_merge(uri, arranged.source, "main", point, delete=True)
    with og.open(uri, actor=ACTOR) as graph:
        assert state(graph, "main") == arranged.after
        if point.startswith("branch_merge"):
            assert graph.branches.merge(arranged.source, delete_branch=True).branch_deleted
        graph.branches.create(arranged.source)
        graph.write([people("again")], branch=arranged.source)
        assert graph.branches.merge(arranged.source).tables["node:Person"].inserted == 1


@pytest.mark.parametrize("point", ["recovery.before_roll_forward_publish", "recovery.record_audit"])
def test_a_dead_merge_whose_recovery_dies_too_is_finished_by_the_next_open(tmp_path: Path, point: str) -> None:
    uri = str(tmp_path / "g")
    with graph_at(uri) as graph:
        arranged = arrange(graph, 1, "main")
    kill_merge(uri, arranged.source, "main", "write.after_table_commit")
    drafted = drafted_commit(uri)
    assert drafted is not None
    kill_opening(Target(uri, "main", tmp_path / "ledger.jsonl"), point)
    check(arranged, NEW, drafted)
