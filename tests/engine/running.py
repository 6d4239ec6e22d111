"""Runs one query by both readings of the language."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from omnigraph import Result
from omnigraph.query import bind_params, check_read, parse_queries
from tests.oracle.naive import Answer, GraphData, evaluate


def oracle_answer(text: str, data: GraphData, params: Mapping[str, Any], name: str = "q") -> Answer:
    """What the naive evaluator says."""
    query = check_read(parse_queries(text).find(name), data.catalog)
    return evaluate(query, data, bind_params(query, params), datetime.now(UTC))


def json_rows(result: Result) -> list[dict[str, Any]]:
    """The rows of an answer as JSON shows them, which is how the naive evaluator writes its own."""
    rows: list[dict[str, Any]] = result.to_dict()["rows"]
    return rows
