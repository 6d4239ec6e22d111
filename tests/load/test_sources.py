"""What a load may be given: files by suffix, folders, patterns, several files, tables of one type."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InputError, InvalidRow, TypeNotFound
from tests.support.small_graphs import PEOPLE, ids_of, people, rows_of

WIDE = """
node Thing { k: String @key  b: Bool?  i: I32?  u: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?
             ts: [String]?  ns: [I32]?  ds: [Date]?  ats: [DateTime]?  v: Vector(2)?  x: Blob?  e: enum(red, blue)? }
edge Near: Thing -> Thing { w: F64? }
"""


def person(handle: str, **values: Any) -> str:
    rest = "".join(f',"{name}":{value}' for name, value in values.items())
    return f'{{"type":"Person","data":{{"handle":"{handle}"{rest}}}}}\n'


def test_a_folder_a_pattern_and_several_paths_are_one_commit_each(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_text(person("ann") + '{"edge":"Knows","from":"ann","to":"cid"}\n')
    (folder / "b.ndjson").write_text(person("bob"))
    (folder / "deep" / "c.jsonl.gz").write_bytes(gzip.compress(person("cid").encode()))
    (folder / "README.md").write_text("not data")
    several = [folder / "a.jsonl", folder / "b.ndjson", folder / "deep"]
    sources: list[Path | str | list[Path]] = [folder, str(folder / "**" / "[a-c].*"), several]
    for number, source in enumerate(sources):
        with people(tmp_path / f"g{number}") as graph:
            head = graph.commits.head().id
            result = graph.load(source, "append", engine="embedded")
            assert (result.nodes, result.edges) == ({"Person": 3}, {"Knows": 1})
            assert graph.commits.list()[1].id == head
            assert ids_of(graph, "Person") == {"ann", "bob", "cid"}


def test_types_may_come_as_tables_and_as_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": ["ann"], "dst": ["bob"], "since": [date(2024, 1, 1)]}), tmp_path / "k.parquet")
    (tmp_path / "notes.json").write_text('{"id":"n1","text":"x"}\n\n{"text":"y"}\n')
    (tmp_path / "wrote.csv").write_text("from,to\nann,n1\n")
    tables = {
        "Person": pa.table({"handle": ["ann", "bob"], "age": pa.array([1, None], pa.int64())}),
        "knows": tmp_path / "k.parquet",
        "node:Note": [tmp_path / "notes.json"],
        "Wrote": str(tmp_path / "wrote.csv"),
    }
    with people(tmp_path / "g") as graph:
        result = graph.load(tables, "append")
        assert (result.nodes, result.edges) == ({"Note": 2, "Person": 2}, {"Knows": 1, "Wrote": 1})
        assert rows_of(graph, "Person")["ann"]["age"] == 1
        assert [row["since"] for row in rows_of(graph, "Knows").values()] == [date(2024, 1, 1)]
        assert [row["dst"] for row in rows_of(graph, "Wrote").values()] == ["n1"]


def test_files_named_after_their_type_need_no_mapping(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"handle": ["ann", "bob"]}), folder / "Person.parquet")
    pcsv.write_csv(pa.table({"src": ["ann"], "dst": ["bob"]}), folder / "Knows.csv")
    (folder / "Note.json").write_text('{"text":"x"}')
    with people(tmp_path / "g") as graph:
        assert graph.load(folder, "append", engine="embedded").total == 4
    with people(tmp_path / "h") as graph:
        assert graph.load(folder / "Person.parquet", "append", type="Person", engine="embedded").nodes == {"Person": 2}
        note = graph.load(folder / "Note.json", "append", type="Note", format="json", engine="embedded")
        assert note.nodes == {"Note": 1}


def test_a_csv_field_means_what_the_same_json_means(tmp_path: Path) -> None:
    (tmp_path / "Thing.csv").write_text(
        "k,b,i,u,f,d,day,at,ts,ns,ds,ats,v,x,e\n"
        'a,true,-5,18446744073709551615,0.1,1e300,2024-02-29,2025-06-01T10:00:00+02:00,"[""p"",""q""]","[1,2]",'
        '"[""2024-01-01""]","[0]","[1,2.5]",base64:aGk=,red\n'
        '"",,,,,,,,,,,,,,\n'
        'b,false,0,0,1,2,19723,1748764800000,[],[],"[19723]","[""2025-06-01""]",,base64:,blue\n'
    )
    (tmp_path / "same.jsonl").write_text(
        '{"type":"Thing","data":{"k":"a","b":true,"i":-5,"u":18446744073709551615,"f":0.1,"d":1e300,"day":"2024-02-29",'
        '"at":"2025-06-01T10:00:00+02:00","ts":["p","q"],"ns":[1,2],"ds":["2024-01-01"],"ats":[0],"v":[1,2.5],'
        '"x":"base64:aGk=","e":"red"}}\n'
        '{"type":"Thing","data":{"k":""}}\n'
        '{"type":"Thing","data":{"k":"b","b":false,"i":0,"u":0,"f":1,"d":2,"day":19723,"at":1748764800000,"ts":[],'
        '"ns":[],"ds":[19723],"ats":["2025-06-01"],"x":"base64:","e":"blue"}}\n'
    )
    with og.init(tmp_path / "g", WIDE) as one, og.init(tmp_path / "h", WIDE) as other:
        one.load(tmp_path / "Thing.csv", "append", engine="embedded")
        other.load(tmp_path / "same.jsonl", "append")
        assert one.export().text == other.export().text
        assert one.snapshot().count("Thing") == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("i", "x", "property 'i' expects I32, got \"x\""),
        ("i", "3000000000", "property 'i' value 3000000000 exceeds I32 range"),
        ("i", "1.0", "property 'i' expects I32, got 1.0"),
        ("b", "maybe", "property 'b' expects Bool, got \"maybe\""),
        ("day", "2024-02", "property 'day' expects Date as YYYY-MM-DD, got \"2024-02\""),
        ("ts", "p", "list property 'ts' expects a JSON array, got \"p\""),
        ("ts", '"[""a"",null]"', "list property 'ts' holds a null or an item that is no String"),
        ("v", "[1]", "vector property 'v' expects 2 dimensions, got 1"),
        ("v", '"[1,2]} {""x"":[1,2]"', "vector property 'v' expects a JSON array"),
        ("e", "green", "invalid enum value 'green' for Thing.e (expected: blue, red)"),
    ],
)
def test_a_csv_field_that_does_not_fit_is_refused_with_its_line(
    tmp_path: Path, field: str, value: str, message: str
) -> None:
    path = tmp_path / "Thing.csv"
    path.write_text(f"k,{field}\n" + "".join(f"a{n},\n" for n in range(20)) + f"bad,{value}\n" + "b,\n")
    with og.init(tmp_path / "g", WIDE) as graph, pytest.raises(InvalidRow) as caught:
        graph.load(path, "append", engine="embedded")
    assert caught.value.message.startswith(message)
    assert (caught.value.details["file"], caught.value.details["line"]) == (str(path), 22)


def test_files_of_a_folder_that_cannot_be_loaded_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for name in ("_SUCCESS", "_metadata", ".hidden", ".part-0.crc", "part-0.crc"):
        (folder / name).write_text("x")
    (folder / "a.jsonl").write_text(person("ann"))
    with people(tmp_path / "g") as graph:
        assert graph.load(folder, "append").left_out == ()
        assert caplog.text == ""
        (folder / "deep" / "people.tsv").write_text("x")
        (folder / "notes").write_text("x")
        named = (f"{folder}/deep/people.tsv", f"{folder}/notes")
        assert graph.load([folder], "merge").left_out == named
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            f"files left out, because their suffix says nothing: {', '.join(named)}"
        ]
        (folder / "a.jsonl").unlink()
        with pytest.raises(InputError, match="in holds no file that can be loaded") as caught:
            graph.load(folder, "append")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("it holds deep/people.tsv, notes; known suffixes: .jsonl, ")


def test_a_csv_row_with_too_many_fields_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_text("handle,age\nann,1\nbob,1,2\ncid,3\n")
    with people(tmp_path / "g") as graph:
        with pytest.raises(InvalidRow, match="row has 3 columns, expected 2"):
            graph.load(path, "append", engine="embedded")
        result = graph.load(path, "append", on_error="reject", engine="embedded")
        assert ids_of(graph, "Person") == {"ann", "cid"}
        assert [(row["line"], row["record"]) for row in result.rejects.to_pylist()] == [(3, "bob,1,2")]


def test_rows_behind_one_with_too_few_fields_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_text('handle,age\n"ann\nann"\nbob,1\n\ncid,x\nbob,2\n')
    with people(tmp_path / "g") as graph:
        result = graph.load(path, "append", on_error="reject", engine="embedded")
    assert sorted(row["line"] for row in result.rejects.to_pylist()) == [2, 6, 7]


def test_a_table_may_hold_dates_as_text_numbers_or_dates(tmp_path: Path) -> None:
    moment = datetime(2025, 6, 1, 8, 0, tzinfo=UTC)
    columns = {
        "day": [pa.array(["2024-01-01"]), pa.array([19723]), pa.array([date(2024, 1, 1)])],
        "at": [pa.array(["2025-06-01T10:00:00+02:00"]), pa.array([1748764800000]), pa.array([moment])],
        "ds": [pa.array([["2024-01-01"]]), pa.array([[19723]]), pa.array([[date(2024, 1, 1)]])],
        "x": [pa.array(["base64:aGk="]), pa.array([b"hi"]), pa.array([b"hi"], pa.binary(2))],
    }
    texts: set[str | None] = set()
    for way in range(3):
        with og.init(tmp_path / f"g{way}", WIDE) as graph:
            rows = pa.table({"k": ["a"], **{name: ways[way] for name, ways in columns.items()}})
            graph.load({"Thing": rows}, "append")
            texts.add(graph.export(types=["Thing"]).text)
    (text,) = texts
    assert text is not None and '"at":1748764800000' in text


def test_a_list_of_a_table_holds_no_null_just_as_one_of_a_line(tmp_path: Path) -> None:
    for items in (pa.array([["a"], ["b", None]]), pa.array([["a"], ["b", None]], pa.large_list(pa.string()))):
        with og.init(tmp_path / str(items.type), WIDE) as graph:
            with pytest.raises(InvalidRow, match="list property 'ts' holds a null") as caught:
                graph.load({"Thing": pa.table({"k": ["x", "y"], "ts": items})}, "append")
            assert caught.value.details["line"] == 2


def test_an_empty_table_of_an_overwrite_empties_its_type(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        result = graph.load({"Person": pa.table({"handle": pa.array([], pa.string())})}, "overwrite")
        assert result.commit is not None
        assert rows_of(graph, "Person") == {}


def test_what_cannot_be_a_source_is_refused_with_a_hint(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "Nope.parquet")
    (tmp_path / "empty").mkdir()
    (tmp_path / "x").write_text("")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "latin.csv").write_bytes("handle\né\n".encode("latin-1"))
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (tmp_path / "Nope.parquet", {}, TypeNotFound, "unknown type 'Nope'"),
        ({"Nope": pa.table({"a": [1]})}, {}, TypeNotFound, "unknown type 'Nope'"),
        ({"Person": 7}, {}, InputError, "rows of 'Person' are of type int"),
        ({"Person": [7]}, {}, InputError, "rows of 'Person' are of type int"),
        ([7], {}, InputError, "a source is a path, not of type int"),
        (pa.table({"handle": ["a"]}), {}, InputError, "does not say which type"),
        (tmp_path / "empty", {}, InputError, "holds no file"),
        (str(tmp_path / "*.nope"), {}, InputError, "no file matches"),
        (tmp_path / "bad.parquet", {"type": "Person"}, InputError, "cannot read .*bad.parquet as parquet"),
        (tmp_path / "latin.csv", {"type": "Person"}, InputError, r"latin.csv is no UTF-8 text \(save it as UTF-8\)"),
        (io.StringIO('{"type":"\ud800"}'), {}, InputError, "line 1"),
        (io.StringIO("handle\n\ud800\n"), {"format": "csv", "type": "Person"}, InputError, "is no UTF-8 text"),
        (tmp_path.glob("*.nope"), {}, InputError, "there is nothing to load: no item was given"),
        (
            io.BytesIO(b"handle\na\n"),
            {"format": "csv"},
            InputError,
            "an open file without a name does not say which type",
        ),
        (tmp_path / "x", {"format": "yaml"}, InputError, "unknown format 'yaml'"),
        ({"Person": tmp_path / "x"}, {}, InputError, "cannot tell what"),
        ("ftp://host/x.jsonl", {}, InputError, "s3://bucket/key"),
        ({"Person": pa.table({"name": ["a"]})}, {}, InvalidRow, "unknown input field 'name' for 'node:Person'"),
        ({"Person": pa.table({"handle": ["a"], "_rowid": [1]})}, {}, InvalidRow, "unknown input field '_rowid'"),
    ]
    with people(tmp_path / "g") as graph:
        for source, options, kind, message in cases:
            with pytest.raises(kind, match=message):
                graph.load(source, "append", **options, engine="embedded")
        wrong: list[tuple[Any, dict[str, Any]]] = [
            ("upsert", {}),
            ("append", {"on_error": "ignore"}),
            ("append", {"max_rejects": -1}),
        ]
        for mode, options in wrong:
            with pytest.raises(InputError):
                graph.load(tmp_path / "x", mode, **options, engine="embedded")
        assert len(graph.commits.list()) == 1


def test_a_read_only_graph_takes_no_load(tmp_path: Path) -> None:
    og.init(tmp_path / "g", PEOPLE).close()
    (tmp_path / "a.jsonl").write_text(person("ann"))
    with og.open(tmp_path / "g", mode="ro") as graph, pytest.raises(og.errors.ReadOnly):
        graph.load(tmp_path / "a.jsonl", "append")
