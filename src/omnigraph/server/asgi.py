"""The types of the interface between this server and what runs it, and the values of one request."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_LONGEST_ID = 128


class ClientGone(Exception):
    """The client closed the connection; nobody waits for an answer."""


class Request:
    """One request as it came.

    Attributes:
        path: as it was sent, not decoded.
        headers: by lower-case name; of a repeated one the values in order.
        id: the client's own, if it can be shown, else a new one.
        operation, graph, actor: for the log, as far as they are known.
        status: of the answer; 0 before there is one.
        is_read: whether the whole body has arrived.
    """

    __slots__ = (
        "actor",
        "graph",
        "headers",
        "id",
        "is_read",
        "method",
        "operation",
        "path",
        "receive",
        "scope",
        "send",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        self.method: str = scope["method"]
        self.path: bytes = scope.get("raw_path") or scope["path"].encode()
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        self.headers = headers
        given = headers.get("x-request-id")
        self.id = given[0] if given is not None and _is_sane(given[0]) else new_request_id()
        self.operation = ""
        self.graph: str | None = None
        self.actor: str | None = None
        self.status = 0
        self.is_read = not ("content-length" in headers or "transfer-encoding" in headers)

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this request."""
        return any("close" in value.lower() for value in self.headers.get("connection", ()))


_SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _SIGNS for second in _SIGNS]
_random = random.Random()


def new_request_id() -> str:
    """A ULID. It keeps nothing safe and need not be hard to guess, so the system is not asked for its randomness."""
    value = time.time_ns() // 1_000_000 << 80 | _random.getrandbits(80)
    return "".join([_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])


def _is_sane(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and text.isascii() and text.isprintable()


@lru_cache(maxsize=512)
def by_preference(value: str) -> tuple[str, ...]:
    """The names of a header such as ``Accept``, best first, without those that are refused."""
    found = []
    for place, part in enumerate(value.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = 1.0
        for each in parameters:
            if each.startswith("q="):
                try:
                    quality = float(each[2:])
                except ValueError:
                    quality = 0.0
        if name and quality > 0:
            found.append((-quality, place, name))
    return tuple(name for _, _, name in sorted(found))
