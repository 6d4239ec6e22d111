"""Carries calls to a server and their answers back. May be shared between threads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import httpx2

from omnigraph import limits
from omnigraph.client.patience import Lost, Refused
from omnigraph.client.request_form import ConnectionSettings, head_of, is_good, lost, refused
from omnigraph.client.wire_call import Flow, JsonReader, T, WireCall
from omnigraph.errors import OmniGraphError


class Connection:
    """A pool of connections to one server.

    Attributes:
        actor: whom the last answer to a write named as its author.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.is_closed = False
        self.actor: str | None = None
        self._client = httpx2.Client(**settings.client_arguments())

    def run(self, flow: Flow[T]) -> T:
        """Carry out a verb."""
        try:
            call = next(flow)
            while True:
                try:
                    answer = self.send(call)
                except OmniGraphError as error:
                    call = flow.throw(error)
                else:
                    call = flow.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def send(self, call: WireCall[T]) -> T:
        """One call, again where that is safe and may help."""
        self.settings.require_usable(call, self.is_closed)
        patience = self.settings.patience(call)
        while True:
            try:
                return self._once(call)
            except Refused as refusal:
                delay = patience.after_refusal(refusal)
            except Lost as loss:
                delay = patience.after_loss(loss)
            time.sleep(delay)
            self.settings.require_usable(call, self.is_closed)

    def pieces(self, call: WireCall[Any]) -> Iterator[bytes]:
        """The body of an answer as it comes. It is asked for again only as long as nothing of it was given out."""
        self.settings.require_usable(call, self.is_closed)
        patience = self.settings.patience(call)
        while True:
            has_begun = False
            try:
                with self._answer(call) as response:
                    for piece in response.iter_bytes():
                        has_begun = True
                        yield piece
                    return
            except Refused as refusal:
                delay = patience.after_refusal(refusal)
            except Lost as loss:
                patience.attempts = patience.most_attempts if has_begun else patience.attempts
                delay = patience.after_loss(loss)
            time.sleep(delay)

    def close(self) -> None:
        self.is_closed = True
        self._client.close()

    def _once(self, call: WireCall[T]) -> T:
        reader = call.reader()
        try:
            with self._answer(call) as response:
                reader.begin(head_of(response))
                for piece in response.iter_bytes():
                    reader.take(piece)
            answer = reader.end()
            if call.writes and isinstance(reader, JsonReader):
                self.actor = reader.actor
            return answer
        except BaseException:
            reader.abandon()
            raise

    @contextlib.contextmanager
    def _answer(self, call: WireCall[Any]) -> Iterator[httpx2.Response]:
        """A good answer whose body was not read yet."""
        content = call.body.pieces() if call.body is not None else call.encoded()
        try:
            with self._client.stream(**self.settings.request_arguments(call), content=content) as response:
                head = head_of(response)
                if not is_good(head, call):
                    raise refused(head, _bounded(response))
                yield response
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise lost(error) from None


def _bounded(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    for piece in response.iter_bytes():
        parts.append(piece)
        size += len(piece)
        if size > limits.CLIENT_ERROR_BYTES:
            break
    return b"".join(parts)
