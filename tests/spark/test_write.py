"""Writing one type through the format ``omnigraph``: validated, one commit, and nothing at all when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs
from omnigraph.errors import ResourceLimitExceeded, UniqueViolation
from omnigraph.spark.sink import Sink, WriteOptions
from omnigraph.write.change import Change, Mode
from tests.spark.test_read import SCHEMA as THINGS
from tests.spark.test_read import some

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Person { handle: String @key  age: I32?  mail: String? @unique  @range(age, 0..150) }
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.write([Change("node:Person", pa.table({"handle": ["ana", "bo"], "age": pa.array([1, 2], pa.int32())}))])
        yield graph


def save(frame: DataFrame, graph: og.Graph, type_name: str, how: str = "append", **options: str) -> None:
    frame.write.format("omnigraph").option("type", type_name).options(**options).mode(how).save(graph.uri)


def people(spark: SparkSession, *rows: tuple[Any, ...], parts: int = 2) -> DataFrame:
    return spark.createDataFrame(list(rows), "handle string, age int, mail string").repartition(parts)


def ages(graph: og.Graph, branch: str = "main") -> dict[str, int | None]:
    rows = graph.query(
        "query q() { match { $p: Person } return { $p.handle as h, $p.age as a } }", branch=branch
    ).rows()
    return {row["h"]: row["a"] for row in rows}


def data_files(graph: og.Graph) -> set[str]:
    """Files with rows of nodes and edges; the copies of the history are filled in the background."""
    kinds = [Path(graph.uri, kind).rglob("*") for kind in ("nodes", "edges")]
    return {str(path) for below in kinds for path in below if "/data/" in str(path) and path.is_file()}


def test_rows_are_appended_as_one_commit(graph: og.Graph, spark: SparkSession) -> None:
    before = len(graph.commits.list())
    save(people(spark, ("cy", 3, None), ("di", None, "d@x"), ("ed", 5, None)), graph, "Person", actor="act-anna")
    assert ages(graph) == {"ana": 1, "bo": 2, "cy": 3, "di": None, "ed": 5}
    assert len(graph.commits.list()) == before + 1
    assert graph.commits.head().actor == "act-anna"
    edges = spark.createDataFrame([("ana", "cy"), ("cy", "di")], "from string, to string")
    save(edges, graph, "Knows")
    assert graph.snapshot().count("Knows") == 2


def test_rows_are_overwritten(graph: og.Graph, spark: SparkSession) -> None:
    save(people(spark, ("cy", 3, None)), graph, "Person", "overwrite")
    assert ages(graph) == {"cy": 3}


def test_rows_are_merged_and_keep_their_row_ids(graph: og.Graph, spark: SparkSession) -> None:
    before = graph.snapshot().arrow("Person", ["handle", "_rowid"]).to_pylist()
    save(people(spark, ("bo", 20, None), ("cy", 3, None), parts=1), graph, "Person", mode="merge")
    assert ages(graph) == {"ana": 1, "bo": 20, "cy": 3}
    after = {row["handle"]: row["_rowid"] for row in graph.snapshot().arrow("Person", ["handle", "_rowid"]).to_pylist()}
    assert {row["handle"]: after[row["handle"]] for row in before} == {row["handle"]: row["_rowid"] for row in before}
    assert graph.snapshot().count("Person") == 3
    assert len(graph.snapshot().arrow("Person")) == 3


def test_of_a_repeated_id_the_last_row_of_a_merge_counts(graph: og.Graph, spark: SparkSession) -> None:
    notes = spark.createDataFrame([("n", "first"), ("m", "other"), ("n", "last")], "id string, text string").coalesce(1)
    save(notes, graph, "Note", mode="merge")
    assert {(row["id"], row["text"]) for row in graph.snapshot().arrow("Note").to_pylist()} == {
        ("n", "last"),
        ("m", "other"),
    }


def test_a_branch_is_written_alone(graph: og.Graph, spark: SparkSession) -> None:
    graph.branches.create("review")
    save(people(spark, ("cy", 3, None)), graph, "Person", branch="review")
    assert set(ages(graph)) == {"ana", "bo"}
    assert set(ages(graph, "review")) == {"ana", "bo", "cy"}


def test_no_rows_are_no_commit(graph: og.Graph, spark: SparkSession) -> None:
    before = graph.commits.head().id
    save(people(spark), graph, "Person")
    assert graph.commits.head().id == before


REFUSED: list[tuple[str, list[tuple[Any, ...]], str, dict[str, str], str]] = [
    ("Person", [("cy", 151, None)], "handle string, age int, mail string", {}, "RangeViolation"),
    ("Person", [(None, 1, None)], "handle string, age int, mail string", {}, "MissingValue"),
    ("Person", [("ana", 1, None)], "handle string, age int, mail string", {}, "KeyConflict"),
    ("Person", [("x", 1, "m"), ("y", 1, "m")], "handle string, age int, mail string", {}, "UniqueViolation"),
    ("Person", [("x", 1), ("x", 2)], "handle string, age int", {"mode": "merge"}, "UniqueViolation"),
    ("Knows", [("ana", "zz")], "src string, dst string", {}, "EndpointMissing"),
    ("Knows", [("ana", "bo")] * 3, "src string, dst string", {}, "CardinalityViolation"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[-1]} {case[1][0]}")
def test_a_refused_write_leaves_nothing(case: Any, graph: og.Graph, spark: SparkSession) -> None:
    type_name, rows, schema, options, kind = case
    head, files = graph.commits.head().id, data_files(graph)
    with pytest.raises(PySparkException, match=rf"omnigraph\.errors\.{kind}"):
        save(spark.createDataFrame(rows, schema), graph, type_name, **options)
    assert graph.commits.head().id == head
    assert data_files(graph) == files


def test_a_task_that_fails_leaves_nothing(graph: og.Graph, spark: SparkSession) -> None:
    head, files = graph.commits.head().id, data_files(graph)

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 3 in batch.column(1).to_pylist():
                raise RuntimeError("a planted failure")

    frame = people(spark, *((f"p{n}", n, None) for n in range(8)), parts=1).mapInArrow(
        broken, "handle string, age int, mail string"
    )
    with pytest.raises(PySparkException, match="a planted failure"):
        save(frame, graph, "Person")
    assert graph.commits.head().id == head
    assert data_files(graph) == files


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"type": "Robot"}, "type 'Robot' does not exist"),
        ({"type": "Person", "mode": "upsert"}, "option mode is 'upsert'"),
        ({"type": "Person", "at": "3"}, "unknown option 'at'"),
        ({"type": "Note"}, "handle"),
    ],
)
def test_wrong_requests_are_told_before_any_row(
    graph: og.Graph, spark: SparkSession, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        people(spark, ("cy", 3, None)).write.format("omnigraph").options(**options).mode("append").save(graph.uri)


def test_what_was_read_is_written_bit_by_bit(spark: SparkSession, tmp_path: Path) -> None:
    with og.init(tmp_path / "one", THINGS) as one, og.init(tmp_path / "two", THINGS) as two:
        one.write([Change("node:Thing", some(range(20)))])
        save(ogs.read(one, "Thing"), two, "Thing")
        assert two.export().text == one.export().text


def test_a_write_says_what_it_did(graph: og.Graph, spark: SparkSession) -> None:
    rows = people(spark, ("ana", 3, None), ("new", 4, None)).write.format("omnigraph")
    rows.options(type="Person", mode="merge", message="a frame").mode("append").save(graph.uri)
    done = graph.commits.head()
    assert (done.kind, done.message, str(done.rows["node:Person"])) == ("load", "a frame", "+1 ~1")
    ogs.load(graph, {"Person": people(spark, ("newer", 4, None))}, "append", message="loaded")
    assert graph.commits.head().summary == 'load: Person +1 "loaded"'


def test_overwriting_with_no_rows_empties_the_type(graph: og.Graph, spark: SparkSession) -> None:
    save(people(spark), graph, "Person", "overwrite")
    assert ages(graph) == {}
    assert graph.commits.head().labels["rows"] == '{"node:Person":0}'


def test_a_broken_rule_names_the_row_of_the_frame(graph: og.Graph, spark: SparkSession) -> None:
    """Rows are numbered over all partitions, as in a load of the same frame."""
    rows = spark.createDataFrame([("x", 1), ("y", 2), ("ana", 3)], "handle string, age int").repartitionByRange(
        3, "age"
    )
    with pytest.raises(og.OmniGraphError) as loaded:
        ogs.load(graph, {"Person": rows}, "append")
    with pytest.raises(PySparkException) as written:
        save(rows, graph, "Person")
    assert loaded.value.details["line"] == 3
    assert loaded.value.message in str(written.value)
    alone = spark.createDataFrame([("x", 1), ("y", 2), ("z", 999)], "handle string, age int")
    with pytest.raises(og.OmniGraphError) as loaded:
        ogs.load(graph, {"Person": alone.repartitionByRange(3, "age")}, "append")
    with pytest.raises(PySparkException) as written:
        save(alone.repartitionByRange(3, "age"), graph, "Person")
    assert loaded.value.details["line"] == 3
    assert loaded.value.message in str(written.value)


def in_this_process(graph: og.Graph, rows: pa.Table, mode: Mode = Mode.APPEND) -> None:
    """A write as Spark does it, without Spark."""
    sink = Sink(WriteOptions(graph.internals.store.location, "Person", mode), rows.column_names)
    sink.commit([sink.write(iter(rows.to_batches(max_chunksize=2)))])


def test_keys_are_judged_a_part_at_a_time_with_the_same_result(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEY_TASK_ROWS", 3)
    names = [f"p{number}" for number in range(20)]
    in_this_process(graph, pa.table({"handle": names, "mail": names}))
    assert len(ages(graph)) == 22
    with pytest.raises(UniqueViolation, match="'p7'"):
        in_this_process(graph, pa.table({"handle": [f"q{n}" for n in range(20)], "mail": [*names[7:8], *names[1:20]]}))
    in_this_process(graph, pa.table({"handle": [*names, "new"], "mail": [*names, "new"]}), Mode.MERGE)
    assert len(ages(graph)) == 23


def test_more_keys_than_one_process_checks_are_refused_and_leave_nothing(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SINK_ROWS", 5)
    in_this_process(graph, pa.table({"handle": ["a", "b", "c"]}))
    head, files = graph.commits.head().id, data_files(graph)
    with pytest.raises(ResourceLimitExceeded, match="rows whose keys one write checks") as caught:
        in_this_process(graph, pa.table({"handle": ["d", "e", "f"]}))
    assert caught.value.hint == "use omnigraph.spark.load, which checks keys on the executors"
    assert (graph.commits.head().id, data_files(graph)) == (head, files)


@pytest.mark.s3
def test_executors_write_to_s3(spark: SparkSession, s3_root: str) -> None:
    with og.init(f"{s3_root}/graph", SCHEMA) as graph:
        options = dict(graph.internals.store.location.options)
        save(people(spark, ("cy", 3, None), ("di", 4, None)), graph, "Person", **options)
        save(people(spark, ("cy", 30, None)), graph, "Person", mode="merge", **options)
        assert ages(graph) == {"cy": 30, "di": 4}
