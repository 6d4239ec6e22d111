"""A small load on Spark into a large table costs what the load costs: stored rows are looked up, not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.errors import CardinalityViolation, EndpointMissing, KeyConflict
from omnigraph.spark.loading import fetch, key_scan, replace_rows

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = """
node Person { handle: String @key  age: I32? }
edge Knows: Person -> Person @card(0..3)
"""
STORED = 20_000


class Rows:
    """Stored rows that a load got to see: ``read`` without knowing whether they matter, or ``found`` by their key."""

    def __init__(self) -> None:
        self.read = self.found = 0


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    seen = Rows()

    def counted(module: Any, name: str, kind: str) -> None:
        function = getattr(module, name)

        def count(*given: Any, **named: Any) -> pa.Table:
            rows: pa.Table = function(*given, **named)
            setattr(seen, kind, getattr(seen, kind) + rows.num_rows)
            return rows

        monkeypatch.setattr(module, name, count)

    for module in (fetch, key_scan, replace_rows):
        counted(module, "read_stored", "read")
    for module in (key_scan, replace_rows):
        counted(module, "find_rows", "found")
    return seen


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """A ring of people, each of whom knows the next one."""
    names = [f"p{number:05d}" for number in range(STORED)]
    with og.init(tmp_path / "g", SCHEMA) as graph:
        ends = pa.table({"src": names, "dst": [*names[1:], names[0]]})
        graph.load({"Person": pa.table({"handle": names}), "Knows": ends}, "append", engine="embedded")
        graph.ensure_indices()
        yield graph


def lines(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "in.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def person(handle: str, **values: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"handle": handle, **values}}


def knows(source: str, target: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target}


def test_a_small_append_reads_no_row_that_it_does_not_name(tmp_path: Path, graph: og.Graph, rows: Rows) -> None:
    source = lines(tmp_path, person("new"), knows("new", "p00007"), knows("p00009", "new"), knows("p00009", "p00011"))
    result = ogs.load(graph, source, "append")
    assert (result.nodes, result.edges) == ({"Person": 1}, {"Knows": 3})
    assert rows.read == 0
    assert rows.found == 4  # the three people that exist, and the edge that p00009 had before


def test_a_small_merge_reads_no_row_that_it_does_not_name(tmp_path: Path, graph: og.Graph, rows: Rows) -> None:
    result = ogs.load(graph, lines(tmp_path, person("p00007", age=7), person("new", age=8)), "merge")
    assert result.nodes == {"Person": 2}
    assert (rows.read, rows.found) == (0, 1)
    ages = {row["handle"]: row["age"] for row in graph.snapshot().arrow("Person").to_pylist() if row["age"]}
    assert ages == {"p00007": 7, "new": 8}
    assert graph.snapshot().count("Person") == STORED + 1


@pytest.mark.parametrize(
    ("records", "error", "rejects"),
    [
        ([person("p00003")], KeyConflict, ["node type 'Person' already has this id"]),
        ([knows("p00003", "nobody")], EndpointMissing, ["dst 'nobody' not found in Person"]),
        (
            [knows("p00003", f"p0001{number}") for number in range(3)],
            CardinalityViolation,
            ["@card violation on edge Knows: source 'p00003' has 4 edges (max 3)"],
        ),
    ],
)
def test_a_small_load_that_breaks_a_rule_reads_nothing_more(
    tmp_path: Path, graph: og.Graph, rows: Rows, records: list[Any], error: type[Exception], rejects: list[str]
) -> None:
    with pytest.raises(error):
        ogs.load(graph, lines(tmp_path, *records), "append")
    result = ogs.load(graph, lines(tmp_path, person("good"), *records), "append", on_error="reject")
    assert result.nodes["Person"] == 1
    assert [row["reason"] for row in result.rejects.to_pylist()] == rejects
    assert rows.read == 0
    assert rows.found < 20


def test_a_large_part_of_a_table_is_read_as_a_whole(tmp_path: Path, graph: og.Graph, rows: Rows) -> None:
    """Above a sixteenth of the table one scan costs less than so many scan_keys-ups."""
    source = lines(tmp_path, *(person(f"p{number:05d}", age=1) for number in range(STORED // 16 + 1)))
    ogs.load(graph, source, "merge")
    assert (rows.read, rows.found) == (STORED, 0)
