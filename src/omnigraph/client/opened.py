"""From the address of a server to an open graph behind it: which graph is meant, and whether it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph import limits
from omnigraph.client.address import ServerAddress, server_address, token_of
from omnigraph.client.control_calls import branch_parents
from omnigraph.client.remote_graph import RemoteGraph
from omnigraph.client.request_form import ConnectionSettings
from omnigraph.client.server_connection import Connection
from omnigraph.client.wire_call import Flow, WireCall, ask, json_of
from omnigraph.errors import DeniedError, InvalidUri, NotFoundError, Unauthenticated

if TYPE_CHECKING:
    from omnigraph.choices import OpenMode

#: Ids that an error lists.
_LISTED = 10


def open_remote(
    uri: str, *, mode: OpenMode = "rw", token: str | None = None, attempts: int | None = None
) -> RemoteGraph:
    """Open a graph behind a server.

    Args:
        attempts: how often a call is tried while the graph is opened; None for as often as later ones. A server that
            cannot be reached is given up after `limits.CLIENT_OPEN_ATTEMPTS`.

    Raises:
        InvalidUri: the address names no graph, and the server serves several.
        GraphNotFound: the server serves no such graph.
        Unauthenticated: the server wants another token.
        ServerUnavailable: nobody answers there.
    """
    address = server_address(uri)
    connection = Connection(ConnectionSettings(address, token_of(token), mode, attempts, limits.CLIENT_OPEN_ATTEMPTS))
    try:
        address = connection.run(named_graph(address))
        connection.settings = replace(connection.settings, address=address)
        connection.run(require_graph(address))
        connection.settings = replace(connection.settings, attempts=None, unreached=None)
    except BaseException:
        connection.close()
        raise
    return RemoteGraph(connection)


def named_graph(address: ServerAddress) -> Flow[ServerAddress]:
    """The graph that an address means: the one that it names, else the only one of the server.

    Where the server does not tell its graphs, the address is taken as that of a graph, as behind some proxies.
    """
    if address.graph is not None:
        return address
    try:
        graphs = yield from ask(GRAPHS)
    except Unauthenticated:
        raise
    except (DeniedError, NotFoundError):
        return address
    if len(graphs) == 1:
        return ServerAddress(address.root, graphs[0][0])
    names = ", ".join(id for id, _ in graphs[:_LISTED]) + (", …" if len(graphs) > _LISTED else "")
    raise InvalidUri(
        f"{address.root} serves {len(graphs)} graphs{f': {names}' if names else ''}",
        hint=f"write {address.root}/graphs/<id>",
        graphs=[id for id, _ in graphs[:_LISTED]],
    )


def require_graph(address: ServerAddress) -> Flow[None]:
    """Make sure that there is a graph, whatever the actor may do with it."""
    try:
        yield from branch_parents()
    except Unauthenticated:
        raise
    except DeniedError:
        return
    except NotFoundError:
        if address.graph is not None:
            raise
        hint = f"write {address.root}/graphs/<id>"
        raise InvalidUri(f"{address.root} does not tell which graphs it has, and is none itself", hint=hint) from None


def _graphs(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(each["graph_id"], each.get("uri") or "") for each in found["graphs"]]


#: Asks a server for its graphs.
GRAPHS = WireCall("GET", "/graphs", json_of(_graphs))
