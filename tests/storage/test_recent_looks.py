"""Reads that were asked for before a look at the storage began may share what it found, and no others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidName
from omnigraph.graph.recent_looks import ASKED

ALL = "query q() { match { $p: P } return { count($p) as n } }"
PUT = "query q($k: String) { insert P { k: $k } }"


@contextmanager
def asked_at(moment: float | None) -> Iterator[None]:
    token = ASKED.set(moment)
    try:
        yield
    finally:
        ASKED.reset(token)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", "node P { k: String @key }")


def count(graph: og.Graph, branch: str | None = None) -> int:
    found: int = graph.query(ALL, branch=branch).scalar()
    return found


def test_a_read_that_was_asked_for_earlier_shares_a_look(graph: og.Graph) -> None:
    before = time.monotonic()
    with asked_at(before):
        assert count(graph) == 0
        og.open(graph.uri).mutate(PUT, {"k": "a"})
        assert count(graph) == 0
        assert count(graph.acting_as("act-ana")) == 0
    assert count(graph) == 1


def test_a_read_that_is_asked_for_after_a_commit_sees_it(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    for number in range(5):
        with asked_at(time.monotonic()):
            assert count(graph) == number
        other.mutate(PUT, {"k": f"p{number}"})


def test_a_look_at_one_branch_says_nothing_of_another(graph: og.Graph) -> None:
    graph.branches.create("side")
    with asked_at(time.monotonic()):
        assert count(graph) == 0
        graph.mutate(PUT, {"k": "a"}, branch="side")
        assert count(graph, "side") == 1
        with pytest.raises(InvalidName):
            count(graph, "")
