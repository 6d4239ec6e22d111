"""Every read example of the language: Spark gives the written rows, which are those of the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.errors import InputError
from tests.engine.running import json_rows
from tests.engine.test_examples import complaint
from tests.language.query.fixtures import QueryCase, read_cases
from tests.parity.answers import spark_rows
from tests.support.example_graph import example_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEARCH = re.compile(r"\b(bm25|search|match_text|fuzzy|nearest|rrf)\(")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("example")) as graph:
        yield graph


def searching(case: QueryCase) -> bool:
    return _SEARCH.search(case.query) is not None


@pytest.mark.parametrize("case", [case for case in read_cases() if not searching(case)], ids=str)
def test_spark_gives_the_written_rows(case: QueryCase, graph: og.Graph, spark: SparkSession) -> None:
    found = spark_rows(graph, case.query, case.params)
    assert complaint(case, found) is None
    assert complaint(case, json_rows(graph.query(case.query, params=case.params))) is None


@pytest.mark.parametrize("case", [case for case in read_cases() if searching(case)], ids=str)
def test_spark_refuses_to_search_by_name(case: QueryCase, graph: og.Graph, spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"\(\) does not run on Spark"):
        ogs.query(graph, case.query, params=case.params)
