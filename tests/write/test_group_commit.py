"""Small writes of several threads that are published together, held against the same writes one after the other."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import (
    ConflictError,
    EndpointMissing,
    HistoricalVersionReclaimed,
    InputError,
    MissingValue,
    PolicyDenied,
    PreconditionFailed,
)
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables import derived_table
from omnigraph.write import group_commit
from tests.support.waiting import wait_until
from tests.write.together import patience, together

SCHEMA = """
node Person { handle: String @key  name: String  age: I32? }
node Account { number: String @key  mail: String @unique }
node Note { text: String }
edge Knows: Person -> Person { w: I32? }
edge Owns: Person -> Account @card(0..1)
"""
TYPES = ("Person", "Account", "Note", "Knows", "Owns")

ADD = 'query add($h: String) { insert Person { handle: $h, name: "new" } }'
AGE = "query age($h: String, $a: I32) { update Person set { age: $a } where handle = $h }"
KNOW = "query know($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
GO = "query go($h: String) { delete Person where handle = $h }"
NOTE = "query note($t: String) { insert Note { text: $t } }"
FORGET = "query forget($t: String) { delete Note where text = $t }"
ACCOUNT = "query account($n: String, $m: String) { insert Account { number: $n, mail: $m } }"
OWN = "query own($h: String, $n: String) { insert Owns { from: $h, to: $n } }"
COUNT = "query count() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return _graph(str(tmp_path / "g.omni"))


def _graph(uri: str) -> og.Graph:
    graph = og.init(uri, SCHEMA)
    people = " ".join(f'insert Person {{ handle: "s{number}", name: "seed" }}' for number in range(12))
    graph.mutate(f"query seed() {{ {people} }}")
    return graph


def _writes(graph: og.Graph, *asked: tuple[str, Any]) -> list[Callable[[], Any]]:
    return [lambda text=text, params=params: graph.mutate(text, params) for text, params in asked]  # type: ignore[misc]


def _rows(graph: og.Graph, at: str | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    snapshot = graph.snapshot(at=at)
    return {(name, row["id"]): row for name in TYPES for row in snapshot.arrow(name).to_pylist()}


def _require_history(graph: og.Graph) -> None:
    """Every commit has a state of its own, and that state differs from the one before by what the commit says."""
    commits = graph.commits.list()[::-1]
    before = _rows(graph, commits[0].id)
    for commit in commits[1:]:
        after = _rows(graph, commit.id)
        expected = dict.fromkeys(after.keys() - before.keys(), "insert")
        expected |= dict.fromkeys(before.keys() - after.keys(), "delete")
        expected |= {key: "update" for key in after.keys() & before.keys() if after[key] != before[key]}
        assert {(change.type, change.id): change.op for change in graph.commit_changes(commit.id)} == expected
        counted = {"insert": 0, "delete": 0}
        for counts in commit.rows.values():
            counted["insert"] += counts.inserted
            counted["delete"] += counts.deleted
        assert counted == {op: list(expected.values()).count(op) for op in counted}
        people = sum(name == "Person" for name, _ in after)
        assert graph.query(COUNT, at=commit.id).rows() == [{"n": people}]
        assert graph.snapshot(at=commit.id).count("Person") == people
        before = after
    assert before == _rows(graph)


def test_writes_that_wait_together_have_one_version_and_a_commit_each(graph: og.Graph) -> None:
    before = graph.snapshot().version
    asked = [(ADD, {"h": f"p{number}"}) for number in range(6)]
    done = together(graph, _writes(graph, *asked))
    versions = [each.commit.version for each in done]
    assert versions == [before + 1, *[before + 2] * 5]
    parents = [each.commit.parent for each in done]
    assert parents[1:] == [each.commit.id for each in done[:-1]]
    assert [each.id for each in graph.commits.list(limit=6)] == [each.commit.id for each in done][::-1]
    _require_history(graph)
    assert graph.verify(deep=True).ok


def test_each_commit_keeps_its_actor_its_message_and_its_receipt(graph: og.Graph) -> None:
    actors = [f"act-{number}" for number in range(5)]
    writes: list[Any] = [
        lambda actor=actor: graph.acting_as(actor).mutate(ADD, {"h": actor}, message=f"by {actor}") for actor in actors
    ]
    done = together(graph, writes)
    for actor, each in zip(actors, done, strict=True):
        assert (each.actor, each.query_name, each.affected_nodes) == (actor, "add", 1)
        found = graph.commits.get(each.commit.id)
        assert found == each.commit
        assert (found.actor, found.message, found.kind) == (actor, f"by {actor}", "mutation")


def test_one_that_breaks_a_rule_fails_alone(graph: og.Graph) -> None:
    asked = [
        (ADD, {"h": "first"}),
        (ADD, {"h": "a"}),
        (KNOW, {"a": "a", "b": "nobody"}),
        (KNOW, {"a": "s1", "b": "s2"}),
        (ADD, {}),
        (KNOW, {"a": "s1", "b": "nobody"}),
        (ADD, {"h": "b"}),
    ]
    done = together(graph, _writes(graph, *asked))
    assert isinstance(done[2], EndpointMissing) and isinstance(done[5], EndpointMissing)
    assert isinstance(done[4], og.OmniGraphError)
    assert [each.affected_nodes + each.affected_edges for each in (done[1], done[3], done[6])] == [1, 1, 1]
    assert len(graph.commits.list()) == 2 + 4
    _require_history(graph)


def test_a_write_that_needs_another_one_comes_after_it(graph: og.Graph) -> None:
    asked = [(ADD, {"h": "first"}), (ADD, {"h": "a"}), (KNOW, {"a": "a", "b": "s1"}), (AGE, {"h": "a", "a": 7})]
    done = together(graph, _writes(graph, *asked))
    assert [each.affected_nodes + each.affected_edges for each in done] == [1, 1, 1, 1]
    assert done[1].commit.version < done[2].commit.version
    row = graph.query('query q() { match { $p: Person { handle: "a" } } return { $p.age as age } }').rows()
    assert row == [{"age": 7}]
    _require_history(graph)


def test_of_two_with_the_same_unique_value_one_wins(graph: og.Graph) -> None:
    asked = [(NOTE, {"t": "first"}), (ACCOUNT, {"n": "1", "m": "m"}), (ACCOUNT, {"n": "2", "m": "m"})]
    done = together(graph, _writes(graph, *asked))
    assert [isinstance(each, og.OmniGraphError) for each in done] == [False, False, True]
    assert done[2].code == "rows.unique"


def test_a_cardinality_holds_for_writes_that_wait_together(graph: og.Graph) -> None:
    graph.mutate('query q() { insert Account { number: "1", mail: "a" } insert Account { number: "2", mail: "b" } }')
    done = together(
        graph, _writes(graph, (NOTE, {"t": "x"}), (OWN, {"h": "s1", "n": "1"}), (OWN, {"h": "s1", "n": "2"}))
    )
    assert [isinstance(each, og.OmniGraphError) for each in done] == [False, False, True]
    assert done[2].code == "rows.cardinality"


def test_a_node_and_the_edge_to_it_may_go_and_come_at_once(graph: og.Graph) -> None:
    done = together(graph, _writes(graph, (NOTE, {"t": "x"}), (GO, {"h": "s1"}), (KNOW, {"a": "s2", "b": "s1"})))
    assert isinstance(done[2], EndpointMissing)
    assert graph.verify().ok


def test_what_insists_on_a_head_goes_alone(graph: og.Graph) -> None:
    head = graph.commits.list(limit=1)[0].id
    writes = [*_writes(graph, (NOTE, {"t": "1"}), (NOTE, {"t": "2"}))]
    writes.append(lambda: graph.mutate(NOTE, {"t": "3"}, if_commit=head))
    done = together(graph, [*writes, *_writes(graph, (NOTE, {"t": "4"}))])
    assert isinstance(done[2], PreconditionFailed)
    assert graph.snapshot().count("Note") == 3


def test_a_write_that_changes_nothing_has_no_commit(graph: og.Graph) -> None:
    done = together(graph, _writes(graph, (NOTE, {"t": "1"}), (FORGET, {"t": "none"}), (NOTE, {"t": "2"})))
    assert (done[1].commit, done[1].affected_nodes) == (None, 0)
    assert done[2].commit.parent == done[0].commit.id


def test_a_write_that_was_done_before_is_not_done_again(graph: og.Graph) -> None:
    name = og.new_commit_id()
    first = graph.mutate(NOTE, {"t": "once"}, commit_id=name)
    again = graph.mutate(NOTE, {"t": "once"}, commit_id=name)
    assert (first.commit.id, again.commit, again.affected_nodes) == (name, first.commit, 1)  # type: ignore[union-attr]
    writes = [lambda: graph.mutate(NOTE, {"t": "more"})]
    writes += [lambda: graph.mutate(NOTE, {"t": "once"}, commit_id=name) for _ in range(2)]
    other = og.new_commit_id()
    writes += [lambda: graph.mutate(NOTE, {"t": "twice"}, commit_id=other) for _ in range(3)]
    done = together(graph, writes)
    assert {each.commit.id for each in done[1:3]} == {name}
    assert {each.commit.id for each in done[3:]} == {other}
    texts = sorted(row["text"] for row in graph.snapshot().arrow("Note").to_pylist())
    assert texts == ["more", "once", "twice"]
    with pytest.raises(InputError):
        graph.mutate(NOTE, {"t": "x"}, commit_id="not a ULID")


def test_what_fails_for_all_is_an_error_of_its_own_for_each(graph: og.Graph) -> None:
    writes = _writes(graph, *[(NOTE, {"t": t}) for t in "abcd"])
    failpoints.arm("group.after_stage=raise")
    try:
        done = together(graph, writes)
    finally:
        failpoints.arm("")
    assert [isinstance(each, og.OmniGraphError) for each in done] == [False, True, True, True]
    assert len({id(each) for each in done}) == 4
    assert graph.snapshot().count("Note") == 1


def test_on_a_branch_of_its_own_the_first_writes_of_a_table_go_together(graph: og.Graph) -> None:
    graph.branches.create("dev")
    asked: list[tuple[str, Any]] = [*((NOTE, {"t": t}) for t in "abcde"), (AGE, {"h": "s1", "a": 3})]
    writes: list[Any] = [lambda each=each: graph.mutate(*each, branch="dev") for each in asked]
    done = together(graph, writes, branch="dev")
    assert len({each.commit.version for each in done}) == 2
    counts = [graph.snapshot(at=each.commit.id).count("Note") for each in done]
    assert counts == [1, 2, 3, 4, 5, 5]
    assert [len(graph.snapshot(at=each.commit.id).arrow("Note")) for each in done] == counts
    assert graph.branches.merge("dev").outcome == "fast_forward"
    assert graph.verify().ok


@pytest.mark.parametrize("seed", range(4))
def test_any_mixture_gives_the_history_of_one_after_the_other(tmp_path: Path, seed: int) -> None:
    chance, graph = random.Random(seed), _graph(str(tmp_path / "g.omni"))
    for turn in range(3):
        asked = [(NOTE, {"t": "first"}), *(_any_write(chance, f"{turn}-{number}") for number in range(14))]
        done = together(graph, _writes(graph, *asked))
        assert all(not isinstance(each, og.OmniGraphError) or each.code.startswith("rows.") for each in done)
    shared = [commit.version for commit in graph.commits.list()]
    assert len(set(shared)) < len(shared)
    with og.open(graph.uri, mode="ro") as reader:
        _require_history(reader)
    assert graph.verify(deep=True).ok


def _any_write(chance: random.Random, name: str) -> tuple[str, Any]:
    some, other = (f"s{chance.randrange(12)}" for _ in range(2))
    return chance.choice(
        [
            (ADD, {"h": name}),
            (ADD, {"h": some}),
            (AGE, {"h": some, "a": chance.randrange(90)}),
            (KNOW, {"a": some, "b": other}),
            (GO, {"h": some}),
            (NOTE, {"t": name}),
            (FORGET, {"t": name[:-1] + "1"}),
            (ACCOUNT, {"n": name, "m": chance.choice("abc")}),
            (OWN, {"h": some, "n": name}),
        ]
    )


def test_states_between_can_be_tagged_undone_and_compared_but_not_branched_from(graph: og.Graph) -> None:
    done = together(graph, _writes(graph, *[(NOTE, {"t": t}) for t in "abcd"]))
    middle = done[2].commit.id
    graph.tags.create("middle", at=middle)
    assert graph.snapshot(at="tag:middle").count("Note") == 3
    assert len(list(graph.diff(middle, "main"))) == 1
    with pytest.raises(InputError, match="published together"):
        graph.branches.create("dev", at=middle)
    graph.branches.create("dev", at=done[3].commit.id)
    graph.revert(middle)
    assert sorted(row["text"] for row in graph.snapshot().arrow("Note").to_pylist()) == ["a", "b", "d"]


def test_a_cleanup_keeps_the_states_between_or_gives_them_up(graph: og.Graph) -> None:
    done = together(graph, _writes(graph, *[(NOTE, {"t": t}) for t in "abcd"]))
    together(graph, _writes(graph, *[(NOTE, {"t": t}) for t in "efgh"]))
    graph.cleanup(keep=3, confirm=True, grace=0)
    kept = {commit.id: commit for commit in graph.commits.list() if commit.readable}
    for commit_id in kept:
        graph.snapshot(at=commit_id).arrow("Note")
    assert done[1].commit.id not in kept
    with pytest.raises(HistoricalVersionReclaimed):
        graph.snapshot(at=done[1].commit.id).arrow("Note")
    assert graph.verify(deep=True).ok


def test_a_clone_has_the_states_between(graph: og.Graph, tmp_path: Path) -> None:
    done = together(graph, _writes(graph, *[(NOTE, {"t": t}) for t in "abcd"]))
    og.clone(graph.uri, str(tmp_path / "copy.omni"))
    with og.open(str(tmp_path / "copy.omni"), mode="ro") as copy:
        assert [len(copy.snapshot(at=each.commit.id).arrow("Note")) for each in done] == [1, 2, 3, 4]


def test_a_policy_denies_one_of_several(graph: og.Graph, tmp_path: Path) -> None:
    policy = """
version: 1
groups: { writers: [act-a, act-b, act-c] }
rules:
  - { id: change, allow: { actors: { group: writers }, actions: [change, read] } }
"""
    guarded = og.open(graph.uri, policy=policy, actor="act-a", audit=tmp_path / "audit.jsonl")
    writes: list[Any] = [
        lambda actor=actor: guarded.acting_as(actor).mutate(NOTE, {"t": actor})
        for actor in ("act-a", "act-b", "act-x", "act-c")
    ]
    refused = guarded.acting_as("act-x")
    with pytest.raises(PolicyDenied):
        refused.mutate(NOTE, {"t": "x"})
    done = together(guarded, [writes[0], writes[1], writes[3]])
    assert [each.commit.actor for each in done] == ["act-a", "act-b", "act-c"]
    records = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert sum('"kind":"write"' in record for record in records) == 3


@pytest.mark.s3
def test_on_an_object_store_the_states_between_are_there_too(s3_root: str) -> None:
    graph = _graph(f"{s3_root}/g.omni")
    done = together(graph, _writes(graph, *[(NOTE, {"t": t}) for t in "abcd"], (AGE, {"h": "s1", "a": 4})))
    assert len({each.commit.version for each in done}) == 2
    with og.open(graph.uri, mode="ro") as reader:
        assert [len(reader.snapshot(at=each.commit.id).arrow("Note")) for each in done] == [1, 2, 3, 4, 4]
    assert graph.verify().ok


def test_a_missing_value_names_the_write_that_lacks_it(graph: og.Graph) -> None:
    lacks = 'query lacks() { insert Person { handle: "z" } }'
    done = together(graph, _writes(graph, (NOTE, {"t": "a"}), (NOTE, {"t": "b"}), (lacks, {})))
    assert isinstance(done[2], og.OmniGraphError) and not isinstance(done[1], MissingValue)


def test_what_is_no_answer_of_the_graph_stays_with_the_write_that_raised_it(graph: og.Graph) -> None:
    class Broken(dict[str, Any]):
        def _refuse(self, *_: object) -> Any:
            raise ZeroDivisionError

        __getitem__ = __iter__ = keys = items = get = _refuse

    writes = _writes(graph, *[(NOTE, {"t": t}) for t in "ab"], (NOTE, Broken(t="x")), (NOTE, {"t": "c"}))
    done = together(graph, writes)
    assert isinstance(done[2], ZeroDivisionError)
    assert [each.affected_nodes for each in (done[0], done[1], done[3])] == [1, 1, 1]


def test_when_some_break_a_rule_alone_and_the_others_together_each_has_its_own_answer(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = group_commit._stage

    def strict(workspace: Any, group: Any) -> Any:
        if len(group) > 1:
            raise InputError("too many")
        return stage(workspace, group)

    monkeypatch.setattr(group_commit, "_stage", strict)
    asked = [(NOTE, {"t": "a"}), (KNOW, {"a": "s1", "b": "nobody"}), (NOTE, {"t": "b"}), (NOTE, {"t": "c"})]
    done = together(graph, _writes(graph, (NOTE, {"t": "first"}), *asked))
    assert [type(each) for each in done[1:]] == [og.MutationResult, EndpointMissing, *[og.MutationResult] * 2]


def test_a_write_whose_thread_was_interrupted_is_not_waited_for(graph: og.Graph) -> None:
    line = group_commit._line_of(graph.internals.store, "main")
    first, gone, last = (group_commit._Waiting(None, None, None, "") for _ in range(3))  # type: ignore[arg-type]
    line._waiting.extend([first, gone])
    line.leader = first
    line.leave(gone)
    line._waiting.append(last)
    line.settle([first, gone], [gone])
    line.leave(first)
    assert line.leader is last and last.decided.is_set()


def test_an_interrupt_at_any_step_leaves_nobody_waiting(graph: og.Graph) -> None:
    seen: set[tuple[str, int]] = set()
    while True:
        count = len(seen)
        _interrupt_at_a_new_step(graph, seen)
        if len(seen) == count:
            break
    assert len(seen) > 40
    _require_history(graph)


def _interrupt_at_a_new_step(graph: og.Graph, seen: set[tuple[str, int]]) -> None:
    """A write leads two others, and is interrupted at the first step that no interrupt was tried at; every other write
    is done, and so is the next one."""
    lines = Path(group_commit.__file__).read_text().splitlines()
    store = graph.internals.store
    line = group_commit._line_of(store, "main")
    is_armed = True

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal is_armed
        if frame.f_code.co_filename != group_commit.__file__:
            return None
        step = (frame.f_code.co_name, frame.f_lineno)
        is_inside = not lines[frame.f_lineno - 1].strip().startswith(("with ", "try:"))  # these are not interrupted
        if event == "line" and is_armed and step not in seen and is_inside:
            seen.add(step)
            is_armed = False
            raise KeyboardInterrupt
        return trace

    def lead() -> None:
        sys.settrace(trace)
        with contextlib.suppress(KeyboardInterrupt):
            graph.mutate(NOTE, {"t": "leads"})
        sys.settrace(None)

    answers: list[object] = []
    others = [
        threading.Thread(target=lambda: answers.append(graph.mutate(NOTE, {"t": "waits"})), daemon=True)
        for _ in range(2)
    ]
    leader = threading.Thread(target=lead, daemon=True)
    for each in (leader, *others):
        each.start()
    for each in (leader, *others):
        each.join(20)
        assert not each.is_alive(), seen
    assert len(answers) == 2
    graph.mutate(NOTE, {"t": "next"})
    assert line.leader is None and not line._waiting


def test_a_line_is_one_store_and_goes_with_its_writes(graph: og.Graph) -> None:
    locations = [Location("s3://b/g", {"aws_endpoint": endpoint}) for endpoint in ("http://a", "http://b", "http://a")]
    lines = [group_commit._line_of(GraphStore(location), "main") for location in locations]
    assert lines[0] is lines[2] is not lines[1]
    for number in range(3):
        graph.branches.create(f"b{number}")
        graph.mutate(NOTE, {"t": "x"}, branch=f"b{number}")
    del lines
    gc.collect()
    assert not [key for key in group_commit._lines if key[0] in (graph.uri, "s3://b/g")]


def test_tables_that_were_made_for_states_between_do_not_pile_up(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MADE_TABLES_LEFT", 3)
    monkeypatch.setattr(derived_table, "_directory", lambda: str(tmp_path))
    done = together(graph, _writes(graph, *[(NOTE, {"t": str(number)}) for number in range(14)]))
    for _ in range(2):
        counts = [len(graph.snapshot(at=each.commit.id).arrow("Note")) for each in done]
        assert counts == list(range(1, 15))
    gc.collect()
    assert len(list(tmp_path.glob("*.lance"))) <= 3 + limits.OPEN_VERSIONS
    frame = graph.snapshot(at=done[5].commit.id).dataset("Note")
    for each in done:
        graph.snapshot(at=each.commit.id).arrow("Note")
    gc.collect()
    assert frame.count_rows() == frame.to_table().num_rows == 6


def test_states_between_are_made_in_a_directory_of_any_name(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = together(graph, _writes(graph, *[(NOTE, {"t": t}) for t in "abc"], (GO, {"h": "s1"})))
    for number, name in enumerate(("with space", "a%20b", "ü#x", "q?x")):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(derived_table, "_directory", lambda name=name: str(tmp_path / name))
        with og.open(graph.uri, mode="ro") as reader:
            assert len(reader.snapshot(at=done[1].commit.id).arrow("Note")) == 2, number


def test_a_forked_child_does_not_remove_the_tables_of_its_parent(tmp_path: Path) -> None:
    derived_table._remove(str(tmp_path), os.getpid() + 1)
    assert tmp_path.is_dir()
    derived_table._remove(str(tmp_path), os.getpid())
    assert not tmp_path.exists()


@pytest.mark.parametrize("has_moved", [False, True])
def test_one_id_for_two_writes_on_two_branches_loses_no_row_in_a_merge(graph: og.Graph, has_moved: bool) -> None:
    graph.branches.create("dev")
    name = og.new_commit_id()
    graph.mutate(NOTE, {"t": "on main"}, commit_id=name)
    if has_moved:
        graph.mutate(NOTE, {"t": "more"})
    graph.mutate(NOTE, {"t": "on dev"}, commit_id=name, branch="dev")
    with pytest.raises(ConflictError, match="another one"):
        graph.branches.merge("dev")
    graph.mutate(NOTE, {"t": "last"}, branch="dev")
    with pytest.raises(ConflictError, match="another one"):
        graph.branches.merge("dev")
    assert "on main" in graph.snapshot().arrow("Note").column("text").to_pylist()


def test_one_id_in_two_graphs_mixes_no_history(graph: og.Graph, tmp_path: Path) -> None:
    other, name = _graph(str(tmp_path / "other.omni")), og.new_commit_id()
    graph.mutate(NOTE, {"t": "here"}, commit_id=name, message="here")
    other.mutate(NOTE, {"t": "there"}, commit_id=name, message="there")
    for each, message in ((graph, "here"), (other, "there")):
        each.mutate(NOTE, {"t": "last"}, message="last")
        assert [commit.message for commit in each.commits.list(limit=2)] == ["last", message]
        assert each.commits.get(name).message == message


def test_a_write_that_takes_long_does_not_hold_up_others(graph: og.Graph, tmp_path: Path) -> None:
    pause = tmp_path / "pause"
    slow = threading.Thread(target=lambda: graph.mutate(NOTE, {"t": "slow"}), daemon=True)
    failpoints.arm(f"write.after_stage=pause:{pause}")
    try:
        with patience(0.05):
            slow.start()
            wait_until(tmp_path.joinpath("pause.reached").exists, timeout=20, what="the slow write")
            failpoints.arm("")
            for number in range(3):
                graph.mutate(NOTE, {"t": str(number)})
            assert slow.is_alive()
    finally:
        tmp_path.joinpath("pause.release").touch()
        failpoints.arm("")
    slow.join(20)
    texts = [row["text"] for row in graph.snapshot().arrow("Note").to_pylist()]
    assert sorted(texts) == ["0", "1", "2", "slow"]


def test_leaders_that_take_long_and_overtake_each_other_lose_and_repeat_nothing(graph: og.Graph) -> None:
    answers: list[og.MutationResult] = []

    def write(number: int) -> None:
        for turn in range(8):
            asked: Any = [(NOTE, {"t": f"{number}-{turn}"}), (AGE, {"h": "s1", "a": turn})][turn % 2]
            answers.append(graph.mutate(*asked))

    with patience(0.0):
        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    assert len({each.commit.id for each in answers if each.commit}) == len(answers) == 48
    assert (
        graph.snapshot().count("Note") == 24 == len({row["text"] for row in graph.snapshot().arrow("Note").to_pylist()})
    )
    assert len(graph.commits.list()) == 2 + 48
    _require_history(graph)
