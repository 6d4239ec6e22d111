"""An answer that is written on a thread while the event loop sends it.

Between the two is a queue of a few pieces: a writer that is faster than the client waits. A client that is gone, or
takes nothing for too long, makes the next `write` fail, and the thread is free. What fits into the first piece is sent
as a whole.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from omnigraph import limits
from omnigraph.server.asgi import ClientGone
from omnigraph.server.replies import Compressor, Reply


class Mailbox:
    """Brings what threads have to say to the event loop. What comes at the same time wakes the loop once: a loop that
    is awake takes the interpreter from the threads that work."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[tuple[Callable[[Any], None], object]] = deque()
        self._is_called = False

    def post(self, function: Callable[[Any], None], value: object, *, wakes: bool = True) -> None:
        """Have a function called in the loop; called in any thread.

        Args:
            wakes: otherwise the caller sees to it that `wake` is called before long.

        Raises:
            RuntimeError: the loop is closed.
        """
        self._waiting.append((function, value))
        if wakes:
            self.wake()

    def wake(self) -> None:
        """Have the loop call what waits; called in any thread."""
        if self._waiting and not self._is_called:
            self._is_called = True
            self.loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_called = False
        while self._waiting:
            function, value = self._waiting.popleft()
            function(value)


class Exchange:
    """One request between its thread and the event loop.

    Attributes:
        reply: resolved with the answer, or with the stream that the answer has become.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.reply: asyncio.Future[Reply | StreamedReply] = mailbox.loop.create_future()
        self._is_cancelled = False
        self._has_ended = False
        self._stream: StreamedReply | None = None

    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def end(self) -> None:
        """Nobody listens any more; called in the event loop. An error knows the frames that it came through, and they
        this exchange: without the error, what they hold is free at once, and not when Python looks for cycles."""
        self._is_cancelled = self._has_ended = True
        self.reply = self._mailbox.loop.create_future()

    def cancel(self) -> None:
        """Nobody waits any more; called in the event loop."""
        self._is_cancelled = True
        if self._stream is not None:
            self._stream.permits.release(limits.STREAM_PIECES + 1)
            self._stream.pieces.put_nowait(ClientGone())
        self._settle(ClientGone())

    def answer(self, reply: Reply, *, wakes: bool = True) -> None:
        """Called in the thread; see `Mailbox.post`."""
        self._tell(self._settle, reply, wakes=wakes)

    def fail(self, error: BaseException) -> None:
        """Called in the thread: an error answer, or the end of the connection when a part was sent."""
        if self._is_cancelled:
            return
        if self._stream is None:
            self._tell(self._settle, error)
        else:
            self._tell(self._stream.pieces.put_nowait, error)

    def begin(self, reply: Reply) -> StreamedReply:
        """Called in the thread: the answer begins, and its body follows."""
        self._stream = StreamedReply(reply)
        self._tell(self._settle, self._stream)
        return self._stream

    def put(self, piece: bytes | None) -> None:
        """Called in the thread: the next piece, or None for the end. Waits for the client.

        Raises:
            ClientGone: it is not there any more.
        """
        assert self._stream is not None
        self._stream.permits.acquire()
        if self._is_cancelled:
            raise ClientGone
        self._tell(self._stream.pieces.put_nowait, piece)

    def _tell(self, function: Callable[[Any], None], value: object, *, wakes: bool = True) -> None:
        try:
            self._mailbox.post(function, value, wakes=wakes)
        except RuntimeError:  # the loop is closed: the server has stopped without waiting
            self._is_cancelled = True

    def _settle(self, found: Reply | StreamedReply | BaseException) -> None:
        if self._has_ended or self.reply.done():
            return
        if isinstance(found, BaseException):
            self.reply.set_exception(found)
        else:
            self.reply.set_result(found)


class StreamedReply:
    """The event loop's end of a stream: its head, and the pieces that come."""

    __slots__ = ("head", "permits", "pieces")

    def __init__(self, head: Reply) -> None:
        self.head = head
        self.pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        self.permits = threading.Semaphore(limits.STREAM_PIECES)


class AnswerFile(io.RawIOBase):
    """The file that an operation writes its answer to.

    Args:
        reply: head of the answer.
        tool: lays a compression over it.
    """

    def __init__(self, exchange: Exchange, reply: Reply, tool: Compressor | None) -> None:
        self._exchange, self._reply, self._tool = exchange, reply, tool
        self._waiting = bytearray()
        self._has_begun = False
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._position += len(view)
        for start in range(0, len(view), limits.STREAM_PIECE_BYTES):
            part = view[start : start + limits.STREAM_PIECE_BYTES]
            if self._tool is not None:
                part = memoryview(self._tool.compress(bytes(part)))
            if len(self._waiting) + len(part) >= limits.STREAM_PIECE_BYTES:
                self._send(part)
            else:
                self._waiting += part
        return len(view)

    def finish(self) -> None:
        """Everything is written."""
        if self._tool is not None:
            self._waiting += self._tool.flush()
        if not self._has_begun:
            self._reply.body = bytes(self._waiting)
            self._exchange.answer(self._reply)
            return
        if self._waiting:
            self._send()
        self._exchange.put(None)

    def _send(self, part: bytes | memoryview = b"") -> None:
        if not self._has_begun:
            self._has_begun = True
            self._exchange.begin(self._reply)
        self._exchange.put(b"".join((self._waiting, part)))
        self._waiting.clear()
