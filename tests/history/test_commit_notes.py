"""What commits say of themselves: the kind of write, rows by type, and the words of the author."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import InputError, ResourceLimitExceeded
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.commit_note import RowCounts, note_of, rows_of
from omnigraph.write.change import Mode
from tests.support.small_graphs import PEOPLE, knows, people, persons


def _said(graph: og.Graph, branch: str = "main") -> tuple[Any, ...]:
    head = graph.commits.head(branch)
    return head.kind, head.message, {key.partition(":")[2]: str(rows) for key, rows in head.rows.items()}


def test_every_verb_says_what_it_did(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", PEOPLE)
    assert _said(graph) == ("init", None, {})
    graph.write([persons("a", "b"), knows(("a", "b"))], message="both")
    assert _said(graph) == ("mutation", "both", {"Person": "+2", "Knows": "+1"})
    graph.mutate('query q() { update Person set { age: 3 } where handle = "a" }', message="older")
    assert _said(graph) == ("mutation", "older", {"Person": "~1"})
    graph.load({"Person": pa.table({"handle": ["b", "c"]})}, "merge", message="again")
    assert _said(graph) == ("load", "again", {"Person": "+1 ~1"})
    graph.load({"Person": pa.table({"handle": ["a", "b", "z"]})}, "overwrite")
    assert _said(graph) == ("load", None, {"Person": "+3 -3"})
    graph.branches.create("x")
    change = persons("b", mode=Mode.MERGE, age=pa.array([1], pa.int32()))
    graph.write([replace(change, remove=pa.array(["z"]))], branch="x")
    assert _said(graph, "x") == ("mutation", None, {"Person": "~1 -1"})
    graph.write([persons("m")])
    graph.branches.merge("x", message="together")
    assert _said(graph) == ("merge", "together", {"Person": "~1 -1"})
    graph.branches.merge("main", "x", message="and back")
    assert _said(graph, "x") == ("merge", "and back", {"Person": "+1"})
    graph.branches.delete("x")
    graph.schema.apply(PEOPLE.replace("age: I32?", "age: I32?  nick: String?"), message="nicknames")
    assert _said(graph) == ("schema_change", "nicknames", {})
    graph.ensure_indices()
    assert _said(graph) == ("index_build", None, {})
    assert {commit.kind for commit in graph.commits.list()} == {
        *("init", "mutation", "load", "merge", "schema_change", "index_build")
    }
    assert og.open(tmp_path / "g", mode="ro").commits.list() == graph.commits.list()


def test_a_merge_that_only_points_says_which_rows_came(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.branches.create("x")
    graph.write([persons("b")])
    graph.branches.merge("main", "x")
    assert _said(graph, "x") == ("merge", None, {"Person": "+1"})


def test_commits_of_a_merged_branch_keep_what_they_said(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.branches.create("x")
    graph.write([persons("b")], branch="x", message="on x")
    made = graph.commits.head("x")
    graph.write([persons("c")])
    graph.branches.merge("x", delete_branch=True)
    kept = graph.commits.get(made.id)
    assert (kept, kept.message, kept.rows) == (made, "on x", {"node:Person": RowCounts(inserted=1)})
    assert repr(kept).endswith('; mutation: Person +1 "on x")')
    assert kept.to_dict()["rows"] == {"node:Person": {"inserted": 1, "updated": 0, "deleted": 0}}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        pytest.param(" ", InputError, id="blank"),
        pytest.param(5, InputError, id="a number"),
        pytest.param("\ud800", InputError, id="half a character"),
        pytest.param("ü" * (limits.COMMIT_MESSAGE_BYTES // 2 + 1), ResourceLimitExceeded, id="too long"),
    ],
)
def test_a_message_that_is_none_is_refused_before_anything_happens(
    tmp_path: Path, message: Any, error: type[Exception]
) -> None:
    graph = people(tmp_path / "g", "a")
    before = graph.commits.head()
    calls: list[Callable[[], object]] = [
        lambda: graph.mutate('query q() { delete Person where handle = "a" }', message=message),
        lambda: graph.write([persons("b")], message=message),
        lambda: graph.load({"Person": pa.table({"handle": ["b"]})}, "append", message=message),
        lambda: graph.branches.merge("x", message=message),
        lambda: graph.schema.apply(PEOPLE, message=message),
    ]
    for call in calls:
        with pytest.raises(error):
            call()
    assert graph.commits.head() == before


def test_a_message_may_have_many_lines_and_any_letters(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    said = 'ü 図 "quoted"\n\n' + "x" * 4_000
    graph.write([persons("a")], message=said)
    assert og.open(tmp_path / "g", mode="ro").commits.head().message == said


def test_what_cannot_be_read_of_a_note_is_left_out() -> None:
    assert note_of({"created_at": 1}) == {}
    found = note_of({"kind": 3, "message": ["x"], "rows": {"node:Person": {"inserted": 2, "deleted": "x"}, "e": 1}})
    assert set(found) == {"rows"}
    assert rows_of(found) == {"node:Person": RowCounts(inserted=2), "e": RowCounts()}
    assert note_of({"kind": "load", "rows": 5}) == {"kind": "load"}
    row = {"object_id": "c", "table_branch": None, "table_version": 1, "metadata": '{"created_at": 0}'}
    commit = manifest.commit_of(row)
    assert (commit.note, commit.kind, commit.message, commit.rows, commit.summary) == ({}, None, None, {}, "")
