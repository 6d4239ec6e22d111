"""Rows of every type go through a merge unchanged, and equal values are equal whatever way they were stored."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflict
from omnigraph.write.change import Change, Mode
from tests.merge.branches import state
from tests.merge.oracle import same

SCHEMA = """
node Thing {
  name: String @key
  flag: Bool?
  small: I32?
  large: U64?
  half: F32?
  whole: F64?
  day: Date?
  moment: DateTime?
  kind: enum(a, b)?
  tags: [String]?
  numbers: [I64]?
  place: Vector(2)?
  body: Blob?
}
edge Has: Thing -> Thing { body: Blob? }
"""
FULL: dict[str, Any] = {
    "name": "full",
    "flag": False,
    "small": -1,
    "large": 2**64 - 1,
    "half": 0.5,
    "whole": -0.0,
    "day": date(1999, 12, 31),
    "moment": datetime(2024, 1, 2, 3, 4, 5, 678000, UTC),
    "kind": "a",
    "tags": ["", "ü"],
    "numbers": [],
    "place": [0.25, -1.0],
    "body": bytes(range(256)) * 300,
}


def things(*rows: dict[str, Any]) -> Change:
    names = sorted({name for row in rows for name in row})
    types = {"whole": pa.float64(), "half": pa.float32(), "numbers": pa.list_(pa.int64()), "large": pa.uint64()}
    columns = {name: pa.array([row.get(name) for row in rows], types.get(name)) for name in names}
    return Change("node:Thing", pa.table(columns), Mode.MERGE)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([things({**FULL, "name": "base"})])
    graph.branches.create("b")
    return graph


def test_every_kind_of_value_arrives_as_it_was(graph: og.Graph) -> None:
    graph.write([things(FULL, {"name": "empty"}, {"name": "base", "body": b"", "tags": [], "half": 1.5})], branch="b")
    graph.write([things({"name": "own", "body": b"mine"})])
    result = graph.branches.merge("b")
    assert result.tables["node:Thing"].to_dict() == {"inserted": 2, "updated": 1, "deleted": 0}
    ours, theirs = state(graph, "main")["node:Thing"], state(graph, "b")["node:Thing"]
    assert all(same(ours[name], theirs[name]) for name in theirs)
    assert ours["full"]["body"] == FULL["body"]
    assert ours["base"]["body"] == b"" and ours["empty"]["body"] is None
    assert ours["own"]["body"] == b"mine"


def test_the_same_values_written_on_both_sides_are_no_conflict(graph: og.Graph) -> None:
    for branch in ("b", "main"):
        graph.write([things(FULL, {"name": "base", "body": b"same", "place": [1, 2]})], branch=branch)
    graph.write([things({"name": "other"})])
    result = graph.branches.merge("b")
    assert (result.outcome, dict(result.tables)) == ("merged", {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"body": b"ab"}, {"body": b"ba"}),
        ({"whole": 0.0}, {"whole": -0.0}),
        ({"tags": []}, {"tags": None}),
        ({"tags": ["a,b"]}, {"tags": ["a", "b"]}),
        ({"place": [0.0, 1.0]}, {"place": [-0.0, 1.0]}),
    ],
    ids=["blobs of one length", "two zeros", "empty and null", "one and two", "zeros of a vector"],
)
def test_values_that_only_look_alike_are_a_conflict(
    graph: og.Graph, one: dict[str, Any], other: dict[str, Any]
) -> None:
    rest = {"name": "base", "small": 7}
    graph.write([things({**rest, **one})], branch="b")
    graph.write([things({**rest, **other})])
    with pytest.raises(MergeConflict, match="DivergentUpdate"):
        graph.branches.merge("b")
    graph.branches.merge("b", resolve="theirs")
    found = state(graph, "main")["node:Thing"]["base"]
    assert same({k: found[k] for k in one}, one)


def test_a_change_that_was_taken_back_is_no_change(graph: og.Graph) -> None:
    graph.write([things({"name": "base", "small": 5})], branch="b")
    graph.write([things({**FULL, "name": "base"})], branch="b")
    graph.write([things({"name": "base", "small": 9})])
    result = graph.branches.merge("b")
    assert (result.outcome, dict(result.tables)) == ("merged", {})
    assert state(graph, "main")["node:Thing"]["base"]["small"] == 9
