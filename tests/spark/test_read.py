"""The format ``omnigraph``: one type as a DataFrame, of one state, in shares, with filters in the storage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import datasource as ds
from pyspark.sql import functions as F

import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.history.state_at import moment_of
from omnigraph.spark.data_source import DefaultSource, Reader
from omnigraph.spark.frames import pinned
from omnigraph.spark.pushdown import push_filters
from omnigraph.storage.tables.table_scan import TableAt, fragment_groups, scan_fragments
from omnigraph.write.change import Change
from tests.support.example_graph import example_graph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Thing { name: String @key  n: I64?  u: U64?  w: F64?  day: Date?  at: DateTime?  ok: Bool?  words: [String]?
             spot: Vector(2)?  raw: Blob? }
"""
COMMITS = 4
ROWS = 40


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("example")) as graph:
        yield graph


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("things") / "graph", SCHEMA) as graph:
        for start in range(0, ROWS, ROWS // COMMITS):
            graph.write([Change("node:Thing", some(range(start, start + ROWS // COMMITS)))])
        yield graph


def some(numbers: range) -> pa.Table:
    return pa.table({
        "name": [f"t{number:03d}" for number in numbers],
        "n": pa.array([number if number % 5 else None for number in numbers], pa.int64()),
        "u": pa.array([2**64 - 1 - number for number in numbers], pa.uint64()),
        "w": pa.array([number / 4 for number in numbers], pa.float64()),
        "at": pa.array([datetime(2024, 1, 1, 0, 0, number, tzinfo=UTC) for number in numbers],
                       pa.timestamp("ms", "UTC")),
        "words": [["a"] * (number % 3) for number in numbers],
        "spot": pa.array([[number, 0.5] for number in numbers], pa.list_(pa.float32(), 2)),
        "raw": pa.array([bytes([number]) for number in numbers], pa.large_binary()),
    })  # fmt: skip


def names(frame: DataFrame) -> list[str]:
    return sorted(row["name"] for row in frame.select("name").collect())


def test_a_type_is_read_without_registration(example: og.Graph, spark: SparkSession) -> None:
    frame = spark.read.format("omnigraph").option("type", "Person").load(example.uri)
    stored = example.snapshot().arrow("Person")
    assert frame.columns == stored.column_names
    found = frame.toArrow().sort_by("id")
    for name in stored.column_names:
        if name != "seen":
            assert found[name].to_pylist() == stored.sort_by("id")[name].to_pylist()
    assert datetime(2025, 6, 1, 8, 30, tzinfo=UTC) in found["seen"].to_pylist()


def test_every_type_of_column_arrives(things: og.Graph, spark: SparkSession) -> None:
    row = ogs.read(things, "Thing").where("name = 't007'").toArrow().to_pylist()[0]
    assert (row["n"], int(row["u"]), row["w"]) == (7, 2**64 - 8, 1.75)
    assert row["at"] == datetime(2024, 1, 1, 0, 0, 7, tzinfo=UTC)
    assert (row["words"], row["spot"], row["raw"]) == (["a"], [7.0, 0.5], b"\x07")
    assert (row["day"], row["ok"]) == (None, None)


def test_columns_are_read_as_asked(example: og.Graph, spark: SparkSession) -> None:
    assert ogs.read(example, "Follows", ["dst", "src"]).columns == ["dst", "src"]
    assert ogs.read(example, "Follows", ["id"]).count() == 6
    with pytest.raises(InputError, match="'node:Person' has no column 'salary'"):
        ogs.read(example, "Person", ["salary"])
    with pytest.raises(TypeNotFound, match="'Robot' does not exist"):
        ogs.read(example, "Robot")


def test_a_frame_stays_at_its_state(spark: SparkSession, tmp_path: Path) -> None:
    with example_graph(tmp_path / "graph") as graph:
        before = graph.commits.head().id
        by_options = spark.read.format("omnigraph").option("type", "Person").load(graph.uri)
        by_handle = ogs.read(graph, "Person")
        graph.branches.create("other")
        graph.mutate('query q() { delete Person where handle = "ana" }')
        assert (by_options.count(), by_handle.count()) == (5, 5)
        assert ogs.read(graph, "Person").count() == 4
        assert ogs.read(graph, "Person", at=before).count() == 5
        assert ogs.read(graph, "Person", branch="other").count() == 5
        frame = spark.read.format("omnigraph").option("type", "Person").option("at", before).load(graph.uri)
        assert frame.count() == 5


def test_a_moment_is_spelled_as_text() -> None:
    assert moment_of("17") == 17
    assert moment_of("2025-01-02T03:04:05+00:00") == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert moment_of("2025-01-02") == datetime(2025, 1, 2, tzinfo=UTC)
    assert moment_of("01M7GSX4K3XEK645WZ7TJFQKCE") == "01M7GSX4K3XEK645WZ7TJFQKCE"
    assert moment_of("manifest:main:v3") == "manifest:main:v3"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs a type"),
        ({"type": "Robot"}, "type 'Robot' does not exist"),
        ({"type": "Person", "colums": "age"}, "unknown option 'colums'"),
        ({"type": "Person", "columns": "age,age"}, "column 'age' is named twice"),
        ({"type": "Person", "branch": "nope"}, "there is no branch 'nope'"),
    ],
)
def test_wrong_options_are_told(example: og.Graph, options: dict[str, str], said: str) -> None:
    with pytest.raises(og.OmniGraphError, match=said):
        DefaultSource({"path": example.uri, **options}).schema()


def test_an_error_of_the_source_reaches_the_user_of_spark(example: og.Graph, spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="type 'Robot' does not exist"):
        spark.read.format("omnigraph").option("type", "Robot").load(example.uri)


def test_a_schema_of_the_caller_chooses_columns_and_nothing_else(example: og.Graph, spark: SparkSession) -> None:
    reading = spark.read.format("omnigraph").option("type", "Person")
    assert reading.schema("age int, name string not null").load(example.uri).columns == ["age", "name"]
    with pytest.raises(Exception, match="given schema is not that of 'node:Person'"):
        reading.schema("age string").load(example.uri).collect()


def test_shares_are_balanced_and_complete(things: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pinned(things).table("Thing")
    whole = fragment_groups(table)
    monkeypatch.setattr(limits, "SCAN_TASK_ROWS", 2 * ROWS // COMMITS)
    halves = fragment_groups(table)
    assert [len(group) for group in halves] == [2, 2]
    assert [number for group in halves for number in group] == [number for group in whole for number in group]
    schema = DefaultSource({"path": things.uri, "type": "Thing", "columns": "name"}).schema()
    assert len(Reader(table, ["name"], schema, lease=None).partitions()) == 2


FILTERS: list[tuple[ds.Filter, Any]] = [
    (ds.EqualTo(("name",), "t007"), lambda row: row["name"] == "t007"),
    (ds.EqualNullSafe(("name",), "t007"), lambda row: row["name"] == "t007"),
    (ds.In(("name",), ("t001", "t009", None)), lambda row: row["name"] in ("t001", "t009")),
    (ds.GreaterThan(("n",), 30), lambda row: row["n"] is not None and row["n"] > 30),
    (ds.LessThanOrEqual(("n",), 3), lambda row: row["n"] is not None and row["n"] <= 3),
    (ds.GreaterThanOrEqual(("w",), 9.5), lambda row: row["w"] >= 9.5),
    (ds.LessThan(("u",), 2**64 - 38), lambda row: row["u"] < 2**64 - 38),
    (ds.Not(ds.EqualTo(("n",), 7)), lambda row: row["n"] is not None and row["n"] != 7),
]


@pytest.mark.parametrize(("filter_", "passes"), FILTERS, ids=[type(each).__name__ for each, _ in FILTERS])
def test_the_storage_tests_what_spark_offers(things: og.Graph, filter_: ds.Filter, passes: Any) -> None:
    table = pinned(things).table("Thing")
    made = push_filters([filter_], table.schema)
    assert len(made.filters) == 1
    rows = things.snapshot().arrow("Thing", ["name", "n", "u", "w"]).to_pylist()
    assert scanned(table, made.filters) == sorted(row["name"] for row in rows if passes(row))


def test_a_filter_that_nothing_can_pass_reads_nothing(things: og.Graph) -> None:
    table = pinned(things).table("Thing")
    assert push_filters([ds.GreaterThan(("u",), 2**64)], table.schema).empty


def test_filters_without_counterpart_are_left_to_spark(things: og.Graph) -> None:
    schema = pinned(things).table("Thing").schema
    instant = ds.GreaterThan(("at",), datetime(2024, 1, 1, tzinfo=UTC))
    offered = [ds.StringContains(("name",), "7"), instant, ds.IsNull(("n",)), ds.EqualTo(("spot", "x"), 1),
               ds.EqualTo(("name",), 3), ds.Not(ds.In(("n",), (1, 2)))]  # fmt: skip
    assert push_filters(offered, schema).filters == ()


def scanned(table: TableAt, filters: Any) -> list[str]:
    groups = [number for group in fragment_groups(table) for number in group]
    return sorted(
        name for batch in scan_fragments(table, groups, ["name"], filters) for name in batch.column(0).to_pylist()
    )


def test_filters_of_a_frame_are_pushed_and_right(things: og.Graph, spark: SparkSession) -> None:
    frame = ogs.read(things, "Thing", ["name", "n", "w", "at"])
    assert names(frame.where((F.col("n") > 30) & (F.col("w") < 9.0))) == ["t031", "t032", "t033", "t034"]
    assert names(frame.where("n is null and name like '%5'")) == ["t005", "t015", "t025", "t035"]
    assert names(frame.where("at >= timestamp'2024-01-01 00:00:38 UTC'")) == ["t038", "t039"]
    assert names(frame.where("n <> 7 and name in ('t007', 't008')")) == ["t008"]


def test_the_format_works_in_a_session_that_pushes_nothing(things: og.Graph, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        frame = spark.read.format("omnigraph").option("type", "Thing").load(things.uri)
        assert names(frame.where("name = 't007'")) == ["t007"]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


HOSTILE = ["t007' OR '1'='1", "'; DROP TABLE x; --", "%", "_", "\\", '"', "t007\u0000", "\u2019 OR 1=1", "${jndi:x}"]


def test_hostile_values_are_values(things: og.Graph, spark: SparkSession) -> None:
    table = pinned(things).table("Thing")
    for text in HOSTILE:
        assert scanned(table, push_filters([ds.EqualTo(("name",), text)], table.schema).filters) == []
        assert scanned(table, push_filters([ds.In(("name",), (text,))], table.schema).filters) == []
    frame = ogs.read(things, "Thing", ["name"])
    assert names(frame.where(F.col("name").isin(*HOSTILE, "t001"))) == ["t001"]
    assert names(frame.where(F.col("name") == HOSTILE[0])) == []


@pytest.mark.s3
def test_executors_read_from_s3(spark: SparkSession, s3_root: str) -> None:
    with og.init(f"{s3_root}/graph", SCHEMA) as graph:
        graph.write([Change("node:Thing", some(range(5)))])
        assert names(ogs.read(graph, "Thing").where("n > 2")) == ["t003", "t004"]
        text = "query q() { match { $a: Thing  $a.n > 2 } return { $a.name as n } order { $a.name } }"
        assert [row["n"] for row in ogs.query(graph, text).collect()] == ["t003", "t004"]


def test_a_tag_names_the_state_of_reads_queries_and_exports(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Thing { name: String @key }")
    graph.load([{"name": "a"}, {"name": "b"}], "append", type="Thing")
    graph.tags.create("2026/q3")
    graph.load([{"name": "c"}], "append", type="Thing")
    options = {"type": "Thing", "at": "tag:2026/q3"}
    frame = spark.read.format("omnigraph").options(**options).load(graph.uri)
    assert sorted(row.name for row in frame.collect()) == ["a", "b"]
    assert ogs.read(graph, "Thing", at="tag:2026/q3").count() == 2
    text = "query q() { match { $t: Thing } return { count($t) as n } }"
    assert [row.n for row in ogs.query(graph, text, at="tag:2026/q3").collect()] == [2]
    ogs.export(graph, str(tmp_path / "then.jsonl"), at="tag:2026/q3")
    assert (tmp_path / "then.jsonl").read_text() == graph.export(at="tag:2026/q3").text
    with pytest.raises(AnalysisException, match=r"there is no tag '2026/q4'"):
        spark.read.format("omnigraph").options(type="Thing", at="tag:2026/q4").load(graph.uri).collect()
