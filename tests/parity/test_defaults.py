"""Default values through both engines: from lines, CSV, Parquet and tables that do not have every property."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from omnigraph import spark as ogs
from tests.parity.both_engines import Pair

SCHEMA = """
node Task {
    key: String @key
    state: enum(open, done) @default(open)
    level: I32? @default(-1)
    due: Date? @default("2024-02-29")
    seen: DateTime @default("2024-02-29T12:00:00.500Z")
}
edge Needs: Task -> Task { weight: F64 @default(1) }
"""

LINES = [
    '{"type": "Task", "data": {"key": "a"}}',
    '{"type": "Task", "data": {"key": "b", "level": null, "due": "2024-01-01"}}',
    r'{"type": "Task", "data": {"key": "c", "leve\u006c": 3}}',
    '{"edge": "Needs", "from": "a", "to": "b"}',
    '{"edge": "Needs", "from": "a", "to": "b", "data": {"weight": 2}}',
]


@pytest.mark.usefixtures("spark")
def test_a_load_that_leaves_properties_out_gives_the_same(tmp_path: Path) -> None:
    pair = Pair(tmp_path, SCHEMA)
    found = pair.load_lines(LINES, "append")
    assert found.error is None
    assert found.counts == ({"Task": 3}, {"Needs": 2})
    assert pair.load_lines(['{"type": "Task", "data": {"key": "d", "state": null}}'], "append").error is not None
    (tmp_path / "more.csv").write_text("key,level\ne,\nf,4\n", "utf-8")
    assert pair.load({"Task": tmp_path / "more.csv"}, "append").error is None
    pq.write_table(pa.table({"key": ["g"], "state": ["done"]}), tmp_path / "more.parquet")
    assert pair.load({"Task": tmp_path / "more.parquet"}, "append").error is None
    shown = {row["id"]: (row["state"], row["level"]) for row in pair.spark.snapshot().arrow("Task").to_pylist()}
    assert shown == {
        "a": ("open", -1),
        "b": ("open", None),
        "c": ("open", 3),
        "e": ("open", None),
        "f": ("open", 4),
        "g": ("done", -1),
    }


def test_a_data_frame_without_the_column_gets_the_default(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(tmp_path, SCHEMA)
    ogs.load(pair.spark, {"Task": spark.createDataFrame([("x",)], "key string")}, "append")
    pair.embedded.load({"Task": pa.table({"key": ["x"]})}, "append")
    assert pair.spark.export().text == pair.embedded.export().text
