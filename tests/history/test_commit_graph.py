"""The history by both parents: what is in it, in which order, and which lines remain when commits are left out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, CommitNotFound, InputError
from tests.support.small_graphs import people, persons


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """``init a | side: x y | main: b | merge side | open: z, off the merge | main: c``; side is deleted."""
    graph = people(tmp_path / "g", actor="act-anna")
    graph.write([persons("a")], message="a")
    graph.branches.create("side")
    with og.open(graph.uri, actor="act-bo") as other:
        other.write([persons("x")], branch="side", message="x")
        graph.write([persons("b")], message="b")
        other.write([persons("y")], branch="side", message="y")
    graph.branches.merge("side", message="merge", delete_branch=True)
    graph.branches.create("open")
    graph.write([persons("z")], branch="open", message="z")
    graph.write([persons("c")], message="c")
    return graph


def _lines(nodes: list[og.CommitNode]) -> dict[str, list[str]]:
    """Message of each commit → messages of the parents that are shown."""
    said = {node.commit.id: node.commit.message or "init" for node in nodes}
    return {said[node.commit.id]: [said.get(each, "…") for each in node.parents] for node in nodes}


def test_all_branches_and_what_was_merged_are_listed_once_children_first(graph: og.Graph) -> None:
    nodes = list(graph.commits.graph())
    assert _lines(nodes) == {
        "c": ["merge"],
        "z": ["merge"],
        "merge": ["b", "y"],
        "y": ["x"],
        "b": ["a"],
        "x": ["a"],
        "a": ["init"],
        "init": [],
    }
    assert list(_lines(nodes)) == ["c", "z", "merge", "y", "b", "x", "a", "init"]
    assert {node.commit.message: node.heads for node in nodes if node.heads} == {"c": ("main",), "z": ("open",)}
    assert list(graph.commits.graph(["open", "main"])) == nodes
    assert nodes[2].to_dict()["shown_parent_ids"] == [nodes[2].commit.parent, nodes[2].commit.merged_parent]


def test_one_branch_has_what_it_descends_from(graph: og.Graph) -> None:
    assert set(_lines(list(graph.commits.graph(["open"])))) == {"z", "merge", "y", "x", "b", "a", "init"}
    with pytest.raises(BranchNotFound):
        graph.commits.graph(["side"])


def test_a_limit_takes_the_newest_and_lines_lead_out_of_the_list(graph: og.Graph) -> None:
    assert _lines(list(graph.commits.graph(limit=4))) == {
        "c": ["merge"],
        "z": ["merge"],
        "merge": ["…", "y"],
        "y": ["…"],
    }
    assert graph.commits.graph(limit=0) == []


def test_lines_lead_past_commits_that_are_left_out(graph: og.Graph) -> None:
    assert _lines(list(graph.commits.graph(["main"], actor="act-anna"))) == {
        "c": ["merge"],
        "merge": ["b", "a"],
        "b": ["a"],
        "a": ["init"],
        "init": [],
    }
    assert _lines(list(graph.commits.graph(actor="act-bo"))) == {"y": ["x"], "x": []}
    assert _lines(list(graph.commits.graph(message=("c", "y", "a")))) == {"c": ["a", "y"], "y": ["a"], "a": []}
    assert _lines(list(graph.commits.graph(actor="act-anna", limit=2, made_on="main"))) == {
        "c": ["merge"],
        "merge": ["…", "…"],
    }


def test_bounds_are_those_of_git(graph: og.Graph) -> None:
    by_word = {node.commit.message: node.commit for node in graph.commits.graph()}
    assert set(_lines(list(graph.commits.graph(since=by_word["b"].id)))) == {"c", "z", "merge", "y", "x"}
    assert set(_lines(list(graph.commits.graph(until=by_word["y"].id)))) == {"y", "x", "a", "init"}
    assert set(_lines(list(graph.commits.graph(since=by_word["a"].id, until=by_word["merge"].id)))) == {
        *("merge", "y", "b", "x"),
    }
    moment = by_word["y"].created_at
    assert set(_lines(list(graph.commits.graph(since=moment)))) == {"c", "z", "merge", "y"}
    assert set(_lines(list(graph.commits.graph(until=moment - timedelta(microseconds=1))))) == {"b", "x", "a", "init"}
    with pytest.raises(CommitNotFound):
        graph.commits.graph(["main"], until=by_word["z"].id)
    with pytest.raises(InputError, match="a state of one branch"):
        graph.commits.graph(since=3)
