"""The surroundings of a graph that this process serves to others, for one of its callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph import ids
from omnigraph.mcp.desk import StoredCall
from omnigraph.mcp.store_surroundings import StoreSurroundings
from omnigraph.server.authorize import INVOKE_QUERY, require_needs
from omnigraph.server.operation import Need

if TYPE_CHECKING:
    from omnigraph import MutationResult, Result
    from omnigraph.server.sub_app import SubRequest


class HostedSurroundings(StoreSurroundings):
    """What the server has besides the graph, as far as the caller may know of it.

    Args:
        budget: what one query may take, see `Desk`.
    """

    def __init__(self, caller: SubRequest, budget: Mapping[str, Any]) -> None:
        super().__init__(caller.graph, caller.served.id, caller.served.stored, budget)
        self._caller = caller

    def graphs(self) -> Sequence[Mapping[str, Any]]:
        """The graphs of the server, or an error for who may not see the list."""
        return self._caller.graphs()

    def stored_queries(self) -> Sequence[Mapping[str, Any]]:
        """The stored queries; none for who may not call any."""
        guard = self._caller.graph.internals.guard
        if guard is not None and not (guard.may(INVOKE_QUERY, None) and guard.may("read", ids.MAIN)):
            return []
        return super().stored_queries()

    def invoke(self, call: StoredCall) -> Result | MutationResult:
        """Run one of them, for who may."""
        require_needs(self._caller.graph, (Need(INVOKE_QUERY),))
        return super().invoke(call)
