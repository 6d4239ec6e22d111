"""The HTTP connection of the server: uvicorn's, with limits that it lacks.

Headers are bounded while they arrive, a connection that sends no whole request is closed, one that takes nothing is
broken off, and a request can break off its connection.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from omnigraph.errors import ResourceLimitExceeded
from omnigraph.server.connection import ABORT, ARRIVED
from omnigraph.server.server_limits import ServerLimits
from omnigraph.wire.problems import problem_of

_NO_LINGERING = struct.pack("ii", 1, 0)


class TooLongHead(Exception):
    """The headers of a request are longer than they may be."""


def http_protocol(limits: ServerLimits) -> type[HttpToolsProtocol]:
    """The class of connections with the limits of one server."""

    class BoundProtocol(LimitedProtocol):
        allowed = limits

    return BoundProtocol


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    allowed: ServerLimits = ServerLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._has_head = False
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle: Any = self.cycle
        begins = self._head_timer is None and (cycle is None or cycle.response_complete)
        self._has_head = False
        super().data_received(data)
        if begins and not self._has_head and not self.transport.is_closing():
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["extensions"] = {ABORT: self._reset, ARRIVED: self._has_arrived}

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_head = True
        self._forget_head()
        super().on_headers_complete()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self._reset()  # the client did not even take its last answer
        else:
            super().timeout_keep_alive_handler()

    def _reset(self) -> None:
        """End the connection at once, also for the system, which would keep what was not taken for a long time."""
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
        self.transport.abort()

    def _has_arrived(self) -> bool:
        """Whether all requests that have begun have arrived whole."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.more_body

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.allowed.header_bytes:
            raise TooLongHead

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.allowed.body_seconds, self.transport.abort)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def send_400_response(self, msg: str) -> None:
        """Our own envelope for what is no HTTP, or has too long a head."""
        too_long = self._head_bytes > self.allowed.header_bytes
        error = ResourceLimitExceeded("request_header_bytes", self._head_bytes, self.allowed.header_bytes)
        envelope = problem_of(error).envelope if too_long else {"error": "this is not HTTP", "code": "bad_request"}
        body = msgspec.json.encode(envelope)
        line = b"431 Request Header Fields Too Large" if too_long else b"400 Bad Request"
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (line, len(body)) + body)
        self.transport.close()
