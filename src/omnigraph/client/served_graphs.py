"""Which graphs a server serves, as far as it tells."""

from __future__ import annotations

from omnigraph.client.address import ServerAddress, server_address, token_of
from omnigraph.client.opened import GRAPHS
from omnigraph.client.request_form import ConnectionSettings
from omnigraph.client.server_connection import Connection
from omnigraph.client.wire_call import ask


def served_graphs(base: str, *, token: str | None = None, attempts: int | None = None) -> list[tuple[str, str]]:
    """Ids and storage addresses of the graphs of a server.

    Args:
        base: ``http://host:8080``.
        token: who asks; by default ``OMNIGRAPH_BEARER_TOKEN``.
        attempts: how often it is tried; None for as often as limits say.

    Raises:
        PolicyDenied: the server does not tell the actor.
    """
    root = ServerAddress(server_address(base).root, None)
    connection = Connection(ConnectionSettings(root, token_of(token), "ro", attempts))
    try:
        return connection.run(ask(GRAPHS))
    finally:
        connection.close()
