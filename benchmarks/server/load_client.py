"""A small HTTP client that keeps many connections busy and costs little itself: one event loop, nothing is parsed.

It reads status, length and body of an answer, and nothing else. Every connection has at most one request on its way.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: Nothing that is measured takes so long; a server that hangs ends the measure.
TIMEOUT_SECONDS = 900


class WrongAnswer(Exception):
    """An answer that is no success, or not the one that was expected."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server listens."""

    port: int
    host: str = "127.0.0.1"
    token: str | None = None

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
        """A request as it goes over the wire."""
        lines = {"Host": f"{self.host}:{self.port}", "Content-Length": str(len(body)), **(headers or {})}
        if body:
            lines.setdefault("Content-Type", "application/json")
        if self.token is not None:
            lines["Authorization"] = f"Bearer {self.token}"
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclass(frozen=True, slots=True)
class Load:
    """What a run of requests took.

    Attributes:
        elapsed: seconds from the first request to the last answer.
        latencies: seconds of each request.
        length: bytes of the last body.
    """

    elapsed: float
    latencies: tuple[float, ...]
    length: int

    @property
    def median(self) -> float:
        return statistics.median(self.latencies)

    @property
    def each(self) -> float:
        """Seconds for each request, all connections together."""
        return self.elapsed / len(self.latencies)


def load(target: Target, request: Callable[[], bytes], connections: int, requests: int) -> Load:
    """Send this many requests over this many connections, each as soon as its connection has the answer before."""
    return asyncio.run(asyncio.wait_for(_load(target, request, connections, requests), TIMEOUT_SECONDS))


def one_answer(target: Target, request: bytes) -> bytes:
    """The body of one answer."""

    async def ask() -> bytes:
        connection = await _Connection.to(target, keeps_body=True)
        await connection.ask(request)
        connection.close()
        return bytes(connection.body)

    return asyncio.run(asyncio.wait_for(ask(), TIMEOUT_SECONDS))


async def _load(target: Target, request: Callable[[], bytes], connections: int, requests: int) -> Load:
    lines = [await _Connection.to(target) for _ in range(min(connections, requests))]
    latencies: list[float] = []
    left = requests

    async def work(connection: _Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            asked = request()
            started = time.perf_counter()
            await connection.ask(asked)
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    try:
        await asyncio.gather(*map(work, lines))
        return Load(time.perf_counter() - started, tuple(latencies), lines[0].length)
    finally:
        for connection in lines:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection that stays open.

    Attributes:
        body: of the last answer, if it is kept or no success.
        length: of the last body.
    """

    def __init__(self, keeps_body: bool) -> None:
        self.body = bytearray()
        self.length = 0
        self._keeps_body = keeps_body
        self._rest = b""
        self._status = b""
        self._is_head = True
        self._is_chunked = self._is_last = False
        #: Bytes of the body, or of a chunk, and of the line end behind it, that are still to come.
        self._missing = self._skipped = 0
        self._answer: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def to(cls, target: Target, *, keeps_body: bool = False) -> _Connection:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(lambda: cls(keeps_body), target.host, target.port)
        return protocol

    async def ask(self, request: bytes) -> None:
        """Send a request; done when its answer is there whole."""
        assert self._transport is not None
        self._rest, self._is_head, self._is_last, self.length = b"", True, False, 0
        self.body.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self._is_head:
            head, found, body = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = data
                return
            self._read_head(head.lower())
            data = body
        if self._is_chunked:
            self._take_chunks(data)
        else:
            self._take(data)
        if not self._missing and not self._skipped and (self._is_last or not self._is_chunked):
            self._done()

    def _read_head(self, head: bytes) -> None:
        self._is_head = False
        self._status = head[9:12]
        self._is_chunked = b"transfer-encoding: chunked" in head
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        self._missing, self._skipped = 0 if self._is_chunked else int(length), 0

    def _take_chunks(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._missing:
                piece = data[at : at + self._missing]
                self._take(piece)
                at += len(piece)
            elif self._skipped:
                passed = min(self._skipped, len(data) - at)
                self._skipped -= passed
                at += passed
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    self._rest = data[at:]
                    return
                self._missing, self._skipped = int(data[at:end], 16), 2
                self._is_last = self._missing == 0
                at = end + 2

    def _take(self, data: bytes) -> None:
        self.length += len(data)
        self._missing -= len(data)
        if self._keeps_body or self._status != b"200":
            self.body += data

    def _done(self) -> None:
        assert self._answer is not None
        if self._status == b"200":
            self._answer.set_result(None)
        else:
            text = bytes(self.body[:500]).decode("utf-8", "replace")
            self._answer.set_exception(WrongAnswer(f"status {self._status.decode()}: {text}"))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server closed the connection"))
