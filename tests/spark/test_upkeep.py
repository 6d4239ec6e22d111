"""Optimize and index builds on Spark give what the embedded ones give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.graph.engines import upkeep_engine
from omnigraph.spark.upkeep_tasks import SparkUpkeep
from omnigraph.upkeep.work_engine import EmbeddedUpkeep
from tests.upkeep.optimize.grown_graph import answers, grown, layout, put


def test_both_engines_make_the_same_of_a_graph(tmp_path: Path, spark: Any) -> None:
    graphs = {engine: grown(tmp_path / engine, 4) for engine in ("embedded", "spark")}
    before = {engine: answers(graph) for engine, graph in graphs.items()}
    done = {}
    for engine, graph in graphs.items():
        graph.branches.create("side")
        graph.write([put(100, 3)], branch="side")
        graph.write([put(110, 3)], branch="side")
        done[engine] = [
            (table.branch, table.table_key, table.fragments_removed, table.fragments_added, table.deleted_rows_dropped)
            for table in graph.optimize(engine=engine).tables  # type: ignore[arg-type]
        ]
        assert (answers(graph), graph.verify(deep=True).ok) == (before[engine], True)
    assert done["spark"] == done["embedded"]
    assert [layout(graph) for graph in graphs.values()] == [{"node:Person": (1, 0, 0), "edge:Knows": (1, 0, 0)}] * 2


def test_an_index_of_many_rows_is_built_as_several_segments(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = grown(tmp_path / "g", 6)
    monkeypatch.setattr(SparkUpkeep, "segment_rows", 4)
    monkeypatch.setattr(limits, "INDEX_SEGMENT_ROWS", 1)
    before = answers(graph)
    report = graph.ensure_indices(engine="spark")
    assert ("edge:Knows", "src") in report.built
    store = graph.internals.reader()
    handle = store.table(store.snapshot("main").pins["edge:Knows"])
    assert {len(index.segments) > 1 for index in handle.describe_indices()} == {True}
    assert answers(graph) == before
    assert graph.ensure_indices(engine="spark").commit is None


def test_auto_gives_much_work_to_spark(tmp_path: Path, spark: Any) -> None:
    store = og.init(tmp_path / "g", "node A { k: String @key }").internals.reader()
    assert isinstance(upkeep_engine("auto")(store, limits.SPARK_UPKEEP_ROWS), EmbeddedUpkeep)
    assert isinstance(upkeep_engine("auto")(store, limits.SPARK_UPKEEP_ROWS + 1), SparkUpkeep)
    assert isinstance(upkeep_engine("spark")(store, 0), SparkUpkeep)
