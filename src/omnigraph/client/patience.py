"""How often and how long a call is tried: reads after any failure that may pass, writes only where that is safe.

What did not reach the server is always sent again. After a lost answer a write that names its commit is sent again,
because the server does it once; any other is not, and `OutcomeUnknown` says so. What the server itself refused is an
answer, but not the last word on an earlier attempt whose answer was lost.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from omnigraph import limits
from omnigraph.client.wire_call import AnswerHead, Repeats, WireCall
from omnigraph.errors import (
    DeniedError,
    LimitError,
    OmniGraphError,
    OutcomeUnknown,
    RecoveryRequired,
    ServerUnavailable,
    StorageError,
    TooManyRequests,
    UnknownAnswer,
)

#: Statuses of servers and proxies that stand for a passing failure.
_PASSING = (502, 503, 504)

#: Errors that say nothing about whether an earlier attempt was done.
_NO_WORD = (DeniedError, LimitError, StorageError, RecoveryRequired)


class Refused(Exception):
    """The server answered with an error.

    Attributes:
        told: the answer has our own envelope, so the server itself decided.
    """

    def __init__(self, head: AnswerHead, error: OmniGraphError, told: bool) -> None:
        super().__init__(head.status)
        self.head = head
        self.error = error
        self.told = told


class Lost(Exception):
    """No whole answer came.

    Attributes:
        arrived: the request may have been received.
    """

    def __init__(self, why: str, arrived: bool) -> None:
        super().__init__(why)
        self.why = why
        self.arrived = arrived


@dataclass(slots=True)
class Patience:
    """The attempts at one call.

    Attributes:
        bound: the most attempts; None for as many as limits say.
        unreached: the most of them that do not reach the server; None for all.
    """

    call: WireCall[Any]
    address: str
    bound: int | None = None
    unreached: int | None = None
    attempts: int = 0
    misses: int = 0  # attempts that did not reach the server
    is_unknown: bool = False  # an attempt may have been done
    began: float = field(default_factory=time.monotonic)

    def after_refusal(self, refused: Refused) -> float:
        """Seconds until the next attempt.

        Raises:
            OmniGraphError: there is none; the error of the caller.
        """
        self.attempts += 1
        asked = _asked(refused)
        if refused.head.status == 429 and asked is not None and isinstance(refused.error, TooManyRequests):
            delay = self._delay(asked)
            if delay is not None:
                return delay
        elif refused.head.status >= 500 and not refused.told:
            self.is_unknown = self.is_unknown or self.call.writes
            delay = self._delay(asked or 0.0) if refused.head.status in _PASSING and self._may_repeat else None
            if delay is not None:
                return delay
        elif refused.head.status == 503 and isinstance(refused.error, ServerUnavailable):  # stopping: not begun
            delay = self._delay(0.0)
            if delay is not None:
                return delay
        if self.is_unknown and isinstance(refused.error, _NO_WORD):
            raise self._unknown(str(refused.error)) from None
        raise refused.error

    def after_loss(self, lost: Lost) -> float:
        """The same when no whole answer came."""
        self.attempts += 1
        self.is_unknown = self.is_unknown or (lost.arrived and self.call.writes)
        self.misses += not lost.arrived
        if self._may_repeat and (self.unreached is None or self.misses < self.unreached):
            delay = self._delay(0.0)
            if delay is not None:
                return delay
        if self.is_unknown:
            raise self._unknown(lost.why) from None
        times = f" in {self.attempts} attempts" if self.attempts > 1 else ""
        raise ServerUnavailable(
            f"{self.address} gave no answer{times}: {lost.why}",
            hint="check the address and that the server runs",
            address=self.address,
            attempts=self.attempts,
        ) from None

    @property
    def most_attempts(self) -> int:
        return limits.CLIENT_ATTEMPTS if self.bound is None else self.bound

    @property
    def _may_repeat(self) -> bool:
        return not (self.is_unknown and self.call.repeats is Repeats.UNSENT)

    def _delay(self, asked: float) -> float | None:
        """How long to wait; None when there is no next attempt."""
        body = self.call.body
        if self.attempts >= self.most_attempts or (body is not None and not body.is_repeatable):
            return None
        backoff = min(limits.CLIENT_BACKOFF_SECONDS * 2 ** (self.attempts - 1), limits.CLIENT_LONGEST_BACKOFF_SECONDS)
        delay = max(asked, backoff * random.uniform(0.5, 1.0))
        return delay if time.monotonic() - self.began + delay <= limits.CLIENT_RETRY_SECONDS else None

    def _unknown(self, why: str) -> OutcomeUnknown:
        call = self.call
        details: dict[str, Any] = {"address": self.address, "attempts": self.attempts}
        if call.branch is not None:
            details["branch"] = call.branch
        if call.commit_id is None:
            hint = "look at the graph before you do it again"
        else:
            details["commit_id"] = call.commit_id
            hint = (
                f"commits.get('{call.commit_id}') tells whether it was done; sent again with this commit_id "
                "it is done once"
            )
        return OutcomeUnknown(
            f"{call.what} may have been done or not: the answer of {self.address} was lost ({why})",
            hint=hint,
            **details,
        )


def of_foreign(head: AnswerHead, error: OmniGraphError) -> OmniGraphError:
    """The error for an answer that no server of graphs gave, such as the page of a proxy."""
    if head.status in _PASSING:
        return ServerUnavailable(f"the server or a proxy before it answered with status {head.status}", **_found(head))
    if head.status >= 500 or head.status < 400:
        return UnknownAnswer(
            f"the answer with status {head.status} is not that of a server of graphs",
            hint="is this the address of a server of graphs, and no proxy or login page before it?",
            **_found(head),
        )
    error.details |= _found(head)
    return error


def _found(head: AnswerHead) -> dict[str, Any]:
    request_id = head.headers.get("x-request-id")
    return {"status": head.status} | ({} if request_id is None else {"request_id": request_id})


def _asked(refused: Refused) -> float | None:
    """How many seconds the server asks to wait. Ours knows it better than the header, which the contract fixes."""
    known = refused.error.details.get("retry_after")
    if isinstance(known, int | float):
        return max(0.0, float(known))
    text = refused.head.headers.get("retry-after", "").strip()
    return float(text[:6]) if text.isascii() and text.isdigit() else None
