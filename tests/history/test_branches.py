"""Branches: isolation, deletion rules, names that come back."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import BranchExists, BranchInUse, BranchNotFound, NotFoundError
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import files_below, ids_of, people, persons, without


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return people(tmp_path / "g", "a", "b")


def test_making_a_branch_copies_nothing_and_touches_no_table(graph: og.Graph) -> None:
    root = Path(graph.uri)
    graph._store.mirror.flush()
    before = files_below(root)
    graph.branches.create("side/x")
    new = files_below(root) - before
    assert {name.split("/")[0] for name in new if not name.endswith(".lock")} == {"__manifest", "__branches"}
    ref = json.loads((root / "__manifest" / "_refs" / "branches" / "side%2Fx.json").read_text())
    assert ref["parentBranch"] is None
    assert graph.commits.list("side/x") == graph.commits.list()


def test_branches_do_not_see_each_other(graph: og.Graph) -> None:
    graph.branches.create("one")
    graph.branches.create("two")
    graph.write([persons("x")], branch="one")
    graph.write([without("node:Person", "a")], branch="two")
    graph.write([persons("b", mode=Mode.MERGE, age=[9])])
    assert ids_of(graph, "Person", "one") == {"a", "b", "x"}
    assert ids_of(graph, "Person", "two") == {"b"}
    assert ids_of(graph, "Person") == {"a", "b"}
    ages = {
        name: graph.snapshot(name).arrow("Person").filter(pa.compute.field("id") == "b") for name in ("main", "one")
    }
    assert [table.column("age").to_pylist() for table in ages.values()] == [[9], [None]]


def test_a_table_is_forked_by_its_first_write_only(graph: og.Graph) -> None:
    graph.branches.create("side")
    assert {pin.branch for pin in graph.snapshot("side").tables.values()} == {None}
    graph.write([persons("x")], branch="side")
    pins = graph.snapshot("side").tables
    assert {key: pin.branch for key, pin in pins.items() if pin.branch} == {"node:Person": "side"}
    assert pins["node:Person"].version == graph.snapshot().tables["node:Person"].version + 1


def test_branches_of_branches_read_their_ancestors_tables(graph: og.Graph) -> None:
    graph.branches.create("one")
    graph.write([persons("x")], branch="one")
    graph.branches.create("two", "one")
    graph.branches.create("three", "two")
    assert graph.snapshot("three").tables["node:Person"].branch == "one"
    graph.write([persons("y")], branch="three")
    graph.write([persons("z")], branch="one")
    states = {name: ids_of(graph, "Person", name) for name in ("one", "two", "three")}
    assert states == {"one": {"a", "b", "x", "z"}, "two": {"a", "b", "x"}, "three": {"a", "b", "x", "y"}}
    assert graph.snapshot("three").tables["node:Person"].branch == "three"


def test_the_list_is_main_first_then_by_name(graph: og.Graph) -> None:
    for name in ("b", "a/x", "Z", "a-x"):
        graph.branches.create(name)
    assert graph.branches.list() == ["main", "Z", "a-x", "a/x", "b"]
    assert list(graph.branches) == graph.branches.list()


def test_a_taken_name_is_refused(graph: og.Graph) -> None:
    graph.branches.create("side")
    with pytest.raises(BranchExists, match="'side' exists"):
        graph.branches.create("side")
    with pytest.raises(BranchExists, match="overlap"):
        graph.branches.create("side/x")
    graph.branches.create("a/b")
    with pytest.raises(BranchExists, match="overlap"):
        graph.branches.create("a")


def test_a_parent_cannot_be_deleted_and_names_its_child(graph: og.Graph) -> None:
    graph.branches.create("one")
    graph.branches.create("two", "one")
    with pytest.raises(BranchInUse, match="two") as caught:
        graph.branches.delete("one")
    assert caught.value.details["used_by"] == "two"
    assert ids_of(graph, "Person", "one") == {"a", "b"}
    graph.branches.delete("two")
    graph.branches.delete("one")
    assert graph.branches.list() == ["main"]


def test_deleting_removes_what_the_branch_owned_and_nothing_else(graph: og.Graph) -> None:
    root = Path(graph.uri)
    graph._store.mirror.flush()
    before = files_below(root)
    graph.branches.create("side")
    graph.write([persons("x")], branch="side")
    graph._store.mirror.flush()
    graph.branches.delete("side")
    left = {name for name in files_below(root) - before if not name.endswith(".lock")}
    assert not left
    assert before <= files_below(root)
    for call in (
        lambda: graph.snapshot("side"),
        lambda: graph.write([persons("y")], branch="side"),
        lambda: graph.commits.list("side"),
        lambda: graph.branches.delete("side"),
    ):
        with pytest.raises(BranchNotFound):
            call()
    assert ids_of(graph, "Person") == {"a", "b"}


def test_a_name_can_be_used_again_with_another_history(graph: og.Graph) -> None:
    for round_ in range(3):
        graph.branches.create("side")
        graph.write([persons(f"r{round_}")], branch="side")
        assert ids_of(graph, "Person", "side") == {"a", "b", f"r{round_}"}
        assert [commit.branch for commit in graph.commits.list("side")].count("side") == 1
        graph.branches.delete("side")


def test_an_old_handle_sees_the_new_branch_of_an_old_name(graph: og.Graph) -> None:
    """Version numbers of the two branches are the same; only the branch's identity tells them apart."""
    other = og.open(graph.uri)
    graph.branches.create("side")
    graph.write([persons("old")], branch="side")
    version = other.snapshot("side").version
    held = other.snapshot("side")
    assert "old" in ids_of(other, "Person", "side", at=version)
    graph.branches.delete("side")
    graph.branches.create("side")
    graph.write([persons("new")], branch="side")
    assert ids_of(other, "Person", "side") == {"a", "b", "new"}
    assert ids_of(other, "Person", "side", at=version) == {"a", "b", "new"}
    other.write([persons("more")], branch="side")
    assert ids_of(graph, "Person", "side") == {"a", "b", "new", "more"}
    head = held._stored.head
    assert head is not None
    with pytest.raises(NotFoundError):
        other.commits.get(head.commit_id)


def test_an_old_handle_notices_that_its_branch_is_gone(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    graph.branches.create("side")
    other.write([persons("x")], branch="side")
    graph.branches.delete("side")
    with pytest.raises(BranchNotFound):
        other.write([persons("y")], branch="side")
    with pytest.raises(BranchNotFound):
        other.snapshot("side")
    assert other.branches.list() == ["main"]


@pytest.mark.parametrize(
    "failpoint", ["branch_create.before_ref", "branch_create.after_ref", "branch_create.after_entry"]
)
def test_a_failed_create_leaves_a_branch_or_none(graph: og.Graph, failpoint: str) -> None:
    failpoints.arm(f"{failpoint}=raise")
    try:
        with pytest.raises(og.OmniGraphError):
            graph.branches.create("side")
    finally:
        failpoints.arm("")
    if failpoint.endswith("before_ref"):
        graph.branches.create("side")
    graph.write([persons("x")], branch="side")
    assert ids_of(graph, "Person", "side") == {"a", "b", "x"}


def test_a_delete_that_fails_half_way_frees_the_name(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.write([persons("x")], branch="side")
    failpoints.arm("branch_delete.before_table_cleanup=raise")
    try:
        with pytest.raises(og.OmniGraphError):
            graph.branches.delete("side")
    finally:
        failpoints.arm("")
    assert graph.branches.list() == ["main"]
    graph.branches.create("side")
    graph.write([persons("y")], branch="side")
    assert ids_of(graph, "Person", "side") == {"a", "b", "y"}


def test_a_tree_without_a_ref_is_no_branch_and_is_replaced(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.write([persons("x")], branch="side")
    graph._store.mirror.flush()
    ref = Path(graph.uri) / "__manifest" / "_refs" / "branches" / "side.json"
    ref.unlink()
    assert graph.branches.list() == ["main"]
    graph.branches.create("side")
    assert ids_of(graph, "Person", "side") == {"a", "b"}
    graph.write([persons("y")], branch="side")
    assert ids_of(graph, "Person", "side") == {"a", "b", "y"}


def test_the_same_write_on_two_branches_makes_two_commits(graph: og.Graph) -> None:
    graph.branches.create("side")
    done = [graph.write([Change("node:Note", pa.table({"text": ["t"]}))], branch=b).commit for b in ("main", "side")]
    assert done[0] is not None and done[1] is not None
    assert done[0].id != done[1].id
    assert done[0].parent == done[1].parent
