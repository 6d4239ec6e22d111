"""A request or its answer is lost on the way. Reads are asked again, writes are done once or said to be unknown."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import CommitNotFound, OutcomeUnknown, ServerUnavailable
from tests.support.fault_proxy import READS, WRITES, Fault, FaultProxy
from tests.support.waiting import wait_until

INSERT = "query add($h: String) { insert Person { handle: $h, name: $h } }"
COUNT = "query q() { match { $p: Person } return { count($p) as people } }"
NAMED = "query q($h: String) { match { $p: Person { handle: $h } } return { $p.name } }"

ALL = READS | WRITES
PASSING = ("503", "reset_before", "reset_after", "cut")


@pytest.mark.parametrize("kind", PASSING)
def test_a_read_is_asked_again(kind: str, graph: og.Graph, proxy: FaultProxy) -> None:
    expected = graph.query(COUNT).scalar()
    with proxy.armed(Fault(kind, times=2, methods=ALL)):
        assert graph.query(COUNT).scalar() == expected
        assert proxy.seen == 3
    with proxy.armed(Fault(kind, times=2, methods=ALL)):
        assert graph.commits.head().id == graph.snapshot().commit_id


@pytest.mark.parametrize("kind", ("503", "reset_before", "cut"))
def test_a_read_that_never_comes_is_an_error_of_the_server(kind: str, graph: og.Graph, proxy: FaultProxy) -> None:
    with proxy.armed(Fault(kind, times=99, methods=ALL)), pytest.raises(ServerUnavailable) as caught:
        graph.query(COUNT)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("kind", (*PASSING, "late"))
def test_a_mutation_is_done_once(kind: str, graph: og.Graph, proxy: FaultProxy) -> None:
    handle = f"m-{kind}"
    with proxy.armed(Fault(kind, times=2)):
        done = graph.mutate(INSERT, {"h": handle})
    proxy.let_late_effects_happen()
    assert done.commit is not None
    assert [commit.id for commit in graph.commits.list()].count(done.commit.id) == 1
    assert sum(len(block.changes) for block in graph.changes(f"after:{done.commit.parent}")) == 1
    assert len(graph.query(NAMED, {"h": handle})) == 1


@pytest.mark.parametrize("kind", (*PASSING, "late"))
def test_a_load_is_done_once(kind: str, graph: og.Graph, proxy: FaultProxy, tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text(f'{{"type":"Person","data":{{"handle":"l-{kind}","name":"L"}}}}\n', "utf-8")
    with proxy.armed(Fault(kind, times=2)):
        done = graph.load(file, "append")
    proxy.let_late_effects_happen()
    assert done.commit is not None and done.nodes == {"Person": 1}
    assert [commit.id for commit in graph.commits.list()].count(done.commit.id) == 1


def test_a_conditional_write_that_was_sent_twice_is_no_conflict_with_itself(graph: og.Graph, proxy: FaultProxy) -> None:
    head = graph.commits.head().id
    with proxy.armed(Fault("reset_after")):
        done = graph.mutate(INSERT, {"h": "conditional"}, if_commit=head)
    assert done.commit is not None and done.commit.parent == head


def test_an_open_file_is_sent_again_from_where_it_stood(graph: og.Graph, proxy: FaultProxy) -> None:
    file = io.BytesIO(b'skipped\n{"type":"Person","data":{"handle":"open","name":"O"}}\n')
    file.readline()
    with proxy.armed(Fault("reset_before")):
        assert graph.load(file, "append").total == 1


@pytest.mark.parametrize(("kind", "is_done"), [("reset_after", True), ("reset_before", False)])
def test_a_mutation_without_any_answer_is_unknown_and_can_be_looked_up(
    kind: str, is_done: bool, graph: og.Graph, proxy: FaultProxy
) -> None:
    with proxy.armed(Fault(kind, times=99)), pytest.raises(OutcomeUnknown) as caught:
        graph.mutate(INSERT, {"h": f"u-{kind}"})
    known = caught.value.details["commit_id"]
    assert known in (caught.value.hint or "")
    if is_done:
        assert graph.commits.get(known).summary == "mutation: Person +1"
    else:
        with pytest.raises(CommitNotFound):
            graph.commits.get(known)
    done = graph.mutate(INSERT, {"h": f"u-{kind}"}, commit_id=known)
    assert done.commit is not None and done.commit.id == known
    assert [commit.id for commit in graph.commits.list()].count(known) == 1


def test_a_refusal_after_a_lost_answer_is_no_word_on_it(graph: og.Graph, proxy: FaultProxy, server: Any) -> None:
    kinds = iter(["reset_after", "gone"])

    def forbid(_: str) -> None:
        if next(kinds) == "gone":
            proxy.upstream = "http://127.0.0.1:9"  # nobody listens there

    proxy.on_fault = forbid
    try:
        with proxy.armed(Fault("reset_after", times=99)), pytest.raises(OutcomeUnknown) as caught:
            graph.mutate(INSERT, {"h": "gone"})
    finally:
        proxy.on_fault, proxy.upstream = None, server.url
    assert graph.commits.get(caught.value.details["commit_id"]).kind == "mutation"


# --- writes that name no commit


def test_a_branch_whose_answer_was_lost_is_found(graph: og.Graph, proxy: FaultProxy) -> None:
    with proxy.armed(Fault("reset_after")):
        assert graph.branches.create("lost") == og.Branch("lost", "main")
    with proxy.armed(Fault("reset_after")):
        assert graph.branches.rename("lost", "found") == og.Branch("found", "main")
    with proxy.armed(Fault("reset_after")):
        graph.branches.delete("found")
    assert graph.branches.list() == ["main"]


def test_a_tag_whose_answer_was_lost_is_found(graph: og.Graph, proxy: FaultProxy) -> None:
    with proxy.armed(Fault("reset_after")):
        assert graph.tags.create("lost", message="m").name == "lost"
    with proxy.armed(Fault("reset_after")):
        graph.tags.delete("lost")
    assert graph.tags.list() == []


def test_a_merge_whose_answer_was_lost_is_found(graph: og.Graph, proxy: FaultProxy) -> None:
    graph.branches.create("work")
    graph.mutate(INSERT, {"h": "merged"}, branch="work")
    with proxy.armed(Fault("reset_after", part="/merge")):
        done = graph.branches.merge("work")
    assert done.commit is not None and done.commit.id == graph.commits.head().id
    assert done.tables["node:Person"].inserted == 1
    graph.branches.delete("work")


def test_a_schema_change_whose_answer_was_lost_is_found(graph: og.Graph, proxy: FaultProxy) -> None:
    wanted = graph.schema.text.replace("name: String", "name: String  nick: String?")
    with proxy.armed(Fault("reset_after")):
        done = graph.schema.apply(wanted)
    assert done.commit is not None and done.commit.id == graph.commits.head().id
    assert graph.schema.text == wanted


@pytest.mark.parametrize(
    "write",
    [
        lambda graph: graph.branches.create("never"),
        lambda graph: graph.tags.create("never"),
        lambda graph: graph.revert(graph.commits.head().id),
    ],
    ids=["a branch", "a tag", "a revert"],
)
def test_a_write_that_names_no_commit_is_not_sent_twice(write: Any, graph: og.Graph, proxy: FaultProxy) -> None:
    before = graph.commits.head().id
    with proxy.armed(Fault("reset_before", methods=WRITES)), pytest.raises(OutcomeUnknown):
        write(graph)
    assert proxy.seen == 1
    assert graph.commits.head().id == before


def test_a_write_that_comes_late_is_unknown_until_it_is_there(graph: og.Graph, proxy: FaultProxy) -> None:
    with proxy.armed(Fault("late")), pytest.raises(OutcomeUnknown) as caught:
        graph.branches.create("late")
    assert caught.value.hint == "look at the graph before you do it again"
    wait_until(lambda: "late" in graph.branches.list(), timeout=20, what="the branch is there")
    graph.branches.delete("late")


# --- answers that are streamed


def test_an_export_that_breaks_off_leaves_no_file(graph: og.Graph, proxy: FaultProxy, tmp_path: Path) -> None:
    graph.load({"Person": [{"handle": f"e{row}", "name": "x" * 400} for row in range(60)]}, "merge")
    with proxy.armed(Fault("cut", times=99)), pytest.raises(ServerUnavailable):
        graph.export(tmp_path / "all.jsonl")
    assert list(tmp_path.iterdir()) == []
    with proxy.armed(Fault("cut", times=99)), pytest.raises(ServerUnavailable):
        graph.baseline(tmp_path / "state.jsonl")
    assert list(tmp_path.iterdir()) == []
    with proxy.armed(Fault("cut", times=1)):
        done = graph.export(tmp_path / "all.jsonl")
    assert (tmp_path / "all.jsonl").stat().st_size == done.bytes


def test_an_open_file_that_got_a_part_is_told_of(graph: og.Graph, proxy: FaultProxy) -> None:
    file = io.BytesIO()
    with proxy.armed(Fault("cut")), pytest.raises(ServerUnavailable, match="only a part"):
        graph.export(file)
    assert proxy.seen == 1
