"""Tags: names for states, wherever a commit is meant, and what keeps their states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import (
    BranchInUse,
    BranchNotFound,
    CommitNotFound,
    CorruptGraph,
    HistoricalVersionReclaimed,
    InputError,
    InvalidName,
    ReadOnly,
    TagExists,
    TagNotFound,
)
from omnigraph.storage.metadata.tag_entries import DIRECTORY, path_of, read_tag, read_tags
from tests.support.small_graphs import ids_of, knows, people, persons, without


def tagged(root: Any) -> og.Graph:
    """Two people are tagged as ``first``, a third one came later."""
    made = people(root, "a", "b", actor="act-eve")
    made.tags.create("first", message="as reported")
    made.write([persons("c"), knows(("a", "c"))])
    return made


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return tagged(tmp_path / "g")


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> og.Graph:
    """The same graph on a disk and on an object store."""
    return tagged(tmp_path / "g" if request.param == "disk" else request.getfixturevalue("s3_root"))


def reclaim(graph: og.Graph, lineage: str, below: int, keep: tuple[int, ...] = ()) -> None:
    """What a cleanup says before it removes anything."""
    identity = graph.internals.store.branch_ref(lineage).identity
    said = {"lineages": {lineage: {"identity": identity, "below": below, "keep": list(keep)}}}
    graph.internals.store.objects.write("__upkeep/reclaimed.json", json.dumps(said).encode())


def test_a_tag_says_what_it_names_and_by_whom(graph: og.Graph) -> None:
    tag = graph.tags.get(" first ")
    commit = graph.commits.list()[1]
    assert (tag.name, tag.commit_id, tag.branch, tag.version) == ("first", commit.id, "main", commit.version)
    assert (tag.actor, tag.message) == ("act-eve", "as reported")
    assert tag.created_at >= commit.created_at
    assert (list(graph.tags), graph.tags.list()) == (["first"], [tag])
    assert tag.to_dict()["graph_commit_id"] == commit.id


READS: dict[str, Callable[[og.Graph], Any]] = {
    "query": lambda g: g.query("query q() { match { $p: Person } return { count($p) as n } }", at="tag:first").scalar(),
    "snapshot": lambda g: g.snapshot(at=" tag:first ").count("Person"),
    "snapshot of its branch": lambda g: g.snapshot("main", at="tag:first").count("Person"),
    "export": lambda g: len((g.export(types=["Person"], at="tag:first").text or "").splitlines()),
    "catalog": lambda g: len(g.catalog_of(at="tag:first").nodes),
    "diff": lambda g: len(list(g.diff("tag:first", "main"))),
    "feed": lambda g: len(g.changes("after:tag:first").blocks) + 1,
    "history since": lambda g: len(g.commits.list(since="tag:first")) + 1,
    "history until": lambda g: len(g.commits.list(until="tag:first")),
    "history before": lambda g: len(g.commits.list(before="tag:first")) + 1,
    "graph": lambda g: len(g.commits.graph(until="tag:first")),
    "commit": lambda g: g.commits.get("tag:first").rows["node:Person"].inserted,
    "changes of its commit": lambda g: len(list(g.commit_changes("tag:first"))),
    "another tag": lambda g: g.snapshot(at=g.tags.create("second", "tag:first").commit_id).count("Person"),
}


def test_a_tag_stands_wherever_a_commit_is_meant(graph: og.Graph) -> None:
    assert {name: read(graph) for name, read in READS.items()} == dict.fromkeys(READS, 2)


def test_a_result_says_which_tag_it_was_read_at(graph: og.Graph) -> None:
    result = graph.query("query q() { match { $p: Person } return { $p.handle } }", at="tag:first")
    assert (result.at, result.commit_id) == ("tag:first", graph.tags.get("first").commit_id)


def test_a_branch_begins_at_a_tag(graph: og.Graph) -> None:
    graph.branches.create("one", "tag:first")
    graph.branches.create("two", at="tag:first")
    assert ids_of(graph, "Person", "one") == ids_of(graph, "Person", "two") == {"a", "b"}
    with pytest.raises(InputError, match="both say which state"):
        graph.branches.create("three", "tag:first", at=2)
    with pytest.raises(TagNotFound, match="no tag 'firts'"):
        graph.branches.create("three", "tag:firts")
    assert graph.branches.list() == ["main", "one", "two"]


def test_a_tagged_state_is_restored_and_a_tagged_commit_reverted(graph: og.Graph) -> None:
    graph.tags.create("third")
    graph.restore("tag:first")
    assert ids_of(graph, "Person") == {"a", "b"}
    graph.restore("tag:third")
    assert ids_of(graph, "Person") == {"a", "b", "c"}
    assert graph.revert("tag:third").undone == graph.tags.get("third").commit_id
    assert ids_of(graph, "Person") == {"a", "b"}


def test_a_tag_of_another_branch_is_not_in_the_history_of_the_one_that_is_named(graph: og.Graph) -> None:
    graph.branches.create("draft")
    graph.write([persons("d")], branch="draft")
    graph.tags.create("drafted", branch="draft")
    assert graph.snapshot(at="tag:drafted").count("Person") == 4
    assert graph.snapshot("draft", at="tag:first").count("Person") == 2
    with pytest.raises(CommitNotFound, match="tag 'drafted' is not in the history of branch 'main'"):
        graph.snapshot("main", at="tag:drafted")


def test_names_that_no_branch_could_have_are_refused(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    names: list[Any] = ["", " ", "a b", "__x", "a//b", "a:b", "../x", "ümlaut", "x.lock", 7]
    for name in names:
        with pytest.raises(InvalidName, match="tag name"):
            graph.tags.create(name)
        with pytest.raises(InvalidName, match="tag name"):
            graph.snapshot(at=f"tag:{name}" if isinstance(name, str) else "tag:/")
    assert graph.tags.list() == []


def test_unknown_tags_are_refused_with_what_was_probably_meant(graph: og.Graph) -> None:
    for use in (graph.tags.get, graph.tags.delete, lambda name: graph.snapshot(at=f"tag:{name}")):
        with pytest.raises(TagNotFound, match="there is no tag 'frist'") as caught:
            use("frist")
        assert caught.value.hint == "did you mean 'first'?"
    graph.tags.delete("first")
    with pytest.raises(TagNotFound) as caught:
        graph.tags.get("first")
    assert caught.value.hint == "list them with tags.list()"


def test_a_name_that_is_taken_stays_what_it_is(graph: og.Graph) -> None:
    before = graph.tags.get("first")
    with pytest.raises(TagExists, match=f"exists already, on commit {before.commit_id}"):
        graph.tags.create("first")
    assert graph.tags.get("first") == before


def test_a_deleted_name_is_free_for_another_state(graph: og.Graph) -> None:
    graph.tags.delete("first")
    assert graph.tags.list() == []
    graph.tags.create("first")
    assert graph.snapshot(at="tag:first").count("Person") == 3


def test_tags_with_the_same_beginning_do_not_overlap(graph: og.Graph) -> None:
    graph.tags.create("2026/q3")
    graph.tags.create("2026/q3/late")
    graph.tags.create("2026")
    assert list(graph.tags) == ["2026", "2026/q3", "2026/q3/late", "first"]


def test_a_branch_with_tags_is_deleted_only_together_with_them(either: og.Graph) -> None:
    either.branches.create("draft")
    either.write([persons("d")], branch="draft")
    either.tags.create("kept", branch="draft")
    either.tags.create("kept-too", branch="draft")
    with pytest.raises(BranchInUse, match="branch 'draft' has tags 'kept', 'kept-too'") as caught:
        either.branches.delete("draft")
    assert caught.value.details["tags"] == ["kept", "kept-too"]
    assert ids_of(either, "Person", at="tag:kept") == {"a", "b", "c", "d"}
    either.tags.delete("kept-too")
    with pytest.raises(BranchInUse, match="has tag 'kept'") as caught:
        either.branches.delete("draft")
    assert caught.value.hint == "delete it with tags.delete('kept'), or the branch with them: force=True"
    merged = either.branches.merge("draft", delete_branch=True)
    assert (merged.branch_deleted, "has tag 'kept'" in str(merged.branch_delete_error)) == (False, True)
    either.branches.delete("draft", force=True)
    assert (either.branches.list(), list(either.tags)) == (["main"], ["first"])
    either.branches.create("draft")
    assert either.verify().ok


def test_a_renamed_branch_keeps_its_tags(either: og.Graph) -> None:
    either.branches.create("draft")
    either.write([persons("d")], branch="draft")
    either.tags.create("kept", branch="draft")
    either.branches.rename("draft", "review")
    either.branches.create("draft")
    either.write([without("node:Person", "b")], branch="draft")
    assert either.tags.get("kept").branch == "review"
    assert ids_of(either, "Person", at="tag:kept") == {"a", "b", "c", "d"}
    either.branches.delete("draft")
    with pytest.raises(BranchInUse, match="branch 'review' has tag 'kept'"):
        either.branches.delete("review")
    assert either.verify().ok


def test_a_state_that_was_cleaned_up_gets_no_tag(either: og.Graph) -> None:
    first = either.tags.get("first")
    reclaim(either, "main", first.version + 1)
    with pytest.raises(HistoricalVersionReclaimed, match=r"cleaned up|given up"):
        either.tags.create("again", at=first.commit_id)
    assert list(either.tags) == ["first"]
    assert [entry.name for entry in read_tags(either.internals.store.objects)] == ["first"]
    reclaim(either, "main", first.version + 1, keep=(first.version,))
    either.tags.create("again", at=first.commit_id)
    either.branches.create("draft", at=first.commit_id)
    reclaim(either, "draft", 100)
    either.tags.create("newest")
    with pytest.raises(HistoricalVersionReclaimed):
        either.tags.create("drafted", branch="draft")
    either.internals.store.objects.write("__upkeep/reclaimed.json", b"{")
    with pytest.raises(CorruptGraph, match=r"reclaimed\.json is unreadable"):
        either.tags.create("more")


def test_a_handle_that_only_reads_makes_no_tags(graph: og.Graph) -> None:
    with og.open(graph.uri, mode="ro") as reader:
        assert reader.snapshot(at="tag:first").count("Person") == 2
        for use in (reader.tags.create, reader.tags.delete):
            with pytest.raises(ReadOnly):
                use("x")


def test_tags_survive_schema_changes_and_what_they_drop(graph: og.Graph) -> None:
    graph.write([og.Change("node:Note", [{"id": "n", "text": "t"}])])
    graph.tags.create("noted")
    source = graph.schema.text
    dropped = source.replace("node Note { text: String }", "").replace("edge Wrote: Person -> Note", "")
    graph.schema.apply(dropped, allow_data_loss=True)
    assert "node:Note" not in graph.snapshot().tables
    assert graph.snapshot(at="tag:noted").arrow("Note", ["text"]).to_pylist() == [{"text": "t"}]
    assert graph.verify().ok


def test_verify_opens_the_states_of_tags_and_stats_names_them(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    graph.tags.create("first")
    graph.write([persons("c")])
    assert graph.stats().tags == ("first",)
    report = graph.verify()
    assert report.ok
    assert next(check.count for check in report.checks if check.name == "tags") == 1
    location = graph.snapshot().tables["node:Person"].location
    version = graph.snapshot(at="tag:first").tables["node:Person"].version
    (tmp_path / "g" / location / "_versions" / f"{2**64 - 1 - version}.manifest").unlink()
    [problem] = graph.verify().problems
    assert (problem.check, problem.table, problem.harmless) == ("tags", "node:Person", False)
    assert "the state of tag 'first' cannot be opened" in problem.message


def test_an_unreadable_tag_is_named_and_harms_no_reader(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.tags.create("first")
    (tmp_path / "g" / path_of("first")).write_bytes(b"{}")
    with pytest.raises(CorruptGraph, match=r"__tags/first\.json is unreadable"):
        graph.snapshot(at="tag:first")
    assert graph.snapshot().count("Person") == 1
    assert [problem.message for problem in graph.verify().problems] == ["__tags/first.json is unreadable"]


def test_on_an_object_store_a_deleted_tag_keeps_its_entry_and_on_a_disk_nothing_stays(either: og.Graph) -> None:
    objects = either.internals.store.objects
    either.tags.delete("first")
    found = read_tag(objects, "first")
    if either.internals.store.location.is_local:
        assert (found, objects.names(DIRECTORY)) == (None, [])
    else:
        assert found is not None and found[0].state == "deleted"
    assert either.verify().problems == ()


@pytest.mark.parametrize("to_s3", [False, pytest.param(True, marks=pytest.mark.s3)])
def test_clones_and_backups_have_the_tags(
    graph: og.Graph, tmp_path: Path, request: pytest.FixtureRequest, to_s3: bool
) -> None:
    graph.branches.create("draft")
    graph.write([persons("d")], branch="draft")
    graph.tags.create("2026/q3", branch="draft")
    graph.tags.create("gone")
    graph.tags.delete("gone")
    root = f"{request.getfixturevalue('s3_root')}-copies" if to_s3 else str(tmp_path)
    twin, safe = f"{root}/twin", f"{root}/safe"
    assert og.clone(graph.uri, twin).tags == 2
    with og.open(twin) as other:
        assert [tag.commit_id for tag in other.tags.list()] == [tag.commit_id for tag in graph.tags.list()]
        assert ids_of(other, "Person", at="tag:2026/q3") == {"a", "b", "c", "d"}
        assert other.verify().ok
        other.tags.create("gone")
    og.backup(graph.uri, safe)
    graph.tags.delete("first")
    graph.tags.create("first")
    graph.tags.delete("2026/q3")
    og.backup(graph.uri, safe, prune=True)
    with og.open(safe, mode="ro") as other:
        assert list(other.tags) == ["first"]
        assert other.snapshot(at="tag:first").count("Person") == 3


def test_a_tag_on_a_branch_that_is_gone_says_so(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.branches.create("draft")
    graph.tags.create("lost", branch="draft")
    content = (tmp_path / "g" / path_of("lost")).read_bytes()
    graph.branches.delete("draft", force=True)
    (tmp_path / "g" / path_of("lost")).write_bytes(content)
    with pytest.raises(HistoricalVersionReclaimed, match="it went with branch 'draft'") as caught:
        graph.snapshot(at="tag:lost")
    assert caught.value.hint == "delete the tag with tags.delete('lost')"
    [problem] = graph.verify().problems
    assert problem.harmless and "which is gone" in problem.message
    with pytest.raises(BranchNotFound):
        graph.tags.create("more", branch="draft")
    graph.tags.delete("lost")
    assert graph.tags.list() == []
