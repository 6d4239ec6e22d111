"""Sums of integers on Spark: the same integers as the engine's, and the same words where they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.errors import SumOverflow
from tests.parity.answers import spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUM = "query q() { match { $a: Account } return { $a.town as t, sum($a.cents) as s, sum($a.bytes) as b } order { t } }"


def test_spark_adds_integers_as_the_engine_does(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.init(tmp_path / "graph", "node Account { name: String @key  town: String  cents: I64?  bytes: U64? }")
    rows = {
        "name": list("abcdef"),
        "town": ["x", "x", "x", "y", "y", "z"],
        "cents": pa.array([9007199254740993, 1, 1, 2**63 - 1, -(2**63) + 5, None], pa.int64()),
        "bytes": pa.array([2**63, 2**63 - 1, None, 2**53 + 1, 1, 1], pa.uint64()),
    }
    graph.load({"Account": pa.table(rows)}, "append", engine="embedded")
    expected = [
        {"t": "x", "s": 9007199254740995, "b": 2**64 - 1},
        {"t": "y", "s": 4, "b": 2**53 + 2},
        {"t": "z", "s": None, "b": 1},
    ]
    assert graph.query(SUM).rows() == expected
    assert spark_rows(graph, SUM) == expected
    graph.mutate('query q() { update Account set { cents: 10 } where name = "e" }')
    with pytest.raises(SumOverflow) as refused:
        graph.query(SUM)
    with pytest.raises(Exception, match="64 bits") as failed:
        ogs.query(graph, SUM).collect()
    assert refused.value.message in str(failed.value)
