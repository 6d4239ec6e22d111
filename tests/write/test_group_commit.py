"""Small writes of several threads that are published together, held against the same writes one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import (
    EndpointMissing,
    HistoricalVersionReclaimed,
    InputError,
    MissingValue,
    PolicyDenied,
    PreconditionFailed,
)
from tests.write.together import together

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
