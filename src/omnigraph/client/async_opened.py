"""`omnigraph.aio.open`; see `opened.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph import limits
from omnigraph.client.address import is_server, server_address, token_of
from omnigraph.client.async_connection import AsyncConnection
from omnigraph.client.async_graph import AsyncRemoteGraph
from omnigraph.client.opened import named_graph, require_graph
from omnigraph.client.request_form import ConnectionSettings
from omnigraph.errors import InputError, NotOffered

if TYPE_CHECKING:
    from omnigraph.choices import OpenMode


async def open_async(uri: str, *, mode: OpenMode = "rw", token: str | None = None) -> AsyncRemoteGraph:
    """Open a graph behind a server; see `omnigraph.open`.

    Raises:
        NotOffered: it is the address of a storage.
        GraphNotFound: the server serves no such graph.
        Unauthenticated: the server wants another token.
        ServerUnavailable: nobody answers there.
    """
    if not is_server(uri):
        raise NotOffered("coroutines are for a graph behind a server", hint="open a storage with omnigraph.open")
    if mode not in ("rw", "ro"):
        raise InputError(f"mode {mode!r} is not 'rw' or 'ro'")
    address = server_address(uri)
    connection = AsyncConnection(
        ConnectionSettings(address, token_of(token), mode, unreached=limits.CLIENT_OPEN_ATTEMPTS)
    )
    try:
        address = await connection.run(named_graph(address))
        connection.settings = replace(connection.settings, address=address)
        await connection.run(require_graph(address))
        connection.settings = replace(connection.settings, unreached=None)
    except BaseException:
        await connection.close()
        raise
    return AsyncRemoteGraph(connection)
