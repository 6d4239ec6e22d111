"""DataFrames out of an open graph: the rows of a type, or the answer of a query. Nothing runs until Spark needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.graph import Graph
from omnigraph.history.resolve import At
from omnigraph.spark.opened import catalog_of, chosen_columns, pinned
from omnigraph.spark.session import active_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read(
    graph: Graph,
    type: str,
    columns: Sequence[str] | None = None,
    *,
    branch: str = ids.MAIN,
    at: At | None = None,
) -> DataFrame:
    """Rows of a node or edge type, of one state of the graph whatever is committed later.

    Args:
        type: name of the type; ``node:`` or ``edge:`` before it when both exist.
        columns: the columns to read; fewer columns are less work, Spark cannot find that out by itself.
        at: a commit id, a manifest version or a time; None reads the newest state.
    """
    state = pinned(graph, branch, at)
    table = state.table(type)
    options = {
        "type": table.pin.table_key,
        "branch": state.snapshot.branch,
        "at": str(state.snapshot.version),
        "columns": ",".join(chosen_columns(table, columns)),
        **state.location.options,
    }
    return active_session().read.format("omnigraph").options(**options).load(graph.uri)


def query(
    graph: Graph,
    source: str | Path,
    name: str | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str = ids.MAIN,
    at: At | None = None,
) -> DataFrame:
    """The answer of a read query as a DataFrame, computed by Spark when it is used.

    Args:
        source: the `.gq` text, or the path of a file that holds it.
        name: the query to run; may be left out when there is only one.
        params: values by name without ``$``.
        at: a commit id, a manifest version or a time; None reads the newest state.

    Raises:
        InputError: the query searches (``nearest``, ``bm25``, ``search`` …), which needs `Graph.query`.
    """
    from omnigraph.spark.plans.compile import compile_query

    state = pinned(graph, branch, at)
    return compile_query(active_session(), state, catalog_of(graph, state), source, name, params)
