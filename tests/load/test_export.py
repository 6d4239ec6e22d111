"""Exports: what is chosen, in which order, into what, and of which state."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.write.change import Change
from tests.support.small_graphs import knows, people, persons, without

SAME_NAME = "node Link { k: String @key } edge Link: Link -> Link"


def lines(text: str | None) -> list[dict[str, Any]]:
    assert text is not None
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def heads(text: str | None) -> list[tuple[str, str]]:
    """Type and id of each line."""
    return [(record.get("type") or record["edge"], record["data"]["id"]) for record in lines(text)]


def test_edges_come_first_then_nodes_each_by_type_and_id(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        graph.write([persons("z", "é", "B", "a"), Change("node:Note", pa.table({"id": ["n"], "text": ["x"]}))])
        graph.write([knows(("a", "z"), ("z", "a"), id=["k2", "k1"])])
        graph.write([Change("edge:Wrote", pa.table({"id": ["w"], "src": ["a"], "dst": ["n"]}))])
        assert heads(graph.export().text) == [
            ("Knows", "k1"),
            ("Knows", "k2"),
            ("Wrote", "w"),
            ("Note", "n"),
            ("Person", "B"),
            ("Person", "a"),
            ("Person", "z"),
            ("Person", "é"),
        ]


def test_a_name_selects_the_node_and_the_edge_type(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SAME_NAME) as graph:
        graph.load({"node:Link": pa.table({"k": ["a"]}), "edge:Link": pa.table({"src": ["a"], "dst": ["a"]})}, "append")
        result = graph.export(types=["Link"])
        assert [type_ for type_, _ in heads(result.text)] == ["Link", "Link"]
        assert (result.nodes, result.edges) == ({"Link": 1}, {"Link": 1})
        graph.export(tmp_path / "out", format="parquet")
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert names == ["edge-Link.parquet", "node-Link.parquet"]


def test_unknown_types_and_formats_are_refused(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        with pytest.raises(TypeNotFound, match="unknown export type 'Nope'"):
            graph.export(types=["Person", "Nope"])
        with pytest.raises(InputError, match="unknown format 'xml'"):
            graph.export(format="xml")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="needs a directory"):
            graph.export(io.BytesIO(), format="parquet")
        with pytest.raises(InputError, match="cannot export into a int"):
            graph.export(7)
        with pytest.raises(InputError, match="cannot write"):
            graph.export(tmp_path / "no" / "such" / "folder.jsonl")
        assert graph.export(types=[]).text == ""
        assert heads(graph.export(types=["Person"]).text) == [("Person", "ann")]


def test_every_target_gets_the_same_bytes(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann", "bob\n\u2028ü") as graph:
        result = graph.export()
        assert result.text is not None
        binary, text = io.BytesIO(), io.StringIO()
        with (tmp_path / "open.jsonl").open("w", encoding="utf-8", newline="") as file:
            graph.export(file)
        sizes = {graph.export(each).bytes for each in (binary, text, tmp_path / "x.jsonl", tmp_path / "x.jsonl.gz")}
        assert sizes == {len(result.text.encode())}
        assert binary.getvalue().decode() == text.getvalue() == result.text
        assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "open.jsonl").read_bytes() == binary.getvalue()
        packed = (tmp_path / "x.jsonl.gz").read_bytes()
        assert gzip.decompress(packed) == binary.getvalue()
        graph.export(tmp_path / "y.jsonl.gz")
        assert (tmp_path / "y.jsonl.gz").read_bytes() == packed, "the same state packs to the same bytes"


def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    with people(tmp_path / "g", "ann") as graph:
        monkeypatch.setattr("omnigraph.history.export.json_lines", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            graph.export(target)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.jsonl"]
    assert target.read_text() == "old"


def test_an_export_shows_a_branch_or_a_moment(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        first = graph.commits.head()
        graph.branches.create("review/x")
        graph.write([persons("bob")], branch="review/x")
        graph.write([without("node:Person", "ann")])
        assert heads(graph.export().text) == []
        assert heads(graph.export(branch="review/x").text) == [("Person", "ann"), ("Person", "bob")]
        old = graph.export(at=first.id)
        assert heads(old.text) == [("Person", "ann")]
        assert (old.commit_id, old.version) == (first.id, first.version)
        assert old.to_dict()["nodes"] == [{"name": "Note", "entities": 0}, {"name": "Person", "entities": 1}]


@pytest.mark.parametrize("way", ["stored", "sorted", "fetched", "blobs"])
def test_however_the_rows_are_read_the_order_is_that_of_the_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    blob = "  x: Blob?" if way == "blobs" else ""
    monkeypatch.setattr(limits, "EXPORT_BATCH_ROWS", 7)
    monkeypatch.setattr(limits, "EXPORT_BLOB_BATCH_ROWS", 5)
    if way == "fetched":
        monkeypatch.setattr(limits, "EXPORT_SORT_BYTES", 0)
    with og.init(tmp_path / "g", f"node T {{ k: String @key  n: I32?{blob} }}") as graph:
        keys = [f"k{n * 37 % 101:03}" for n in range(100)]
        if way == "stored":
            keys.sort()
        for part in (keys[:60], keys[60:]):
            rows: dict[str, Any] = {"k": part, "n": pa.array([int(key[1:]) for key in part], pa.int32())}
            if blob:
                rows["x"] = pa.array([key.encode() for key in part], pa.large_binary())
            graph.load({"T": pa.table(rows)}, "append")
        graph.write([without("node:T", keys[0])])
        found = lines(graph.export().text)
        assert [each["data"]["id"] for each in found] == sorted(keys[1:])
        assert all(each["data"]["n"] == int(each["data"]["k"][1:]) for each in found)
        if blob:
            assert {each["data"]["x"][:7] for each in found} == {"base64:"}


def test_parquet_files_hold_native_types_and_load_again(tmp_path: Path) -> None:
    schema = """node T { k: String @key  day: Date?  at: DateTime?  ats: [DateTime]?  v: Vector(2)?  x: Blob?  u: U64? }
                edge E: T -> T { w: F32? }"""
    (tmp_path / "in.jsonl").write_text(
        '{"type":"T","data":{"k":"b","day":"2024-01-01","at":1,"ats":[1,-1],"v":[1,2],"x":"base64:aGk=","u":18446744073709551615}}\n'
        '{"type":"T","data":{"k":"a"}}\n{"edge":"E","from":"a","to":"b","data":{"id":"e","w":0.1}}\n'
    )
    with og.init(tmp_path / "g", schema) as graph:
        graph.load(tmp_path / "in.jsonl", "append")
        result = graph.export(tmp_path / "out", format="parquet")
        assert sorted(Path(each).name for each in result.files) == ["E.parquet", "T.parquet"]
        table = pq.read_table(tmp_path / "out" / "T.parquet")
        moment = datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
        row = table.to_pylist()[1]
        assert (row["id"], row["day"], row["at"], row["x"]) == ("b", date(2024, 1, 1), moment, b"hi")
        with og.init(tmp_path / "h", schema) as other:
            other.load(tmp_path / "out", "overwrite", engine="embedded")
            assert other.export().text == graph.export().text


def test_an_empty_graph_exports_nothing(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        assert graph.export().text == ""
        graph.export(tmp_path / "out.jsonl")
        assert (tmp_path / "out.jsonl").read_bytes() == b""
        assert graph.load(tmp_path / "out.jsonl", "overwrite").commit is None
