"""Answers of a Spark query in the form that the engine gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.engine.query_result import Result
from omnigraph.query import check_read, parse_queries
from tests.engine.running import json_rows


def spark_rows(
    graph: og.Graph,
    text: str,
    params: Mapping[str, Any] | None = None,
    at: str | None = None,
    branch: str | None = None,
) -> list[dict[str, Any]]:
    """Rows as JSON shows them."""
    query = check_read(parse_queries(text).find(), graph.catalog)
    table = ogs.query(graph, text, params=params, at=at, branch=branch).toArrow()
    answer = Result(
        table,
        [column.name for column in query.columns],
        query_name=query.name,
        branch="main",
        at=None,
        commit_id=None,
        types=tuple(column.type for column in query.columns),
    )
    return json_rows(answer)
