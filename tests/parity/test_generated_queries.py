"""Random queries on random graphs: Spark answers as the engine and as the naive evaluator do."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import SumOverflow
from tests.engine.differential import Moment, growing
from tests.engine.random_queries import GeneratedQuery, random_query
from tests.engine.rich_graph import rich_graph
from tests.engine.running import json_rows, oracle_answer
from tests.oracle.naive import OutOfReach, TooMany
from tests.parity.answers import spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = 24


def difference(graph: og.Graph, moment: Moment, at: str | None, query: GeneratedQuery) -> str | None:
    """What is wrong with Spark's answer or with the engine's, or None; None too when the oracle gives up."""
    try:
        answer = oracle_answer(query.text, moment.data, query.params)
    except (OutOfReach, TooMany, SumOverflow):
        return None
    answers: dict[str, list[dict[str, Any]]] = {
        "the engine": json_rows(graph.query(query.text, params=query.params, at=at)),
        "Spark": spark_rows(graph, query.text, query.params, at),
    }
    for who, rows in answers.items():
        said = answer.complaint(rows)
        if said is not None:
            return f"{who}: {said}\n{query.text}\n{query.params}"
    return None


def compare(root: Path, seed: int, queries: int) -> list[str]:
    random = Random(seed)
    with rich_graph(root) as graph:
        moments = list(growing(graph, random))
        found = []
        for number in range(queries):
            moment = random.choice(moments) if number % 4 == 0 else moments[-1]
            at = None if moment is moments[-1] else moment.commit_id
            said = difference(graph, moment, at, random_query(random))
            if said is not None:
                found.append(said)
    return found


def test_spark_answers_generated_queries_as_the_engine_does(tmp_path: Path, spark: SparkSession) -> None:
    assert compare(tmp_path / "graph", 1, QUERIES) == []


def test_spark_answers_the_same_when_no_table_is_small(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every join is a shuffle and every fragment a task of its own."""
    monkeypatch.setattr(limits, "BROADCAST_ROWS", -1)
    monkeypatch.setattr(limits, "SCAN_TASK_ROWS", 1)
    assert compare(tmp_path / "graph", 52, 6) == []


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(1, 27))
def test_spark_answers_many_generated_queries(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    assert compare(tmp_path / "graph", seed, 44) == []
