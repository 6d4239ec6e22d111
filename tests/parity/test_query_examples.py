"""Every read example of the language: Spark gives the written rows, which are those of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from tests.engine.running import json_rows
from tests.engine.test_examples import complaint
from tests.language.query.fixtures import QueryCase, read_cases
from tests.parity.answers import spark_rows
from tests.support.example_graph import example_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("example")) as graph:
        yield graph


@pytest.mark.parametrize("case", read_cases(), ids=str)
def test_spark_gives_the_written_rows(case: QueryCase, graph: og.Graph, spark: SparkSession) -> None:
    found = spark_rows(graph, case.query, case.params)
    assert complaint(case, found) is None
    assert complaint(case, json_rows(graph.query(case.query, params=case.params))) is None
