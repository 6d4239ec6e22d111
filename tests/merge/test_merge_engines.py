"""Which engine merges: when Spark takes over, what happens where there is none, and rows that are read in parts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import limits
from omnigraph.errors import InputError, MergeConflict, MissingExtra, ResourceLimitExceeded
from omnigraph.graph import engines
from tests.merge.branches import Apart, apart, people, state


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where Spark is not installed; one word for each time that somebody asked."""
    asked: list[str] = []

    def refuse() -> engines.SparkEngine:
        asked.append("spark")
        raise MissingExtra("the Spark engine needs pyspark, which is not installed")

    monkeypatch.setattr(engines, "spark_engine", refuse)
    return asked


def ages(first: int) -> pa.Array:
    return pa.array(range(first, first + 50), pa.int32())


def grown(root: Path) -> Apart:
    """Both sides put the same fifty people, five of them with another age, and the source fifty more."""
    branches = apart(root, "plain", "into main")
    names = [f"p{number:02d}" for number in range(50)]
    ours = pa.array([*range(1, 6), *range(5, 50)], pa.int32())
    branches.graph.write([people(*names, age=ages(0))], branch="a")
    branches.graph.write([people(*(f"q{number:02d}" for number in range(50)), age=ages(7))], branch="a")
    branches.graph.write([people(*names, age=ours)], branch="main")
    return branches


def test_a_small_merge_asks_nobody_else(tmp_path: Path, no_spark: list[str]) -> None:
    result = grown(tmp_path / "g").merge(resolve="theirs")
    assert (result.engine, no_spark) == ("embedded", [])


def test_without_spark_a_large_merge_is_done_here_in_parts_with_the_same_result(
    tmp_path: Path, no_spark: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = grown(tmp_path / "whole"), grown(tmp_path / "parts")
    with pytest.raises(MergeConflict) as expected:
        whole.merge()
    whole.merge(resolve="theirs")
    monkeypatch.setattr(limits, "FILTERED_ROWS", 1)
    monkeypatch.setattr(limits, "SPARK_MERGE_BYTES", 100)
    with pytest.raises(MergeConflict) as caught:
        parts.merge()
    assert [each.row_id for each in caught.value.conflicts] == [f"p{number:02d}" for number in range(5)]
    assert caught.value.conflicts == expected.value.conflicts
    result = parts.merge(resolve="theirs")
    assert (result.engine, no_spark) == ("embedded", ["spark", "spark"])
    assert state(parts.graph, "main") == state(whole.graph, "main")


def test_without_spark_the_limit_of_this_process_stays(
    tmp_path: Path, no_spark: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    branches = grown(tmp_path / "g")
    monkeypatch.setattr(limits, "MERGE_BYTES", 100)
    with pytest.raises(ResourceLimitExceeded, match="one merge"):
        branches.merge(resolve="theirs")
    assert no_spark == ["spark"]


def test_an_engine_that_is_asked_for_is_used_or_refused(tmp_path: Path, no_spark: list[str]) -> None:
    branches = grown(tmp_path / "g")
    with pytest.raises(MissingExtra, match="pyspark"):
        branches.merge(engine="spark")
    with pytest.raises(InputError, match="engine 'abacus' is not one of 'auto', 'embedded', 'spark'"):
        branches.merge(engine="abacus")
    assert branches.merge(resolve="ours", engine="embedded").engine == "embedded"
