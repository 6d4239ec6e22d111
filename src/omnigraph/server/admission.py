"""Counts the writes that run for each actor, so that one of them cannot take all threads of the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph import limits
from omnigraph.errors import TooManyRequests

#: Who writes to a server that knows no actors.
ANONYMOUS = "anonymous"


@dataclass(slots=True)
class _Running:
    writes: int = 0
    bytes: int = 0


class Admission:
    """The running writes.

    Args:
        writes, bytes: the most of one actor.
    """

    def __init__(self, writes: int, bytes: int) -> None:
        self._writes, self._bytes = writes, bytes
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}

    @contextmanager
    def held(self, actor: str | None, weight: int) -> Iterator[None]:
        """Counts a write as long as the block lasts.

        Raises:
            TooManyRequests: the actor has as many already.
        """
        name = actor or ANONYMOUS
        with self._lock:
            found = self._running.setdefault(name, _Running())
            if found.writes >= self._writes:
                raise self._refused(f"{found.writes} writes of this actor are running", "writes", self._writes)
            if found.bytes + weight > self._bytes:
                if not found.writes:
                    del self._running[name]
                raise self._refused("the running writes of this actor hold too many bytes", "bytes", self._bytes)
            found.writes += 1
            found.bytes += weight
        try:
            yield
        finally:
            with self._lock:
                found.writes -= 1
                found.bytes -= weight
                if not found.writes:
                    del self._running[name]

    def _refused(self, message: str, what: str, limit: int) -> TooManyRequests:
        return TooManyRequests(
            f"{message}, and {limit} is the limit",
            hint="wait until one has ended",
            counted=what,
            limit=limit,
            retry_after=limits.BUSY_SECONDS,
        )
