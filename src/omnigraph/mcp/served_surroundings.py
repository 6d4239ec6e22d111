"""The surroundings of a graph behind a server that this process is a client of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from omnigraph.client.address import ServerAddress, server_address, token_of
from omnigraph.client.request_form import ConnectionSettings
from omnigraph.client.served_graphs import served_graphs
from omnigraph.client.server_connection import Connection
from omnigraph.client.wire_call import WireCall, ask, json_of
from omnigraph.errors import DeniedError, Unauthenticated
from omnigraph.mcp.desk import StoredCall

if TYPE_CHECKING:
    from omnigraph import Graph, MutationResult, Result
    from omnigraph.client.remote_graph import RemoteGraph


class ServedSurroundings:
    """What the server has besides the graph.

    Args:
        graph: a `RemoteGraph`.
        token: with which it was opened.
    """

    def __init__(self, graph: Graph, uri: str, token: str | None) -> None:
        self._graph = cast("RemoteGraph", graph)
        self._root = server_address(uri).root
        self._token = token
        self._seen: set[str] = set()

    def health(self) -> Mapping[str, Any]:
        """What the server says of itself."""
        return _asked(ServerAddress(self._root, None), self._token, "/healthz")

    def graphs(self) -> Sequence[Mapping[str, Any]]:
        """The graphs of the server, or an error for who may not see the list."""
        return [{"graph_id": name, "uri": uri} for name, uri in served_graphs(self._root, token=self._token)]

    def has_branch(self, name: str) -> bool:
        """Whether a branch exists; or did when it was asked for last, so that most calls need no other one."""
        if name not in self._seen and name in self._graph.branches.list():
            self._seen.add(name)
        return name in self._seen

    def drop_unused(self, name: str) -> None:
        """Leaves the branch: from here nobody can tell whether somebody else is just writing to it."""

    def stored_queries(self) -> Sequence[Mapping[str, Any]]:
        """The stored queries of the server."""
        return self._graph.stored_queries()

    def invoke(self, call: StoredCall) -> Result | MutationResult:
        """Run one of them."""
        return self._graph.stored(
            call.name,
            call.params,
            branch=call.branch,
            at=call.at,
            expect_mutation=call.writes,
            if_commit=call.if_commit,
        )


def served_actor(uri: str, token: str | None) -> str | None:
    """Whom a server takes the holder of a token for; None when it does not say."""
    try:
        return cast("str | None", _asked(server_address(uri), token, "/branches").get("actor_id"))
    except Unauthenticated:
        raise
    except DeniedError:
        return None


def _asked(address: ServerAddress, token: str | None, path: str) -> dict[str, Any]:
    connection = Connection(ConnectionSettings(address, token_of(token), "ro"))
    try:
        return connection.run(ask(WireCall("GET", path, json_of(dict[str, Any]))))
    finally:
        connection.close()
