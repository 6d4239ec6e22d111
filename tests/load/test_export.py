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
        with pytest.raises(InputError, match="an open file holds rows of one type in format parquet, and there are 4"):
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


def test_the_name_of_an_open_file_says_what_to_write(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        for name, mode in (("a.csv", "w"), ("b.csv", "wb"), ("c.parquet", "wb"), ("d.txt", "w")):
            with open(tmp_path / name, mode) as file:
                graph.export(file, types=["Person"])
        with open(tmp_path / "e.csv", "w") as file:
            graph.export(file, format="jsonl")
        with open(tmp_path / "f.parquet", "w") as file, pytest.raises(InputError, match="is open for text") as caught:
            graph.export(file, types=["Person"])
        with (
            open(tmp_path / "g.csv", "w") as file,
            pytest.raises(InputError, match="holds rows of one type in format csv"),
        ):
            graph.export(file)
        lines = graph.export(types=["Person"]).text
    assert caught.value.hint == "open it in binary mode: open(path, 'wb')"
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "id,age,email,handle"
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert pq.read_table(tmp_path / "c.parquet").column("handle").to_pylist() == ["ann"]
    assert (tmp_path / "d.txt").read_text() == (tmp_path / "e.csv").read_text() == lines


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


WIDE = """
node T { k: String @key  b: Bool?  i: I32?  u: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?  t: String?
         ts: [String]?  ds: [Date]?  ats: [DateTime]?  v: Vector(2)?  x: Blob?  e: enum(red, blue)? }
edge E: T -> T { w: F64? }
"""

ODD = [
    '{"type":"T","data":{"k":"","t":"","ts":[],"x":"base64:"}}',
    '{"type":"T","data":{"k":"a,\\"b\\"\\n\\r c","b":true,"i":-5,"u":18446744073709551615,"f":0.1,"d":1e300,'
    '"day":"0001-01-01","at":"0001-01-01T00:00:00.001Z","t":" =1+1 ","ts":["p,\\"q\\"","", "ü"],"ds":["2024-02-29"],'
    '"ats":[-1],"v":[0.1,2],"x":"base64:aGk=","e":"red"}}',
    '{"type":"T","data":{"k":"=2+5","d":-0.0,"f":1e-30,"day":"9999-12-31","at":"9999-12-31T23:59:59.999Z","t":"@x"}}',
    '{"type":"T","data":{"k":"null","t":"null","d":123456789012345680}}',
    '{"edge":"E","from":"","to":"null","data":{"id":"e1","w":0.30000000000000004}}',
]


def test_csv_files_load_again_as_the_same_graph(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text("\n".join(ODD))
    with og.init(tmp_path / "g", WIDE) as graph, og.init(tmp_path / "h", WIDE) as copy:
        graph.load(tmp_path / "odd.jsonl", "append")
        result = graph.export(tmp_path / "out", format="csv")
        assert sorted(Path(each).name for each in result.files) == ["E.csv", "T.csv"]
        assert copy.load(tmp_path / "out", "append").total == 5
        assert copy.export().text == graph.export().text
        first = (tmp_path / "out" / "T.csv").read_bytes()
        graph.export(tmp_path / "out", format="csv")
        assert (tmp_path / "out" / "T.csv").read_bytes() == first


def test_the_suffix_of_a_file_says_what_is_written(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann", "bob") as graph:
        assert graph.export(tmp_path / "p.csv", ["Person"]).files == (str(tmp_path / "p.csv"),)
        header, *lines = (tmp_path / "p.csv").read_text().splitlines()
        assert (header, lines) == ("id,age,email,handle", ['"ann",,,"ann"', '"bob",,,"bob"'])
        graph.export(tmp_path / "p.parquet", ["Person"])
        assert pq.read_table(tmp_path / "p.parquet").column("handle").to_pylist() == ["ann", "bob"]
        packed = graph.export(tmp_path / "p.csv.gz", ["Person"])
        assert packed.bytes == (tmp_path / "p.csv").stat().st_size
        assert gzip.decompress((tmp_path / "p.csv.gz").read_bytes()) == (tmp_path / "p.csv").read_bytes()
        graph.export(tmp_path / "p.txt", ["Person"])
        assert (tmp_path / "p.txt").read_text() == graph.export(types=["Person"]).text
        assert graph.export(types=["Person"], format="csv").text == (tmp_path / "p.csv").read_text()
        held = io.StringIO()
        graph.export(held, ["Person"], format="csv")
        assert held.getvalue() == (tmp_path / "p.csv").read_text()


def test_a_file_in_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        for name in ("x.jsonl", "x.csv", "x.parquet"):
            with pytest.raises(InputError) as caught:
                graph.export(tmp_path / "no" / name, ["Person"])
            assert (
                str(caught.value) == f"cannot write {tmp_path / 'no' / name}: there is no directory {tmp_path / 'no'}"
            )


def test_a_file_of_one_type_takes_one_type(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        for name in ("x.csv", "x.parquet"):
            with pytest.raises(InputError, match=rf"{name} holds rows of one type in format .*, and there are 4"):
                graph.export(tmp_path / name)
            assert not (tmp_path / name).exists()
        assert len(graph.export(tmp_path / "x.parquet", format="parquet").files) == 4
        with pytest.raises(InputError, match="an export in format parquet is no text"):
            graph.export(types=["Person"], format="parquet")
