"""The connection below a request: whether the client is still there, and how to send and to break off."""

from __future__ import annotations

import asyncio
import contextlib

from prometheus_client import Counter

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.logs import SERVER
from omnigraph.server.answer_stream import Exchange, StreamedReply
from omnigraph.server.asgi import ClientGone, Request
from omnigraph.server.replies import Reply

#: Name under which a connection says how it is broken off.
ABORT = "omnigraph.abort"

#: Name under which it says whether the whole request has arrived.
ARRIVED = "omnigraph.arrived"

#: A request that takes longer is watched for its client to leave.
_WATCH_AFTER = 0.05

#: What is taken of a body that was refused, before the connection is closed.
_PASSED_OVER_SECONDS = 2
_PASSED_OVER_BYTES = 64 * 1024**2


class Watchers:
    """Cancels the work of requests whose clients go away. Most requests are over before they are watched, so that one
    timer looks for those that last."""

    def __init__(self) -> None:
        self._recent: dict[Watcher, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, request: Request, exchange: Exchange) -> Watcher:
        """Watch a request whose body was read, until `Watcher.stop`."""
        loop = asyncio.get_running_loop()
        watcher = Watcher(request, exchange, self._recent)
        self._recent[watcher] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_WATCH_AFTER, self._look)
        return watcher

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() - _WATCH_AFTER
        for watcher in [each for each, since in self._recent.items() if since <= due]:
            watcher.start()
        self._timer = loop.call_later(_WATCH_AFTER, self._look) if self._recent else None


class Watcher:
    """Watches one request."""

    def __init__(self, request: Request, exchange: Exchange, recent: dict[Watcher, float]) -> None:
        self._request, self._exchange, self._recent = request, exchange, recent
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        del self._recent[self]
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._task is None:
            del self._recent[self]
        else:
            self._task.cancel()

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._exchange.cancel()


async def send_reply(request: Request, reply: Reply, stall_seconds: float) -> None:
    """Send a whole answer. A client that does not take it is cut off."""
    length = len(reply.body) if reply.length is None else reply.length
    if reply.status == 304:
        request.scope["method"] = "HEAD"  # the length is that of the full value, and no body follows
    reply.headers.append((b"content-length", b"%d" % length))
    await _begin(request, reply)
    body = b"" if request.scope["method"] == "HEAD" else reply.body
    if not request.is_read and request.closes:
        await request.send({"type": "http.response.body", "body": body, "more_body": True})
        await _pass_over(request)
        body = b""
    if len(body) <= limits.STREAM_PIECE_BYTES:
        await request.send({"type": "http.response.body", "body": body})
        return
    try:
        for start in range(0, len(body), limits.STREAM_PIECE_BYTES):
            end = start + limits.STREAM_PIECE_BYTES
            async with asyncio.timeout(stall_seconds):
                piece = {"type": "http.response.body", "body": body[start:end], "more_body": end < len(body)}
                await request.send(piece)
    except TimeoutError:
        await break_off(request)


async def _pass_over(request: Request) -> None:
    """Take the rest of a body that nobody wants, for a while: a connection that is closed while it still brings
    something is reset, and then the answer is lost on its way."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PASSED_OVER_SECONDS):
            while size < _PASSED_OVER_BYTES:
                message = await request.receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def send_stream(
    request: Request, exchange: Exchange, stream: StreamedReply, stall_seconds: float, counter: Counter
) -> None:
    """Send a stream piece by piece, and count its bytes. One that fails breaks the connection off, so that nobody takes
    a part for the whole."""
    if stream.head.length is not None:
        stream.head.headers.append((b"content-length", b"%d" % stream.head.length))
    try:
        await _begin(request, stream.head)
        while (piece := await stream.pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            async with asyncio.timeout(stall_seconds):
                await request.send({"type": "http.response.body", "body": piece, "more_body": True})
            counter.inc(len(piece))
            stream.permits.release()
        await request.send({"type": "http.response.body", "body": b""})
    except BaseException as error:
        exchange.cancel()
        await break_off(request)
        if not isinstance(error, ClientGone | TimeoutError | OmniGraphError):
            raise
        SERVER.warning("request %s: the answer was broken off: %s", request.id, type(error).__name__)


async def break_off(request: Request) -> None:
    """Close the connection at once, without what is still to be sent."""
    abort = request.scope.get("extensions", {}).get(ABORT)
    if abort is not None:
        abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while (await request.receive())["type"] != "http.disconnect":
                    pass


async def _begin(request: Request, head: Reply) -> None:
    request.status = head.status
    head.headers.append((b"x-request-id", request.id.encode()))
    await request.send({"type": "http.response.start", "status": head.status, "headers": head.headers})
