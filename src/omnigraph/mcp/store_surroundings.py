"""The surroundings of a graph that this process has opened itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import omnigraph
from omnigraph import ids, limits
from omnigraph.history.branch_load import unmake_branch
from omnigraph.mcp.desk import StoredCall
from omnigraph.server.stored_queries import StoredQueries
from omnigraph.wire import CONTRACT_VERSION

if TYPE_CHECKING:
    from omnigraph import Graph, MutationResult, Result


class StoreSurroundings:
    """What is there besides a graph on its own: itself in the list of graphs, and stored queries.

    Args:
        graph_id: under which name the list of graphs has it.
        budget: what one query may take, see `Desk`.
    """

    def __init__(
        self,
        graph: Graph,
        graph_id: str,
        stored: StoredQueries | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> None:
        self._graph = graph
        self._id = graph_id
        self._stored = stored if stored is not None else StoredQueries()
        self._budget = dict(budget or {})

    def health(self) -> Mapping[str, Any]:
        """That it works, and its versions."""
        return {
            "status": "ok",
            "version": CONTRACT_VERSION,
            "source_version": omnigraph.__version__,
            "internal_schema_version": limits.INTERNAL_SCHEMA_VERSION,
        }

    def graphs(self) -> Sequence[Mapping[str, Any]]:
        """The graph itself."""
        return [{"graph_id": self._id, "uri": self._graph.uri}]

    def has_branch(self, name: str) -> bool:
        """Whether a branch exists. Says nothing of what is in it, so nobody is asked."""
        return self._graph.internals.store.has_branch(name)

    def drop_unused(self, name: str) -> None:
        """Delete a branch that has no commit. Whoever may make it may give it up: there is nothing in it."""
        unmake_branch(self._graph.internals.store, name)

    def stored_queries(self) -> Sequence[Mapping[str, Any]]:
        """The queries about types that can be seen."""
        return [query.to_dict() for query in self._stored.listed(self._graph)]

    def invoke(self, call: StoredCall) -> Result | MutationResult:
        """Run one of them."""
        query = self._stored.get(call.name, self._graph)
        given = (query.text, query.name, call.params)
        if not query.is_mutation:
            return self._graph.query(*given, branch=call.branch, at=call.at, **self._budget)
        allowed = {name: value for name, value in self._budget.items() if name in ("timeout", "is_cancelled")}
        return self._graph.mutate(*given, branch=call.branch or ids.MAIN, if_commit=call.if_commit, **allowed)
