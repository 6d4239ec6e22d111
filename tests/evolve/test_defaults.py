"""Default values: what fills a property that a write does not give, and rows that a schema change finds."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import MissingValue, UnsupportedSchemaChange
from omnigraph.write.change import Change
from tests.evolve.graphs import SCHEMA, assert_whole, content, rows, small_graph
from tests.support.waiting import wait_until

_DEFAULTS = """
node Task {
    key: String @key
    state: enum(open, done) @default(open)
    level: I32? @default(-1)
    share: F32 @default(0.5)
    due: Date? @default("2024-02-29")
    seen: DateTime @default("1969-12-31T23:59:59.999Z")
    label: String @default("a \\"b\\"")
    ok: Bool @default(false)
}
edge Needs: Task -> Task { weight: F64 @default(1) }
"""
_FILLED = {
    "state": "open",
    "level": -1,
    "share": 0.5,
    "due": date(2024, 2, 29),
    "label": 'a "b"',
    "ok": False,
}


def _shown(graph: og.Graph) -> dict[str, dict[str, Any]]:
    table = graph.snapshot().arrow("Task")
    seen = dict(zip(table["id"].to_pylist(), table["seen"].cast(pa.int64()).to_pylist(), strict=True))
    assert set(seen.values()) <= {-1}
    return {row["id"]: {name: row[name] for name in _FILLED} for row in table.drop_columns("seen").to_pylist()}


def _mutation(graph: og.Graph, folder: Path) -> None:
    graph.mutate('query q() { insert Task { key: "a" } insert Task { key: "b", level: null, state: "done" } }')


def _load_lines(graph: og.Graph, folder: Path, *lines: str) -> None:
    (folder / "in.jsonl").write_text("\n".join(lines), "utf-8")
    graph.load(folder / "in.jsonl", "append")


def _jsonl(graph: og.Graph, folder: Path) -> None:
    lines = [
        '{"type": "Task", "data": {"key": "a"}}',
        '{"type":"Task","data":{"key":"b","level" : null,"state":"done"}}',
    ]
    (folder / "in.jsonl").write_text("\n".join(lines), "utf-8")
    graph.load(folder / "in.jsonl", "append")


def _escaped(graph: og.Graph, folder: Path) -> None:
    lines = [
        r'{"type": "Task", "data": {"\u006bey": "a"}}',
        r'{"type":"Task","data":{"key":"b","leve\u006c":null,"state":"done"}}',
    ]
    (folder / "in.jsonl").write_text("\n".join(lines), "utf-8")
    graph.load(folder / "in.jsonl", "append")


def _csv(graph: og.Graph, folder: Path) -> None:
    (folder / "a.csv").write_text("key\na\n", "utf-8")
    (folder / "b.csv").write_text("key,level,state\nb,,done\n", "utf-8")
    graph.load({"Task": [folder / "a.csv", folder / "b.csv"]}, "append")


def _parquet(graph: og.Graph, folder: Path) -> None:
    pq.write_table(pa.table({"key": ["a"]}), folder / "a.parquet")
    level = pa.array([None], pa.int32())
    pq.write_table(pa.table({"key": ["b"], "level": level, "state": ["done"]}), folder / "b.parquet")
    graph.load({"Task": [folder / "a.parquet", folder / "b.parquet"]}, "append")


def _change(graph: og.Graph, folder: Path) -> None:
    graph.write([Change("node:Task", pa.table({"key": ["a"]}))])
    level = pa.array([None], pa.int32())
    graph.write([Change("node:Task", pa.table({"key": ["b"], "level": level, "state": ["done"]}))])


@pytest.mark.parametrize("write", [_mutation, _jsonl, _escaped, _csv, _parquet, _change])
def test_a_property_that_is_not_given_gets_its_default_and_a_null_that_is_given_stays(
    tmp_path: Path, write: Callable[[og.Graph, Path], None]
) -> None:
    with og.init(tmp_path / "g", _DEFAULTS) as graph:
        write(graph, tmp_path)
        assert _shown(graph) == {"a": _FILLED, "b": _FILLED | {"level": None, "state": "done"}}


def test_a_null_for_a_required_property_with_a_default_is_refused(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", _DEFAULTS) as graph:
        with pytest.raises(MissingValue):
            graph.mutate('query q($ok: Bool?) { insert Task { key: "a", ok: $ok } }')
        (tmp_path / "in.jsonl").write_text('{"type": "Task", "data": {"key": "a", "ok": null}}', "utf-8")
        with pytest.raises(MissingValue):
            graph.load(tmp_path / "in.jsonl", "append")
        assert graph.snapshot().count("Task") == 0


def test_edges_have_defaults_too(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", _DEFAULTS) as graph:
        graph.mutate(
            'query q() { insert Task { key: "a" } insert Needs { from: "a", to: "a" } '
            'insert Needs { from: "a", to: "a", weight: 2.5 } }'
        )
        assert sorted(graph.snapshot().arrow("Needs")["weight"].to_pylist()) == [1.0, 2.5]


_NEW = '  rank: I64 @default(7)  mood: String @default("fine")  born: Date? @default("2024-02-29")'


def test_a_new_property_with_a_default_fills_the_rows_that_are_there(tmp_path: Path) -> None:
    with small_graph(tmp_path / "g") as graph:
        graph.mutate('query q() { insert Person { name: "Cem", age: 5 } }')
        graph.mutate('query q() { delete Person where name = "Ann" }')
        before, past = graph.commits.head().id, content(graph)
        text = SCHEMA.replace("note: String?", f"note: String?{_NEW}").replace("since: I32?", "since: I64 @default(0)")
        with pytest.raises(UnsupportedSchemaChange, match="changing property type"):
            graph.schema.apply(text)
        text = text.replace("since: I64 @default(0)", "since: I32?  w: F32 @default(2)").replace(
            "age: I32", "age: I64?"
        )
        done = graph.schema.apply(text)
        assert done.applied
        filled = {"rank": 7, "mood": "fine", "born": date(2024, 2, 29)}
        assert [(row["id"], row["age"], {name: row[name] for name in filled}) for row in rows(graph, "Person")] == [
            ("Bob", 4, filled),
            ("Cem", 5, filled),
        ]
        assert content(graph, at=before) == past
        assert not graph.schema.apply(text).applied
        graph.mutate('query q() { insert Person { name: "Dee" } update Person set { mood: "sad" } where name = "Bob" }')
        found = graph.query("query q() { match { $p: Person } return { $p.name, $p.mood } order { $p.name } }").rows()
        assert [row["p.mood"] for row in found] == ["sad", "fine", "fine"]
        assert_whole(graph)
    with og.open(tmp_path / "g") as graph:
        assert {row["rank"] for row in rows(graph, "Person")} == {7}


def test_a_default_that_changes_is_for_rows_from_now_on(tmp_path: Path) -> None:
    with small_graph(tmp_path / "g", SCHEMA.replace("age: I32", "age: I32 @default(1)")) as graph:
        graph.schema.apply(SCHEMA.replace("age: I32", "age: I32 @default(2)"))
        graph.mutate('query q() { insert Person { name: "Cem" } }')
        assert [row["age"] for row in rows(graph, "Person")] == [3, 4, 2]
        assert_whole(graph)


def test_a_required_property_may_come_to_a_type_without_rows(tmp_path: Path) -> None:
    text = (
        SCHEMA
        + "node Idle implements Named { a: String @key }\ninterface Named { b: String? }\nedge Sees: Idle -> Idle\n"
    )
    wanted = text.replace("b: String?", "b: String?  c: I32").replace("Idle -> Idle", "Idle -> Idle { d: Date }")
    with small_graph(tmp_path / "g", text) as graph:
        assert graph.schema.plan(wanted).lines() == (
            "add property 'Named.c' (I32) on interface 'Named'",
            "add property 'Idle.c' (I32) on node 'Idle'",
            "add property 'Sees.d' (Date) on edge 'Sees'",
        )
        graph.schema.apply(wanted)
        with pytest.raises(og.errors.QueryTypeError, match="non-nullable property `c`"):
            graph.mutate('query q() { insert Idle { a: "x" } }')
        graph.mutate('query q() { insert Idle { a: "x", c: 1 } }')
        assert rows(graph, "Idle") == [{"id": "x", "a": "x", "b": None, "c": 1}]
        with pytest.raises(UnsupportedSchemaChange, match=r"adding required property 'Named\.e'"):
            graph.schema.apply(wanted.replace("c: I32", "c: I32  e: I32"))
        assert_whole(graph)


def test_a_row_that_comes_meanwhile_keeps_the_required_property_out(tmp_path: Path) -> None:
    text = SCHEMA + "node Idle { a: String @key }\n"
    place = tmp_path / "pause"
    with small_graph(tmp_path / "g", text) as graph, ThreadPoolExecutor(1) as threads:
        failpoints.arm(f"write.after_stage=pause:{place}")
        try:
            change = threads.submit(graph.schema.apply, text.replace("a: String @key", "a: String @key  b: I32"))
            reached = place.with_name("pause.reached")
            wait_until(lambda: reached.exists() or change.done(), timeout=30, what="the staged change")
            graph.mutate('query q() { insert Idle { a: "x" } }')
        finally:
            place.with_name("pause.release").touch()
            failpoints.arm("")
        with pytest.raises(UnsupportedSchemaChange, match=r"adding required property 'Idle\.b'"):
            change.result()
        assert rows(graph, "Idle") == [{"id": "x", "a": "x"}]
        assert graph.schema.text == text
        assert_whole(graph)


def test_a_row_for_the_old_schema_is_not_written_after_the_change(tmp_path: Path) -> None:
    text = SCHEMA + "node Idle { a: String @key }\n"
    place = tmp_path / "pause"
    with small_graph(tmp_path / "g", text) as graph, ThreadPoolExecutor(1) as threads:
        failpoints.arm(f"write.after_stage=pause:{place}")
        try:
            insert = threads.submit(graph.mutate, 'query q() { insert Idle { a: "x" } }')
            reached = place.with_name("pause.reached")
            wait_until(lambda: reached.exists() or insert.done(), timeout=30, what="the staged row")
            graph.schema.apply(text.replace("a: String @key", "a: String @key  b: I32"))
        finally:
            place.with_name("pause.release").touch()
            failpoints.arm("")
        with pytest.raises(og.errors.QueryTypeError, match="non-nullable property `b`"):
            insert.result()
        assert rows(graph, "Idle") == []
        assert_whole(graph)


@pytest.mark.parametrize("given", ["lines", "records", "dicts", "table"])
@pytest.mark.parametrize(("columns", "of_a_stored_row"), [("keep", 1), ("replace", 7)])
def test_a_merge_that_keeps_columns_takes_the_default_for_new_rows_only(
    given: str, columns: Literal["keep", "replace"], of_a_stored_row: int, tmp_path: Path
) -> None:
    lines = '{"type":"Item","data":{"name":"x"}}\n{"type":"Item","data":{"name":"y"}}\n'
    sources: dict[str, Any] = {
        "lines": io.StringIO(lines),
        "records": io.StringIO(lines.replace('"name":"y"', '"name":"\\u0079"')),
        "dicts": {"Item": [{"name": "x"}, {"name": "y"}]},
        "table": {"Item": pa.table({"name": ["x", "y"]})},
    }
    with og.init(str(tmp_path / "graph"), "node Item { name: String @key  amount: I64 @default(7) }") as graph:
        graph.load({"Item": [{"name": "x", "amount": 1}]}, "append")
        graph.load(sources[given], "merge", columns=columns)
        rows = graph.snapshot().arrow("Item", ["name", "amount"]).sort_by("name").to_pylist()
    assert rows == [{"name": "x", "amount": of_a_stored_row}, {"name": "y", "amount": 7}]
