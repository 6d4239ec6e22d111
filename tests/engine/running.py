"""Runs one query by both readings of the language."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from omnigraph import Graph
from omnigraph.errors import InputError
from omnigraph.query import bind_params, check_read, parse_queries
from tests.oracle.naive import Answer, GraphData, evaluate


def oracle_answer(text: str, data: GraphData, params: Mapping[str, Any], name: str = "q") -> Answer:
    """What the naive evaluator says."""
    query = check_read(parse_queries(text).find(name), data.catalog)
    return evaluate(query, data, bind_params(query, params), datetime.now(UTC))


def searches_texts(graph: Graph) -> bool:
    """Whether the engine knows `search`, `match_text` and `bm25`."""
    kind, node = next(iter(graph.catalog.nodes.items()))
    texts = [name for name, declared in node.properties.items() if str(declared.type).rstrip("?") == "String"]
    text = f'query q() {{ match {{ $x: {kind}  search($x.{texts[0]}, "tree") }} return {{ $x }} }}'
    try:
        graph.query(text)
    except InputError as error:
        assert "search" in error.message
        return False
    return True
