"""One pinned state of an open graph, and DataFrames of it: the rows of a type, or the answer of a query.

Nothing runs until Spark needs it. Every task, on whatever machine, reads the state that was pinned here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph import given
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.graph import Graph
from omnigraph.history.state_at import At, asked_state
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.session import active_session
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.holds import Hold
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables.table_scan import TableAt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class PinnedState:
    """One state of a graph. Whatever a job reads of it, on whatever machine, is of this state."""

    location: Location
    snapshot: ManifestSnapshot

    def table(self, type_name: str) -> TableAt:
        """The table of a type, named with or without ``node:`` or ``edge:``."""
        pins = self.snapshot.pins
        keys = [type_name] if ":" in type_name else [f"node:{type_name}", f"edge:{type_name}"]
        pin = next((pins[key] for key in keys if key in pins), None)
        if pin is None:
            raise TypeNotFound(f"type '{type_name}' does not exist at this version", type=type_name)
        return TableAt(self.location, pin)

    def count(self, table_key: str) -> int:
        """Rows of a table; free, the manifest knows it."""
        pin = self.snapshot.pins.get(table_key)
        return pin.row_count if pin else 0


def pinned(graph: Graph, branch: str | None = None, at: At | None = None, action: str = "read") -> PinnedState:
    """The state of a branch now, or at a commit, a version or a time. Whether it may be read, and what of it, is
    decided here, before there is a job: it has the tables that tasks can be told to read, and no other."""
    internals = graph.internals
    snapshot = internals.snapshot(branch, at, action)
    _hold(internals.store, snapshot)
    return PinnedState(internals.store.location, snapshot)


def _hold(store: GraphStore, snapshot: ManifestSnapshot) -> None:
    """Keep cleanups from a state as long as this process lives: nobody knows when Spark is done with a DataFrame."""
    key = (store.location.uri, snapshot.identity, snapshot.version)
    if key not in _held:
        _held[key] = store.lease(snapshot, "spark")


_held: dict[tuple[str, str, int], Hold | None] = {}


def pinned_in(store: GraphStore, branch: str | None, at: At | None) -> PinnedState:
    return PinnedState(store.location, asked_state(store, branch, at))


def catalog_of(graph: Graph, state: PinnedState) -> Catalog:
    """The schema that a state was written with."""
    return graph.internals.catalog_of(state.snapshot)


def chosen_columns(table: TableAt, columns: Sequence[str] | None) -> list[str]:
    """Names of the columns to read; all of them when none are named."""
    known = list(table.schema.names)
    if columns is None:
        return known
    for name in columns:
        if name not in known:
            raise InputError(f"'{table.pin.table_key}' has no column '{name}'", hint=f"it has {', '.join(known)}")
        if list(columns).count(name) > 1:
            raise InputError(f"column '{name}' is named twice")
    if not columns:
        raise InputError("name at least one column")
    return list(columns)


def read(
    graph: Graph,
    type: str,
    columns: Sequence[str] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
) -> DataFrame:
    """Rows of a node or edge type, of one state of the graph whatever is committed later.

    Args:
        type: name of the type; ``node:`` or ``edge:`` before it when both exist.
        columns: the columns to read; fewer columns are less work, Spark cannot find that out by itself.
        at: a commit id, ``tag:NAME``, a manifest version or a time; None reads the newest state.
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
    name: str | Mapping[str, object] | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
) -> DataFrame:
    """The answer of a read query as a DataFrame, computed by Spark when it is used.

    Args:
        source: the `.gq` text, or the path of a file that holds it.
        name: the query to run; may be left out when there is only one.
        params: values by name without ``$``.
        at: a commit id, ``tag:NAME``, a manifest version or a time; None reads the newest state.
    """
    from omnigraph.spark.plans.compile import compile_query

    name, params = given.named_query(name, params)
    state = pinned(graph, branch, at)
    catalog, embedder = catalog_of(graph, state), graph.internals.embedder
    return compile_query(active_session(), state, catalog, source, name, params, embedder)
