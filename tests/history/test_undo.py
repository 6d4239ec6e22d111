"""Reverting one commit and going back to a state: new commits, exact rows, and refusals that leave no trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import (
    CommitNotFound,
    CommitWithoutParent,
    HistoricalVersionReclaimed,
    InputError,
    MergeConflict,
    MergeSchemaMismatch,
    OmniGraphError,
)
from omnigraph.write.change import Change, Mode
from tests.merge.branches import fingerprint, state
from tests.support.small_graphs import PEOPLE, knows, people, persons, without


def _commit(graph: og.Graph, *changes: Change, branch: str = "main") -> str:
    made = graph.write(list(changes), branch=branch).commit
    assert made is not None
    return made.id


def _aged(age: int | None, *handles: str) -> Change:
    return persons(*handles, mode=Mode.MERGE, age=pa.array([age] * len(handles), pa.int32()))


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = people(tmp_path / "g", "a", "b", "c", actor="act-anna")
    graph.write([knows(("a", "b"), id=["ab"])])
    return graph


def test_a_revert_undoes_one_commit_and_keeps_what_came_after(graph: og.Graph) -> None:
    before = state(graph, "main")
    bad = _commit(graph, _aged(7, "a"), without("edge:Knows", "ab"))
    _commit(graph, persons("d"))
    done = graph.revert(bad, message="that was wrong")
    after = state(graph, "main")
    assert after["node:Person"].pop("d")["handle"] == "d"
    assert after == before
    assert done.commit is not None
    assert (done.commit.kind, done.commit.message, done.commit.actor) == ("revert", "that was wrong", "act-anna")
    assert done.commit.labels == {"reverts": bad}
    assert {key: rows.to_dict() for key, rows in done.tables.items()} == {
        "edge:Knows": {"inserted": 1, "updated": 0, "deleted": 0},
        "node:Person": {"inserted": 0, "updated": 1, "deleted": 0},
    }
    assert done.commit.parent == graph.commits.list()[1].id and graph.verify().ok


def test_a_revert_of_a_revert_brings_it_back_and_a_second_revert_finds_nothing(graph: og.Graph) -> None:
    good = _commit(graph, _aged(7, "a"), knows(("b", "c"), id=["bc"]))
    wanted = state(graph, "main")
    undone = graph.revert(good)
    head = graph.commits.head()
    again = graph.revert(good)
    assert (again.commit, again.tables, graph.commits.head()) == (None, {}, head)
    assert undone.commit is not None
    graph.revert(undone.commit.id)
    assert state(graph, "main") == wanted


def test_a_merge_is_reverted_against_its_first_parent(graph: og.Graph) -> None:
    graph.branches.create("x")
    graph.write([persons("x1"), knows(("a", "x1"), id=["ax"])], branch="x")
    graph.write([persons("m")])
    before = state(graph, "main")
    merged = graph.branches.merge("x", delete_branch=True).commit
    assert merged is not None
    graph.revert(merged.id)
    assert state(graph, "main") == before
    assert graph.commits.head().merged_parent is None


def test_rows_that_were_changed_again_are_conflicts_with_resolutions(graph: og.Graph) -> None:
    bad = _commit(graph, _aged(7, "a", "b"))
    _commit(graph, _aged(8, "a"))
    before = fingerprint(graph, "main")
    with pytest.raises(
        MergeConflict, match=f"commit {bad} cannot be reverted on branch 'main': one conflict"
    ) as caught:
        graph.revert(bad)
    (conflict,) = caught.value.conflicts
    assert (conflict.entity, conflict.kind) == ("node:Person/a", "DivergentUpdate")
    ages = [image and image["age"] for image in (conflict.base, conflict.ours, conflict.theirs)]
    assert ages == [7, 8, None]
    assert fingerprint(graph, "main") == before
    graph.revert(bad, resolve={"node:Person/a": "ours"})
    assert {id_: row["age"] for id_, row in state(graph, "main")["node:Person"].items()} == {
        "a": 8,
        "b": None,
        "c": None,
    }


def test_a_revert_must_not_break_a_rule(graph: og.Graph) -> None:
    added = _commit(graph, persons("d"))
    _commit(graph, knows(("a", "d"), id=["ad"]))
    with pytest.raises(MergeConflict) as caught:
        graph.revert(added)
    (conflict,) = caught.value.conflicts
    assert (conflict.kind, conflict.settled_by) == ("OrphanEdge", ("edge:Knows/ad=theirs", "node:Person/d=ours"))
    graph.revert(added, resolve={"edge:Knows/ad": "theirs"})
    assert set(state(graph, "main")["node:Person"]) == {"a", "b", "c"}


def test_a_schema_change_is_neither_reverted_nor_crossed(graph: og.Graph) -> None:
    earlier = _commit(graph, _aged(7, "a"))
    changed = graph.schema.apply(PEOPLE.replace("age: I32?", "age: I32?  nick: String?")).commit
    assert changed is not None
    before = fingerprint(graph, "main")
    with pytest.raises(MergeSchemaMismatch, match="changed the schema and cannot be reverted"):
        graph.revert(changed.id)
    with pytest.raises(MergeSchemaMismatch, match=f"the schema changed since commit {earlier}"):
        graph.revert(earlier)
    with pytest.raises(MergeSchemaMismatch, match=f"had another schema at commit {earlier}"):
        graph.restore(earlier)
    assert fingerprint(graph, "main") == before


def test_what_cannot_be_reverted_is_a_typed_error(graph: og.Graph) -> None:
    graph.branches.create("x")
    elsewhere = _commit(graph, persons("x1"), branch="x")
    wrong: list[tuple[Any, type[OmniGraphError]]] = [
        (graph.commits.list()[-1].id, CommitWithoutParent),
        ("01HZZZZZZZZZZZZZZZZZZZZZZZ", CommitNotFound),
        (elsewhere, CommitNotFound),
        (5, InputError),
        (None, InputError),
    ]
    for commit, error in wrong:
        with pytest.raises(error):
            graph.revert(commit)
    with pytest.raises(InputError):
        graph.restore(None)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        graph.revert(elsewhere, branch="x", resolve="mine")  # type: ignore[arg-type]
    graph.branches.merge("x", delete_branch=True)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.revert(elsewhere)


def test_a_restore_gives_the_exact_rows_of_any_older_state(graph: og.Graph) -> None:
    _commit(graph, _aged(7, "a"), without("edge:Knows", "ab"))
    graph.load({"Person": pa.table({"handle": ["a", "z"]})}, "overwrite")
    graph.mutate('query q() { delete Person where handle = "z" }')
    chain = graph.commits.list()
    for commit in chain[1:]:
        wanted = _rows_at(graph, commit.id)
        done = graph.restore(commit.id)
        assert state(graph, "main") == wanted
        assert done.commit is not None and done.commit.labels == {"restores": commit.id}
    assert graph.commits.list()[-len(chain) :] == chain and graph.verify(deep=True).ok
    assert graph.restore(graph.commits.head().id).commit is None


def _rows_at(graph: og.Graph, at: str) -> dict[str, dict[str, Any]]:
    snapshot = graph.snapshot(at=at)
    return {key: {row["id"]: row for row in snapshot.arrow(key).to_pylist()} for key in snapshot.tables}


def test_a_restore_follows_the_change_and_leaves_other_tables_alone(graph: og.Graph) -> None:
    graph.load({"Person": pa.table({"handle": [f"p{number}" for number in range(5_000)]})}, "append")
    before = graph.snapshot().tables
    commit = graph.commits.head().id
    _commit(graph, _aged(3, "p7"), without("edge:Knows", "ab"))
    changed = graph.snapshot()
    done = graph.restore(commit)
    after = graph.snapshot()
    assert done.tables["node:Person"].to_dict() == {"inserted": 0, "updated": 1, "deleted": 0}
    assert after.tables["node:Note"] == before["node:Note"]
    assert after.tables["edge:Wrote"] == before["edge:Wrote"]
    fragments = [
        {each.metadata.files[0].path: each.count_rows() for each in graph._store.table(pin).get_fragments()}
        for pin in (changed.tables["node:Person"], after.tables["node:Person"])
    ]
    assert sum(rows for file, rows in fragments[1].items() if file not in fragments[0]) < limits.SMALL_FRAGMENT_ROWS


def test_a_branch_is_restored_to_a_state_of_main_and_by_time_and_version(graph: og.Graph) -> None:
    graph.branches.create("x")
    _commit(graph, persons("later"))
    later = graph.commits.head()
    _commit(graph, persons("x1"), branch="x")
    graph.restore(later.id, branch="x")
    assert state(graph, "x") == state(graph, "main")
    graph.restore(graph.commits.list("x")[1].version, branch="x")
    assert set(state(graph, "x")["node:Person"]) == {"a", "b", "c", "x1"}
    _commit(graph, persons("last"))
    graph.restore(later.created_at.isoformat())
    assert set(state(graph, "main")["node:Person"]) == {"a", "b", "c", "later"}
    untouched = graph.branches.create("y", at=graph.commits.list()[-1].id).name
    graph.restore(later.id, branch=untouched)
    assert graph.snapshot("y").tables["node:Person"].branch is None, "shown as main has it, nothing copied"
    assert state(graph, "y") == state(graph, "main") and graph.verify().ok


@pytest.mark.parametrize("verb", ["revert", "restore"])
@pytest.mark.parametrize("point", ["write.after_sidecar", "write.after_table_commit", "publish.before_commit"])
def test_an_interrupted_undo_is_finished_whole_or_never_happened(graph: og.Graph, verb: str, point: str) -> None:
    earlier = graph.commits.head().id
    before = state(graph, "main")
    bad = _commit(graph, _aged(7, "a"), without("edge:Knows", "ab"))
    torn = state(graph, "main")
    failpoints.arm(f"{point}=raise")
    with pytest.raises(OmniGraphError):
        graph.revert(bad, message="why") if verb == "revert" else graph.restore(earlier, message="why")
    failpoints.arm("")
    graph.recover()
    head = graph.commits.head()
    if head.id == bad:
        assert state(graph, "main") == torn
    else:
        assert (head.kind, head.message, head.parent) == (verb, "why", bad)
        assert state(graph, "main") == before
    assert graph.verify().ok
