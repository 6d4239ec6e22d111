"""Renamed branches: everything that was theirs stays theirs, and the former name is free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.errors import BranchExists, BranchInUse, BranchNotFound, ChangeCursorRejected, InvalidName
from tests.support.small_graphs import ids_of, people, persons, without


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> og.Graph:
    root = tmp_path / "g" if request.param == "disk" else request.getfixturevalue("s3_root")
    made = people(root, "a", "b")
    made.branches.create("draft")
    made.write([persons("x")], branch="draft")
    return made


def test_a_renamed_branch_has_its_rows_and_takes_writes_and_the_former_name_is_unknown(graph: og.Graph) -> None:
    renamed = graph.branches.rename(" draft ", "review/x", message="ready to be read")
    assert (renamed.name, renamed.parent) == ("review/x", "main")
    assert graph.branches.list() == ["main", "review/x"]
    graph.write([persons("y")], branch="review/x")
    assert ids_of(graph, "Person", "review/x") == {"a", "b", "x", "y"}
    with pytest.raises(BranchNotFound, match="no branch 'draft'"):
        graph.write([persons("z")], branch="draft")
    graph.branches.merge("review/x", delete_branch=True)
    assert (ids_of(graph, "Person"), graph.branches.list()) == ({"a", "b", "x", "y"}, ["main"])
    assert graph.verify().ok


def test_the_history_says_who_renamed_and_keeps_the_names_of_then(graph: og.Graph) -> None:
    graph.branches.rename("draft", "review", message="ready to be read")
    newest, before, *_ = graph.commits.list("review")
    assert (newest.kind, newest.message, newest.branch) == ("rename", "ready to be read", "review")
    assert newest.labels == {"renamed_from": "draft"}
    assert newest.rows == {}
    assert (before.branch, newest.parent) == ("draft", before.id)


def test_commits_from_before_are_read_also_when_another_branch_has_the_former_name(graph: og.Graph) -> None:
    written = graph.commits.head("draft")
    graph.branches.rename("draft", "review")
    graph.branches.create("draft")
    graph.write([persons("other")], branch="draft")
    assert graph.snapshot(at=written.id).count("Person") == 3
    assert graph.snapshot("review", at=written.created_at).count("Person") == 3
    assert graph.snapshot("review", at=written.version).count("Person") == 3
    assert [change.id for change in graph.diff("main", written.id)] == ["x"]
    assert [change.id for change in graph.commit_changes(written.id)] == ["x"]
    graph.branches.create("from-then", at=written.id)
    assert ids_of(graph, "Person", "from-then") == {"a", "b", "x"}
    assert graph.verify().ok


def test_branches_that_were_made_from_it_stay_its_children(graph: og.Graph) -> None:
    graph.branches.create("child", "draft")
    graph.write([persons("c")], branch="child")
    graph.branches.rename("draft", "review")
    graph.branches.create("draft")
    with pytest.raises(BranchInUse, match="branch 'review' is the parent of branch 'child'"):
        graph.branches.delete("review")
    first = graph.commits.list("child")[-1]
    assert graph.snapshot("child", at=first.version).count("Person") == 0
    graph.branches.delete("draft")
    graph.branches.merge("child", into="review", delete_branch=True)
    assert ids_of(graph, "Person", "review") == {"a", "b", "x", "c"}
    graph.branches.delete("review")
    assert (graph.branches.list(), graph.verify().ok) == (["main"], True)


def test_a_feed_goes_on_with_its_cursor(graph: og.Graph) -> None:
    cursor = graph.changes("beginning", branch="draft").cursor
    graph.branches.rename("draft", "review")
    graph.write([persons("y")], branch="review")
    page = graph.changes(cursor, branch="review")
    assert [change.id for block in page.blocks for change in block.changes] == ["y"]
    graph.branches.create("draft")
    with pytest.raises(ChangeCursorRejected):
        graph.changes(page.cursor, branch="draft")


def test_names_go_round_and_no_row_is_lost(graph: og.Graph) -> None:
    graph.branches.create("other")
    graph.write([without("node:Person", "a")], branch="other")
    graph.branches.rename("draft", "kept")
    graph.branches.rename("other", "draft")
    graph.branches.rename("kept", "other")
    assert ids_of(graph, "Person", "other") == {"a", "b", "x"}
    assert ids_of(graph, "Person", "draft") == {"b"}
    graph.write([persons("o")], branch="other")
    graph.write([persons("d")], branch="draft")
    graph.branches.rename("draft", "draft-2")
    graph.branches.rename("draft-2", "draft")
    assert ids_of(graph, "Person", "other") == {"a", "b", "x", "o"}
    assert ids_of(graph, "Person", "draft") == {"b", "d"}
    graph.branches.delete("other")
    graph.branches.delete("draft")
    graph.branches.create("draft")
    assert ids_of(graph, "Person", "draft") == {"a", "b"}
    assert graph.verify().ok


def test_a_merge_between_a_renamed_branch_and_the_new_one_of_its_name_mixes_nothing(graph: og.Graph) -> None:
    graph.branches.rename("draft", "review")
    graph.branches.create("draft", "review")
    graph.write([persons("n")], branch="draft")
    graph.branches.merge("draft", into="review")
    graph.write([persons("r")], branch="review")
    graph.write([persons("n2")], branch="draft")
    assert ids_of(graph, "Person", "review") == {"a", "b", "x", "n", "r"}
    assert ids_of(graph, "Person", "draft") == {"a", "b", "x", "n", "n2"}
    assert graph.verify().ok


@pytest.mark.parametrize(
    ("name", "new_name", "error", "text"),
    [
        ("nope", "x", BranchNotFound, "no branch 'nope'"),
        ("main", "x", InvalidName, "'main' cannot be renamed"),
        ("draft", "main", InvalidName, "'main' cannot be renamed"),
        ("draft", "draft", InvalidName, "has this name already"),
        ("draft", "taken", BranchExists, "'taken' exists already"),
        ("draft", "taken/x", BranchExists, "would overlap with branch 'taken'"),
        ("draft", "a//b", InvalidName, "not allowed"),
        ("draft", "", InvalidName, "it is empty"),
    ],
)
def test_a_rename_that_cannot_be_is_refused_and_changes_nothing(
    graph: og.Graph, name: str, new_name: str, error: type[Exception], text: str
) -> None:
    graph.branches.create("taken")
    with pytest.raises(error, match=text):
        graph.branches.rename(name, new_name)
    assert graph.branches.list() == ["main", "draft", "taken"]
    assert ids_of(graph, "Person", "draft") == {"a", "b", "x"}


def test_the_former_name_may_be_a_directory_of_new_names_only_when_nothing_lies_there(graph: og.Graph) -> None:
    graph.branches.rename("draft", "draft/x")
    graph.branches.rename("draft/x", "review")
    with pytest.raises(BranchExists, match="would overlap with branch 'review'"):
        graph.branches.create("draft/y")


def test_an_open_handle_and_a_reader_follow(graph: og.Graph) -> None:
    with og.open(graph.uri) as other, og.open(graph.uri, mode="ro") as reader:
        assert ids_of(other, "Person", "draft") == ids_of(reader, "Person", "draft") == {"a", "b", "x"}
        graph.branches.rename("draft", "review")
        other.write([persons("y")], branch="review")
        assert ids_of(reader, "Person", "review") == {"a", "b", "x", "y"}
        with pytest.raises(BranchNotFound):
            reader.snapshot("draft")


def test_of_two_renames_to_different_names_the_one_that_lost_hides_nothing(graph: og.Graph) -> None:
    entries = graph._store.entries
    found = entries.read("draft")
    assert found is not None
    entries.put(replace(found[0], name="aside", state="deleted"), None)  # what the slower one leaves
    graph.branches.rename("draft", "review")
    assert graph.branches.list() == ["main", "review"]
    graph.branches.create("aside")
    assert ids_of(graph, "Person", "aside") == {"a", "b"}
    assert ids_of(graph, "Person", "review") == {"a", "b", "x"}


def test_a_branch_of_other_software_can_be_renamed(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    manifest = lance.dataset(str(tmp_path / "g" / "__manifest"))
    manifest.create_branch("theirs", manifest.version)
    assert graph.branches.list() == ["main", "theirs"]
    graph.branches.rename("theirs", "ours")
    graph.write([persons("x")], branch="ours")
    assert graph.branches.list() == ["main", "ours"]
    assert ids_of(graph, "Person", "ours") == {"a", "b", "x"}
    assert "theirs" in lance.dataset(str(tmp_path / "g" / "__manifest")).branches.list()
    graph.branches.delete("ours")
    assert (graph.branches.list(), graph.verify().ok) == (["main"], True)
