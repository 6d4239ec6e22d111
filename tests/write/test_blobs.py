"""Blob columns: bytes go in and come out, null and empty stay apart, on every way a row can change."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InvalidRow, MissingValue
from omnigraph.write.change import Change, Mode
from omnigraph.write.stage_changes import WriteResult
from tests.support.small_graphs import people, run_child

SCHEMA = "node A { k: String @key  b: Blob? }\nedge E: A -> A { note: Blob? }\nnode Must { b: Blob }"
LARGE, HUGE = bytes(range(256)) * 1000, b"h" * 5_000_000


def blob_graph(root: Path, **rows: bytes | None) -> og.Graph:
    graph = og.init(root, SCHEMA)
    if rows:
        put(graph, rows)
    return graph


def put(graph: og.Graph, rows: dict[str, bytes | None], mode: Mode = Mode.APPEND, branch: str = "main") -> WriteResult:
    table = pa.table({"k": pa.array(rows, pa.string()), "b": pa.array(rows.values(), pa.large_binary())})
    return graph.write([Change("node:A", table, mode)], branch=branch)


def blobs(graph: og.Graph, branch: str | None = None, at: str | None = None) -> dict[str, bytes | None]:
    table = graph.snapshot(branch, at).arrow("A")
    assert table.schema.field("b").type == pa.large_binary()
    return dict(zip(table.column("k").to_pylist(), table.column("b").to_pylist(), strict=True))


def test_every_size_comes_back_and_null_is_not_empty(tmp_path: Path) -> None:
    rows = {"small": b"\x00\xff", "null": None, "empty": b"", "large": LARGE, "huge": HUGE}
    graph = blob_graph(tmp_path / "g", **rows)
    assert blobs(graph) == rows
    assert blobs(og.open(tmp_path / "g", mode="ro")) == rows


def test_a_missing_column_is_null(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g")
    graph.write([Change("node:A", pa.table({"k": ["a"]}))])
    assert blobs(graph) == {"a": None}


def test_an_upsert_replaces_the_bytes_in_every_direction(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE, b=b"x", c=None, d=b"", kept=LARGE)
    after = {"a": None, "b": LARGE, "c": b"", "d": b"y", "new": b"n"}
    put(graph, after, Mode.MERGE)
    assert blobs(graph) == {**after, "kept": LARGE}


def test_a_delete_and_an_overwrite_leave_the_rest_alone(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE, b=b"b", c=None)
    graph.write([Change("node:A", remove=pa.array(["b"]))])
    assert blobs(graph) == {"a": LARGE, "c": None}
    put(graph, {"z": LARGE, "y": b""}, Mode.OVERWRITE)
    assert blobs(graph) == {"z": LARGE, "y": b""}
    put(graph, {}, Mode.OVERWRITE)
    assert blobs(graph) == {}
    put(graph, {"again": b"1"})
    assert blobs(graph) == {"again": b"1"}


def test_a_branch_reads_its_parents_bytes_and_writes_its_own(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE, b=b"b")
    graph.branches.create("side")
    put(graph, {"b": LARGE[::-1]}, Mode.MERGE, "side")
    put(graph, {"c": HUGE}, branch="side")
    assert blobs(graph, "side") == {"a": LARGE, "b": LARGE[::-1], "c": HUGE}
    assert blobs(graph) == {"a": LARGE, "b": b"b"}


def test_the_past_keeps_its_bytes(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE)
    before = graph.commits.head().id
    put(graph, {"a": b"new"}, Mode.MERGE)
    assert (blobs(graph, at=before), blobs(graph)) == ({"a": LARGE}, {"a": b"new"})


def test_many_small_writes_to_a_blob_table_lose_nothing(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g")
    wanted = {f"k{number}": bytes([number]) * number for number in range(20)}
    for key, value in wanted.items():
        put(graph, {key: value})
    put(graph, {"k3": LARGE}, Mode.MERGE)
    assert blobs(graph) == {**wanted, "k3": LARGE}


def test_edges_carry_blobs(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=None, b=None)
    rows = pa.table({"id": ["e", "f"], "src": ["a", "b"], "dst": ["b", "a"], "note": pa.array([LARGE, None])})
    graph.write([Change("edge:E", rows)])
    table = graph.snapshot().arrow("E", ["id", "note"])
    assert dict(zip(*(column.to_pylist() for column in table.columns), strict=True)) == {"e": LARGE, "f": None}


@pytest.mark.parametrize(
    "type_", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.dictionary(pa.int32(), pa.binary())]
)
def test_any_binary_type_is_taken(tmp_path: Path, type_: pa.DataType) -> None:
    graph = blob_graph(tmp_path / "g")
    values = pa.array([b"ab", None, b"cd"], pa.binary()).cast(type_)
    graph.write([Change("node:A", pa.table({"k": ["a", "b", "c"], "b": values}))])
    assert blobs(graph) == {"a": b"ab", "b": None, "c": b"cd"}


def test_text_is_no_blob_and_a_required_blob_is_required(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g")
    with pytest.raises(InvalidRow, match="property 'b' expects Blob, got String"):
        graph.write([Change("node:A", pa.table({"k": ["a"], "b": ["text"]}))])
    with pytest.raises(MissingValue, match="non-nullable blob property 'b' has null values"):
        graph.write([Change("node:Must", pa.table({"b": pa.array([b"x", None])}))])
    with pytest.raises(MissingValue, match="non-nullable blob property 'b' has null values"):
        graph.write([Change("node:Must", pa.table({"id": ["a"]}))])
    graph.write([Change("node:Must", pa.table({"b": [b""]}))])
    assert graph.snapshot().arrow("Must").column("b").to_pylist() == [b""]


def test_a_chosen_column_and_a_count_do_not_need_the_bytes(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE)
    location = graph.snapshot().tables["node:A"].location
    for file in (tmp_path / "g" / location / "data").rglob("*.blob"):
        file.unlink()
    assert graph.snapshot().arrow("A", ["k"]).column("k").to_pylist() == ["a"]
    assert graph.snapshot().count("A") == 1


def test_on_disk_it_is_a_lance_blob_column(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE, b=None, c=b"")
    table = lance.dataset(str(tmp_path / "g" / graph.snapshot().tables["node:A"].location))
    field = table.schema.field("b")
    assert field.type.extension_name == "lance.blob.v2"
    assert field.metadata[b"omnigraph.blob"] == b"true"
    files = table.take_blobs("b", indices=[0, 1, 2])
    assert [None if file is None else file.readall() for file in files] == [LARGE, None, b""]


def test_a_killed_blob_write_is_finished_with_its_bytes(tmp_path: Path) -> None:
    blob_graph(tmp_path / "g", a=b"a").close()
    code = (
        "import sys\n"
        "import omnigraph as og\n"
        "from tests.write.test_blobs import LARGE, put\n"
        "put(og.open(sys.argv[1]), {'b': LARGE, 'c': b'', 'd': None})\n"
    )
    child = run_child(code, str(tmp_path / "g"), env={"OMNIGRAPH_FAILPOINTS": "write.after_all_table_commits=kill"})
    assert child.returncode == -9, child.stderr
    with og.open(tmp_path / "g") as graph:
        assert blobs(graph) == {"a": b"a", "b": LARGE, "c": b"", "d": None}


def test_indexes_of_a_blob_table_are_built_and_used(tmp_path: Path) -> None:
    graph = blob_graph(tmp_path / "g", a=LARGE, b=b"b")
    assert ("node:A", "id") in graph.ensure_indices().built
    put(graph, {"a": b"new"}, Mode.MERGE)
    assert blobs(graph) == {"a": b"new", "b": b"b"}


def test_a_type_without_blobs_is_untouched(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    table = lance.dataset(str(tmp_path / "g" / graph.snapshot().tables["node:Person"].location))
    assert "extension" not in str(table.schema)
