"""Who carries a load: which sources are bulk, and what happens where Spark is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import MissingExtra
from omnigraph.graph.carriers import is_bulk
from omnigraph.spark import carrier


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise MissingExtra("the bulk carrier needs pyspark, which is not installed")

    monkeypatch.setattr(carrier, "require_spark", refuse)


def test_directories_patterns_tables_of_files_and_large_files_are_bulk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_LOAD_BYTES", 100)
    (tmp_path / "small.jsonl").write_bytes(b"x" * 60)
    (tmp_path / "large.jsonl").write_bytes(b"x" * 101)
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    bulk: list[Any] = [
        tmp_path,
        str(tmp_path / "*.jsonl"),
        tmp_path / "Person.parquet",
        "Person.csv.gz",
        large,
        [small, small],
        {"Person": "people.csv"},
        "s3://bucket/*.jsonl",
    ]
    few: list[Any] = [small, [small], tmp_path / "missing.jsonl", {"Person": pa.table({"k": ["a"]})}, {}]
    assert [is_bulk(source, None) for source in bulk] == [True] * len(bulk)
    assert [is_bulk(source, None) for source in few] == [False] * len(few)
    assert is_bulk(tmp_path / "rows.txt", "parquet")


@pytest.mark.usefixtures("no_spark")
def test_without_spark_a_load_is_carried_by_this_process_unless_spark_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "Person.csv").write_text("name\nann\n")
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        assert graph.load(tmp_path / "Person.csv", "append").engine == "embedded"
        with pytest.raises(MissingExtra, match="pyspark"):
            graph.load(tmp_path / "Person.csv", "merge", engine="spark")
        assert graph.snapshot().count("Person") == 1
