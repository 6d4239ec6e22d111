"""Asks the policy of a graph before the work of a request is counted and begun.

The graph asks again when the work is done, and records what it allows. So only a refusal is recorded here, and the
actions that no graph ever asks about.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.errors import PolicyDenied, QueryNotFound
from omnigraph.graph import Graph
from omnigraph.server.operation import Need

#: Decided by the server alone. Whoever may not do it is told that there is no such query.
INVOKE_QUERY = "invoke_query"


def require_needs(graph: Graph, needs: Iterable[Need]) -> None:
    """Refuse a call that lacks a right.

    Raises:
        PolicyDenied: the policy does not grant one of them.
        QueryNotFound: it does not grant stored queries.
    """
    guard = graph.internals.guard
    if guard is None:
        return
    for need in needs:
        if need.action == INVOKE_QUERY:
            if not guard.decide(need.action):
                raise no_stored_query()
        elif not guard.may(need.action, need.branch, need.target):
            guard.require(need.action, need.branch, need.target)
            raise PolicyDenied("the policy changed while it was asked", action=need.action)


def no_stored_query() -> QueryNotFound:
    """What is said of a stored query that does not exist, or that the caller may not run."""
    return QueryNotFound("stored query not found")
