"""Queries as DataFrames: typed columns, names, states, values that are values, and errors before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.errors import InputError, ParameterError, QueryNotFound, QueryTypeError
from omnigraph.spark.cluster import task_error
from omnigraph.spark.plans.finish import unique_names
from tests.support.example_graph import example_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("example")) as graph:
        yield graph


def test_columns_have_names_and_types(graph: og.Graph, spark: SparkSession) -> None:
    text = 'query q() { match { $p: Person { handle: "ana" } } return { $p.name, $p.joined as j, $p.seen as s, $p } }'
    frame = ogs.query(graph, text)
    assert [field.simpleString() for field in frame.schema] == ["p.name:string", "j:date", "s:timestamp", "p:string"]
    row = frame.collect()[0]
    assert (row["p.name"], row["j"], row["p"]) == ("Ana Ruiz", date(2023, 2, 1), "ana")


def test_names_that_spark_takes_for_the_same_are_told_apart() -> None:
    assert unique_names(["n", "N", "n_2", "n", "m"]) == ["n", "N_2", "n_2_2", "n_3", "m"]


def test_a_file_of_queries_a_name_and_a_past_state(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "some.gq"
    file.write_text(
        "query one() { match { $p: Person } return { count($p) as n } }\n"
        "query two($h: String) { match { $p: Person { handle: $h } } return { $p.name as n } }\n"
    )
    with example_graph(tmp_path / "graph") as graph:
        before = graph.commits.head().id
        graph.branches.create("other")
        graph.mutate('query q() { delete Person where handle = "ana" }')
        assert ogs.query(graph, file, "one").collect()[0]["n"] == 4
        assert ogs.query(graph, file, "one", at=before).collect()[0]["n"] == 5
        assert ogs.query(graph, file, "one", branch="other").collect()[0]["n"] == 5
        assert ogs.query(graph, file, "two", {"h": "bo' OR '1'='1"}).collect() == []
        assert ogs.query(graph, file, "two", {"h": "bo"}).count() == 1


def test_a_query_is_refused_before_anything_runs(graph: og.Graph, spark: SparkSession) -> None:
    with pytest.raises(QueryTypeError):
        ogs.query(graph, "query q() { match { $p: Robot } return { $p } }")
    with pytest.raises(ParameterError, match="parameter 'h' not provided"):
        ogs.query(graph, "query q($h: String) { match { $p: Person { handle: $h } } return { $p } }")
    with pytest.raises(QueryNotFound):
        ogs.query(graph, "query q() { match { $p: Person } return { $p } }", "other")


def test_an_error_of_a_task_comes_out_as_itself() -> None:
    text = "Traceback\n  File x\nomnigraph.errors.InputError: cannot write /x: no space\n SQLSTATE: 38000"
    found = task_error("export", text)
    assert (type(found), found.message) == (InputError, "cannot write /x: no space")
    other = task_error("export", "\n\njava.lang.OutOfMemoryError: heap")
    assert (other.code, other.message) == ("internal", "the Spark export failed: java.lang.OutOfMemoryError: heap")
