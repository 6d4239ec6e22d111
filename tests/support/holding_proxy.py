"""A proxy in front of an S3 server that holds one request back until it is told how the request ends.

All other requests go through, those of the same client too. So a test can let a second writer do its work while the
first one waits in the middle of its own, and then let the late request have its effect.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tests.support.fault_proxy import READS, WRITES, Answer, FaultProxy

ANY = READS | WRITES

#: How a held request ends: it has its effect and is answered, it is cut off without an effect, or it has its effect
#: and the connection is cut.
End = Literal["answered", "lost", "unheard"]

_FAULTS: dict[End, str | None] = {"answered": None, "lost": "reset_before", "unheard": "reset_after"}

#: A request that nobody releases is let go after this long, so that no client hangs.
_MOST_SECONDS = 60.0

_UNIQUE = re.compile(r"[0-9A-Z]{26}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|(?<=[/_])\d+(?=[.-])|\?.*")


@dataclass(frozen=True, slots=True)
class Hold:
    """Which request is held.

    Attributes:
        first: its number among the requests that match.
        methods: what matches: one of these methods,
        part: and this pattern somewhere in the path.
        after: counting begins when a request whose path holds this pattern was answered; empty: at once.
    """

    first: int = 1
    methods: frozenset[str] = WRITES
    part: str = ""
    after: str = ""


@dataclass(slots=True)
class HoldingProxy(FaultProxy):
    """Forwards to one server; inside `holding` one request waits for `release`.

    Attributes:
        asked_for: what the held request asked for, with the names that differ from run to run left out.
    """

    asked_for: str = ""
    _hold: Hold | None = None
    _begun: bool = False
    _end: End = "answered"
    _held: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _gate: threading.Lock = field(default_factory=threading.Lock)

    @property
    def holds(self) -> bool:
        """Whether the request has come, released since or not."""
        return self._held.is_set()

    @contextmanager
    def holding(self, hold: Hold) -> Iterator[None]:
        """The chosen request is held inside the block; whatever happens there, it is let go at the end."""
        with self._gate:
            self._hold, self._begun, self.seen, self.asked_for = hold, not hold.after, 0, ""
            self._held.clear()
            self._released.clear()
        try:
            yield
        finally:
            with self._gate:
                self._hold = None
            self._released.set()

    def release(self, end: End = "answered") -> None:
        self._end = end
        self._released.set()

    def choose(self, method: str, path: str, conditional: bool) -> str | None:
        with self._gate:
            hold = self._hold
            if hold is None or not self._begun or method not in hold.methods or not re.search(hold.part, path):
                return None
            self.seen += 1
            if self.seen != hold.first:
                return None
            self.asked_for = f"{method} {_UNIQUE.sub('*', path)}"
            self._held.set()
        self._released.wait(_MOST_SECONDS)
        return _FAULTS[self._end]

    def forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        answer = FaultProxy.forward(self, method, path, body, headers)
        with self._gate:
            hold = self._hold
            if hold is not None and not self._begun and re.search(hold.after, path):
                self._begun = True
        return answer
