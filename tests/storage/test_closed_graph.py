"""A handle that was closed refuses everything, in words that say so; closing it again does nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import GraphClosed, StorageError
from tests.support.small_graphs import people, persons

READ = "query q() { match { $p: Person } return { count($p) as n } }"

VERBS: dict[str, Callable[[og.Graph], object]] = {
    "with": lambda graph: graph.__enter__(),
    "query": lambda graph: graph.query(READ),
    "explain": lambda graph: graph.explain(READ),
    "lint": lambda graph: graph.lint(READ),
    "snapshot": lambda graph: graph.snapshot(),
    "export": lambda graph: graph.export(),
    "mutate": lambda graph: graph.mutate('query q() { delete Person where name = "a" }'),
    "load": lambda graph: graph.load({"Person": pa.table({"handle": ["b"]})}, "append", engine="embedded"),
    "write": lambda graph: graph.write([persons("b")]),
    "diff": lambda graph: graph.diff("main", "main"),
    "changes": lambda graph: graph.changes(),
    "commit_changes": lambda graph: graph.commit_changes("x"),
    "baseline": lambda graph: graph.baseline(),
    "branches": lambda graph: graph.branches.list(),
    "commits": lambda graph: graph.commits.head(),
    "schema": lambda graph: graph.schema,
    "catalog": lambda graph: graph.catalog,
    "catalog_of": lambda graph: graph.catalog_of(),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "verify": lambda graph: graph.verify(),
    "recover": lambda graph: graph.recover(),
    "recoveries": lambda graph: graph.recoveries,
    "internals": lambda graph: graph.internals,
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = people(tmp_path_factory.mktemp("closed") / "g", "a")
    graph.close()
    return graph


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_graph_refuses(verb: str, closed: og.Graph) -> None:
    with pytest.raises(GraphClosed) as caught:
        VERBS[verb](closed)
    assert isinstance(caught.value, StorageError)
    assert caught.value.code == "storage.closed"
    assert str(caught.value) == f"{closed.uri} was closed (open it again with omnigraph.open)"


def test_what_was_taken_from_a_graph_before_it_was_closed_refuses_too(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    branches, commits = graph.branches, graph.commits
    graph.close()
    with pytest.raises(GraphClosed):
        branches.create("side")
    with pytest.raises(GraphClosed):
        commits.list()


def test_a_graph_can_be_closed_twice_and_is_closed_behind_its_block(tmp_path: Path) -> None:
    with people(tmp_path / "g", "a") as graph:
        assert not repr(graph).endswith("closed)")
        graph.close()
    graph.close()
    assert repr(graph) == f"Graph({graph.uri!r}, mode='rw', closed)"
    with og.open(graph.uri, mode="ro") as reader:
        assert reader.query(READ).rows() == [{"n": 1}]
    with pytest.raises(GraphClosed):
        reader.query(READ)


def test_closing_waits_for_the_copies_of_the_commits(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.write([persons("b")])
    graph.close()
    with og.open(graph.uri, mode="ro") as reader:  # which would not make up for anything
        assert reader.verify().problems == ()
