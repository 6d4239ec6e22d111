"""Merges that change only what the input says (``columns="keep"``), and edges that are known by their two ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InputError, MissingValue
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import rows_of

SCHEMA = """
node Person { handle: String @key  name: String  age: I32?  tags: [String]?  v: Vector(2)?
              photo: Blob?  at: DateTime? }
node Note { text: String  stars: U64? }
edge Knows: Person -> Person { weight: F64?  since: Date?  @unique(src, dst) }
edge Likes: Person -> Person { weight: F64? }
"""

STORED = [
    '{"type":"Person","data":{"handle":"ann","name":"Ann","age":3,"tags":["x"],"v":[1,2],"photo":"base64:aGk=","at":1}}',
    '{"type":"Person","data":{"handle":"bob","name":"Bob"}}',
    '{"type":"Note","data":{"id":"n1","text":"one","stars":18446744073709551615}}',
    '{"edge":"Knows","from":"ann","to":"bob","data":{"id":"k1","weight":0.5,"since":"2024-01-01"}}',
    '{"edge":"Likes","from":"ann","to":"bob","data":{"id":"l1","weight":0.5}}',
]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    (tmp_path / "stored.jsonl").write_text("\n".join(STORED))
    graph.load(tmp_path / "stored.jsonl", "append")
    return graph


def _load(graph: og.Graph, path: Path, text: str, **options: Any) -> og.LoadResult:
    path.write_text(text)
    return graph.load(path, "merge", **{"columns": "keep", "engine": "embedded", **options})


def _line(graph: og.Graph, type_: str) -> list[str]:
    return (graph.export(types=[type_]).text or "").splitlines()


def test_what_a_line_does_not_name_stays_and_null_is_null(graph: og.Graph, tmp_path: Path) -> None:
    before = _line(graph, "Person")[0]
    _load(graph, tmp_path / "a.jsonl", '{"type":"Person","data":{"handle":"ann","age":4}}')
    assert _line(graph, "Person")[0] == before.replace('"age":3', '"age":4')
    _load(graph, tmp_path / "a.jsonl", '{"type":"Person","data":{"handle":"ann","age": null,"tags":[]}}')
    assert _line(graph, "Person")[0] == before.replace('"age":3', '"age":null').replace('["x"]', "[]")
    lines = "\n".join(
        [
            '{"type":"Person","data":{"handle":"ann","\\u0061ge":null,"tags":["a\\u0062"]}}',
            '{"type":"Person","data":{"handle":"bob","age":7}}',
            '{"type":"Note","data":{"id":"n1","text":"two"}}',
        ]
    )
    _load(graph, tmp_path / "a.jsonl", lines)
    assert _line(graph, "Person")[0] == before.replace('"age":3', '"age":null').replace('["x"]', '["ab"]')
    assert [row["age"] for row in rows_of(graph, "Person").values()] == [None, 7]
    assert rows_of(graph, "Note")["n1"]["stars"] == 2**64 - 1


def test_columns_that_a_table_does_not_have_stay(graph: og.Graph, tmp_path: Path) -> None:
    before = _line(graph, "Person")
    _load(graph, tmp_path / "Person.csv", "handle,age\nann,4\nbob,\n")
    assert _line(graph, "Person") == [before[0].replace('"age":3', '"age":4'), before[1]]
    graph.load([{"id": "k1", "weight": 0.75}], "merge", type="Knows", columns="keep")
    assert '"from":"ann","to":"bob","data":{"id":"k1","since":19723,"weight":0.75}' in _line(graph, "Knows")[0]


def test_a_new_row_needs_what_every_row_needs(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    with pytest.raises(MissingValue, match="non-nullable property 'name'") as caught:
        _load(graph, path, "handle,age\nann,4\ncid,5\n")
    assert caught.value.details["line"] == 3
    result = _load(graph, path, "handle,age\nann,4\ncid,5\n", on_error="reject")
    assert [row["line"] for row in result.rejects.to_pylist()] == [3]
    assert rows_of(graph, "Person")["ann"]["age"] == 4
    _load(graph, path, "handle,name\nann,A\ncid,Cid\n")
    assert {key: (row["name"], row["age"]) for key, row in rows_of(graph, "Person").items()} == {
        "ann": ("A", 4),
        "bob": ("Bob", None),
        "cid": ("Cid", None),
    }


@pytest.mark.parametrize(("columns", "text"), [("keep", "one"), ("replace", "three")])
def test_of_several_rows_with_one_id_the_last_one_wins_as_a_whole(
    graph: og.Graph, tmp_path: Path, columns: str, text: str
) -> None:
    first = '{"type":"Note","data":{"id":"n1","text":"two","stars":2}}'
    last = '{"type":"Note","data":{"id":"n1","stars":3}}'
    last = last if columns == "keep" else last.replace('"stars":3', '"stars":3,"text":"three"')
    done = _load(graph, tmp_path / "a.jsonl", f"{first}\n{last}\n", columns=columns)
    assert done.nodes == {"Note": 2}
    note = rows_of(graph, "Note")["n1"]
    assert (note["text"], note["stars"]) == (text, 3), "what only the earlier row said is not taken"


def test_by_default_a_merge_replaces_the_whole_row(graph: og.Graph, tmp_path: Path) -> None:
    _load(graph, tmp_path / "Person.csv", "handle,name\nann,A\n", columns="replace")
    assert rows_of(graph, "Person")["ann"]["age"] is None


def test_keep_says_something_only_about_a_merge(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="columns='keep' says nothing about mode 'append'"):
        graph.load([{"handle": "x"}], "append", type="Person", columns="keep")
    with pytest.raises(InputError, match="columns 'all' is not one of 'replace', 'keep'"):
        graph.load([{"handle": "x"}], "merge", type="Person", columns="all")  # type: ignore[arg-type]


def test_a_table_that_moved_while_rows_were_read_is_a_conflict(graph: og.Graph) -> None:
    def batches() -> Any:
        yield pa.record_batch({"handle": ["ann"], "age": pa.array([5], pa.int64())})
        graph.write([Change("node:Person", pa.table({"handle": ["dan"], "name": ["Dan"]}), Mode.APPEND)])

    reader = pa.RecordBatchReader.from_batches(pa.schema([("handle", pa.string()), ("age", pa.int64())]), batches())
    with pytest.raises(ConflictError):
        graph.load(reader, "merge", type="Person", columns="keep")
    assert rows_of(graph, "Person")["ann"]["age"] == 3


def test_keep_works_on_a_branch_that_the_load_makes(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    _load(graph, path, "handle,age\nann,4\n", branch="review/x", from_="main")
    assert rows_of(graph, "Person", "review/x")["ann"]["name"] == "Ann"
    assert rows_of(graph, "Person")["ann"]["age"] == 3


@pytest.mark.parametrize("columns", ["replace", "keep"])
def test_an_edge_without_an_id_is_the_one_between_its_ends(graph: og.Graph, tmp_path: Path, columns: str) -> None:
    text = "from,to,weight\nann,bob,0.75\nbob,ann,1\n"
    for _ in range(2):
        _load(graph, tmp_path / "Knows.csv", text, columns=columns)
    found = {(row["src"], row["dst"]): row for row in rows_of(graph, "Knows").values()}
    assert {ends: row["weight"] for ends, row in found.items()} == {("ann", "bob"): 0.75, ("bob", "ann"): 1.0}
    assert found["ann", "bob"]["id"] == "k1"
    assert (found["ann", "bob"]["since"] is None) == (columns == "replace")
    lines = '{"edge":"Knows","from":"ann","to":"bob","data":{"weight":2}}\n{"edge":"Likes","from":"ann","to":"bob"}'
    _load(graph, tmp_path / "more.jsonl", lines, columns=columns)
    assert rows_of(graph, "Knows")["k1"]["weight"] == 2
    assert graph.snapshot().count("Knows") == 2
    assert graph.snapshot().count("Likes") == 2  # nothing says that there is one only


def test_an_edge_that_brings_another_id_is_another_edge(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.errors.UniqueViolation):
        _load(graph, tmp_path / "Knows.csv", "id,from,to\nk2,ann,bob\n", columns="replace")
    with pytest.raises(og.errors.UniqueViolation):
        _load(graph, tmp_path / "Knows.csv", "from,to\nbob,ann\nbob,ann\n", columns="replace")


def test_integer_ends_find_their_edge_too(tmp_path: Path) -> None:
    schema = "node T { k: I64 @key }\nedge Next: T -> T { w: I32?  @unique(src, dst) }"
    with og.init(tmp_path / "g", schema) as graph:
        graph.load({"T": [{"k": 1}, {"k": 2}], "Next": [{"from": 1, "to": 2, "w": 1}]}, "append")
        graph.load({"Next": [{"from": 1, "to": 2, "w": 2}]}, "merge")
        assert [(row["src"], row["dst"], row["w"]) for row in rows_of(graph, "Next").values()] == [("1", "2", 2)]
