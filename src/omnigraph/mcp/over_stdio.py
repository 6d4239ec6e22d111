"""The protocol over standard input and output, for agents that start this process themselves.

Nothing but messages of the protocol is written to the standard output: what anything else prints there goes to the
standard error, and so does the log.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Literal, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread
from mcp.server.stdio import stdio_server
from starlette.requests import Request

from omnigraph import ids, limits
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.protocol_server import Visit, protocol_server

_Answer = TypeVar("_Answer")


class _Threads:
    """Some threads of this process."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(limits.MCP_THREADS)

    async def __call__(self, pool: Literal["read", "write"], work: Callable[[], _Answer]) -> _Answer:
        return await to_thread.run_sync(work, limiter=self._limiter)


def serve_stdio(desk: Desk) -> None:
    """Answer one agent until it closes its end."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    anyio.run(_serve, desk)


async def _serve(desk: Desk) -> None:
    workers = _Threads()

    def visit(request: Request | None) -> Visit:
        return Visit(desk, workers, ids.new_ulid())

    server = protocol_server(visit)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
