"""The same as `server_connection.py` for coroutines. Belongs to the event loop that uses it first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from omnigraph import limits
from omnigraph.client.patience import Lost, Refused
from omnigraph.client.request_form import ConnectionSettings, head_of, is_good, lost, refused
from omnigraph.client.wire_call import Flow, JsonReader, T, WireCall
from omnigraph.errors import OmniGraphError


class AsyncConnection:
    """A pool of connections to one server.

    Attributes:
        actor: whom the last answer to a write named as its author.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.is_closed = False
        self.actor: str | None = None
        self._client = httpx2.AsyncClient(**settings.client_arguments())

    async def run(self, flow: Flow[T]) -> T:
        """Carry out a verb."""
        try:
            call = next(flow)
            while True:
                try:
                    answer = await self.send(call)
                except OmniGraphError as error:
                    call = flow.throw(error)
                else:
                    call = flow.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    async def send(self, call: WireCall[T]) -> T:
        """One call, again where that is safe and may help."""
        self.settings.require_usable(call, self.is_closed)
        patience = self.settings.patience(call)
        while True:
            try:
                return await self._once(call)
            except Refused as refusal:
                delay = patience.after_refusal(refusal)
            except Lost as loss:
                delay = patience.after_loss(loss)
            await asyncio.sleep(delay)
            self.settings.require_usable(call, self.is_closed)

    async def pieces(self, call: WireCall[Any]) -> AsyncIterator[bytes]:
        """The body of an answer as it comes. It is asked for again only as long as nothing of it was given out."""
        self.settings.require_usable(call, self.is_closed)
        patience = self.settings.patience(call)
        while True:
            has_begun = False
            try:
                async with self._answer(call) as response:
                    async for piece in response.aiter_bytes():
                        has_begun = True
                        yield piece
                    return
            except Refused as refusal:
                delay = patience.after_refusal(refusal)
            except Lost as loss:
                patience.attempts = patience.most_attempts if has_begun else patience.attempts
                delay = patience.after_loss(loss)
            await asyncio.sleep(delay)

    async def close(self) -> None:
        self.is_closed = True
        await self._client.aclose()

    async def _once(self, call: WireCall[T]) -> T:
        reader = call.reader()
        try:
            async with self._answer(call) as response:
                reader.begin(head_of(response))
                async for piece in response.aiter_bytes():
                    reader.take(piece)
            answer = reader.end()
            if call.writes and isinstance(reader, JsonReader):
                self.actor = reader.actor
            return answer
        except BaseException:
            reader.abandon()
            raise

    @contextlib.asynccontextmanager
    async def _answer(self, call: WireCall[Any]) -> AsyncIterator[httpx2.Response]:
        """A good answer whose body was not read yet."""
        content = _pieces_of(call.body.pieces()) if call.body is not None else call.encoded()
        try:
            arguments = self.settings.request_arguments(call)
            async with self._client.stream(**arguments, content=content) as response:
                head = head_of(response)
                if not is_good(head, call):
                    raise refused(head, await _bounded(response))
                yield response
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise lost(error) from None


async def _pieces_of(body: Iterator[bytes]) -> AsyncIterator[bytes]:
    """A body that is read from files, without holding up the loop."""
    while (piece := await asyncio.to_thread(next, body, None)) is not None:
        yield piece


async def _bounded(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async for piece in response.aiter_bytes():
        parts.append(piece)
        size += len(piece)
        if size > limits.CLIENT_ERROR_BYTES:
            break
    return b"".join(parts)
