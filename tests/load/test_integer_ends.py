"""Edges between nodes whose key is an integer: their ends may be that integer, in every format."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InvalidRow
from omnigraph.write.change import Change
from tests.load.reading import parse, said
from tests.support.small_graphs import rows_of

SCHEMA = "node T { k: U64 @key }\nnode S { k: String @key }\nedge Next: T -> T\nedge Named: T -> S"
BIG = 2**64 - 1


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load({"T": [{"k": 7}, {"k": BIG}], "S": [{"k": "7"}]}, "append")
    return graph


def _parquet(table: pa.Table) -> io.BytesIO:
    held = io.BytesIO()
    pq.write_table(table, held)
    return held


def _lines(form: str, ends: list[tuple[Any, Any]]) -> io.StringIO:
    record = {"edge": "Next"} if form == "jsonl" else {}
    return io.StringIO("\n".join(json.dumps({**record, "from": a, "to": b}) for a, b in ends))


@pytest.mark.parametrize("type_", [pa.uint64(), pa.decimal128(20)])
def test_arrow_and_parquet(graph: og.Graph, type_: pa.DataType) -> None:
    ends = pa.table({"src": pa.array([7, BIG], type_), "dst": pa.array([BIG, 7], type_)})
    graph.load({"Next": ends}, "append")
    graph.load({"Next": _parquet(ends)}, "append", format="parquet")
    graph.write([Change("edge:Next", ends)])
    found = [(row["src"], row["dst"]) for row in rows_of(graph, "Next").values()]
    assert sorted(found) == sorted([("7", str(BIG)), (str(BIG), "7")] * 3)


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_lines_with_numbers_texts_and_both(graph: og.Graph, form: Literal["jsonl", "json"]) -> None:
    type_ = "Next" if form == "json" else None
    for ends in ([(7, BIG)] * 40, [("7", str(BIG))] * 40, [(7, str(BIG)), ("7", BIG)] * 20):
        graph.load(_lines(form, ends), "append", format=form, type=type_)
    assert {(row["src"], row["dst"]) for row in rows_of(graph, "Next").values()} == {("7", str(BIG))}
    assert graph.snapshot().count("Next") == 120


def test_many_lines_with_numbers_go_the_fast_way(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("a line was read by itself")

    monkeypatch.setattr("omnigraph.write.load.parse_lines.read_record", slow)
    graph.load(_lines("jsonl", [(7, BIG)] * 100), "append")
    assert graph.snapshot().count("Next") == 100


def test_the_numbers_of_csv_have_one_spelling(graph: og.Graph) -> None:
    graph.load(io.StringIO("from,to\n007,7\n7,07\n"), "append", format="csv", type="Next")
    assert {(row["src"], row["dst"]) for row in rows_of(graph, "Next").values()} == {("7", "7")}


def test_numbers_do_not_name_nodes_whose_key_is_text(graph: og.Graph) -> None:
    with pytest.raises(InvalidRow, match="property 'dst' expects String, got I64"):
        graph.load({"Named": pa.table({"src": [7], "dst": [7]})}, "append")
    with pytest.raises(InvalidRow, match="graph batch field 'to' must be a string, got 7"):
        graph.load(io.StringIO('{"edge":"Named","from":7,"to":7}'), "append")
    with pytest.raises(InvalidRow, match="property 'src' value -1 exceeds U64 range"):
        graph.load({"Next": pa.table({"src": [-1], "dst": [7]})}, "append")
    with pytest.raises(InvalidRow, match="'from' -1 exceeds U64 range"):
        graph.load(io.StringIO('{"edge":"Next","from":-1,"to":7}'), "append")


def test_other_numbers_are_no_ends(graph: og.Graph) -> None:
    catalog = graph.internals.catalog_of(graph.internals.snapshot("main", None))
    for value in ("7.0", "true", "1e2", "null"):
        found = said(parse(f'{{"edge":"Next","from":{value},"to":7}}', catalog))
        assert [message.partition(" must")[0] for _, _, message in found] == ["line 1: graph batch field 'from'"]


def test_other_columns_are_told_the_type_of_the_key(graph: og.Graph) -> None:
    for column, word in ((pa.array([7.0]), "F64"), (pa.array([True]), "Bool")):
        with pytest.raises(InvalidRow, match=f"property 'src' expects U64, got {word}"):
            graph.load({"Next": pa.table({"src": column, "dst": [7]})}, "append")
