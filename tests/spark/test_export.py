"""Export by Spark: the bytes of the embedded export, from any state, in one file or in parts, here and on S3."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.write.change import Change, Mode
from tests.support.example_graph import example_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Thing { name: String @key  size: U64?  weight: F32?  born: Date?  seen: DateTime?  words: [String]?
             place: Vector(2)?  raw: Blob? }
edge Near: Thing -> Thing { since: DateTime? }
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("example")) as graph:
        yield graph


def things(numbers: list[int]) -> pa.Table:
    return pa.table({
        "name": [f"t{number}\u00e9\"" for number in numbers],
        "size": pa.array([2**64 - 1 - number for number in numbers], pa.uint64()),
        "weight": pa.array([number / 3 for number in numbers], pa.float32()),
        "words": [["a", f"w{number}"] if number % 3 else None for number in numbers],
        "raw": pa.array([bytes([number % 256]) if number % 2 else None for number in numbers], pa.large_binary()),
    })  # fmt: skip


def shuffled_graph(root: str | Path, count: int = 60) -> og.Graph:
    """Several commits, so several fragments, whose ids overlap."""
    graph = og.init(root, SCHEMA)
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    for start in range(0, count, count // 3):
        graph.write([Change("node:Thing", things(numbers[start : start + count // 3]))])
    ends = [f't{number}\u00e9"' for number in numbers]
    edges = pa.table({"src": ends, "dst": ends[1:] + ends[:1]})
    graph.write([Change("edge:Near", edges)])
    return graph


def joined(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in sorted(folder.iterdir()))


def test_one_file_is_the_embedded_export(example: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    written = ogs.export(example, tmp_path / "out.jsonl")
    expected = example.export()
    assert (tmp_path / "out.jsonl").read_text("utf-8") == expected.text
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert (written.nodes, written.edges, written.bytes) == (expected.nodes, expected.edges, expected.bytes)


def test_parts_in_name_order_are_the_embedded_export(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SCAN_TASK_ROWS", 1)
    with shuffled_graph(tmp_path / "graph") as graph:
        written = ogs.export(graph, tmp_path / "out")
        assert joined(tmp_path / "out") == graph.export().text
    assert len(written.files) > 3
    assert {str(path) for path in (tmp_path / "out").iterdir()} == set(written.files)


def test_an_export_of_a_past_state_and_of_chosen_types(spark: SparkSession, tmp_path: Path) -> None:
    with example_graph(tmp_path / "graph") as graph:
        before = graph.commits.head().id
        graph.mutate('query q() { delete Person where handle = "ana" }')
        graph.branches.create("old")
        ogs.export(graph, tmp_path / "past.jsonl", types=["Person"], at=before)
        assert (tmp_path / "past.jsonl").read_text("utf-8") == graph.export(types=["Person"], at=before).text
        ogs.export(graph, tmp_path / "branch.jsonl", branch="old")
        assert (tmp_path / "branch.jsonl").read_text("utf-8") == graph.export(branch="old").text


def test_a_graph_loaded_from_an_export_is_equal(spark: SparkSession, tmp_path: Path) -> None:
    with shuffled_graph(tmp_path / "graph") as graph:
        ogs.export(graph, tmp_path / "out")
        text = graph.export().text
    with og.init(tmp_path / "copy", SCHEMA) as copy:
        copy.load(str(tmp_path / "out"), "overwrite")
        assert copy.export().text == text
        ogs.export(copy, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text("utf-8") == text


def test_parquet_holds_every_type_with_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    with shuffled_graph(tmp_path / "graph") as graph:
        nothing = pa.table({"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())})
        graph.write([Change("edge:Near", nothing, Mode.OVERWRITE)])
        ogs.export(graph, tmp_path / "out", "parquet")
        graph.export(tmp_path / "embedded", format="parquet")
    for name in ("Thing", "Near"):
        found = pq.read_table(tmp_path / f"out/{name}.parquet")
        expected = pq.read_table(tmp_path / f"embedded/{name}.parquet")
        assert found.schema == expected.schema
        assert found.sort_by("id") == expected.sort_by("id")


def test_a_folder_that_is_not_empty_is_left_alone(example: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(InputError, match="exists and is not empty"):
        ogs.export(example, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_wrong_requests_are_refused_before_any_file(example: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TypeNotFound, match="unknown export type 'Robot'"):
        ogs.export(example, tmp_path / "out", types=["Robot"])
    with pytest.raises(InputError, match="unknown format 'xml'"):
        ogs.export(example, tmp_path / "out", "xml")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_fails_leaves_nothing(example: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.write_text("a file where a directory is needed")
    with pytest.raises(InputError, match="cannot write"):
        ogs.export(example, folder / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["closed"]


@pytest.mark.s3
def test_a_graph_on_s3_is_exported_to_s3(spark: SparkSession, s3_root: str, tmp_path: Path) -> None:
    with shuffled_graph(f"{s3_root}/graph", 30) as graph:
        text = graph.export().text
        ogs.export(graph, f"{s3_root}/out.jsonl")
        parts = ogs.export(graph, f"{s3_root}/parts")
        with og.init(tmp_path / "copy", SCHEMA) as copy:
            copy.load(f"{s3_root}/out.jsonl", "overwrite")
            assert copy.export().text == text
            copy.load(list(parts.files), "overwrite")
            assert copy.export().text == text
