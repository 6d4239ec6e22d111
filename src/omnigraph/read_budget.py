"""How long a read may last, how much it may bring, and who may stop it.

A read asks its budget between the pieces of its work, none of which is long. What nobody bounded is only kept from
taking more memory than there is. A write asks while it looks for rows, never once its record is written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from omnigraph import limits
from omnigraph.errors import InputError, QueryCancelled, QueryTimeout, ResourceLimitExceeded
from omnigraph.given import whole_number

#: Nobody looks closely at less than this, in bytes.
_LITTLE = 1024**2

#: So often somebody who waits for another thread looks whether the time is over, in seconds.
_LOOK_SECONDS = 0.05

#: Rows that are worked on between two looks at a budget: some ten milliseconds.
PIECE_ROWS = 1 << 18


class Lock(Protocol):
    """A lock of `threading`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class ReadBudget:
    """The bounds of one read. The clock runs from when it is made.

    Attributes:
        can_stop: whether the read may have to end before it is done, so that its work is better cut into pieces.
        max_rows, max_bytes: of the result; the latter also of what is held on the way to it.
    """

    __slots__ = ("_deadline", "_is_cancelled", "_seconds", "can_stop", "max_bytes", "max_rows")

    def __init__(
        self,
        seconds: float | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.can_stop = seconds is not None or is_cancelled is not None
        self._seconds = seconds
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._is_cancelled = is_cancelled

    def check(self) -> None:
        """Go on, or stop here.

        Raises:
            QueryTimeout: the time is over.
            QueryCancelled: the caller does not want it any more.
        """
        if not self.can_stop:
            return
        if time.monotonic() >= self._deadline:
            assert self._seconds is not None
            raise QueryTimeout(self._seconds)
        if self._is_cancelled is not None and self._is_cancelled():
            raise QueryCancelled("the query was cancelled")

    @contextmanager
    def locked(self, lock: Lock) -> Iterator[None]:
        """Inside, a lock is held. It is waited for no longer than the read may last."""
        if not self.can_stop:
            lock.acquire()
        else:
            while not lock.acquire(timeout=_LOOK_SECONDS):
                self.check()
        try:
            yield
        finally:
            lock.release()

    def hold(self, size: int) -> None:
        """Before so many bytes are held on the way to the result.

        Raises:
            ResourceLimitExceeded: they are more than the caller allows, or than one read may take of the memory.
        """
        if self.max_bytes is None and size <= _LITTLE:
            return
        allowed = limits.query_bytes() if self.max_bytes is None else self.max_bytes
        if size > allowed:
            raise ResourceLimitExceeded("query_bytes", size, allowed)

    def require_rows(self, rows: int) -> None:
        """Before so many rows are returned.

        Raises:
            ResourceLimitExceeded: they are more than the caller allows.
        """
        if self.max_rows is not None and rows > self.max_rows:
            hint = "write a limit into the query, or allow more rows"
            raise ResourceLimitExceeded("query_rows", rows, self.max_rows, hint=hint)


#: What everybody may do who was given no bounds.
UNBOUNDED = ReadBudget()


def read_budget(
    timeout: object = None,
    max_rows: object = None,
    max_bytes: object = None,
    is_cancelled: object = None,
) -> ReadBudget:
    """What a caller gave, checked.

    >>> read_budget(timedelta(seconds=2)).can_stop
    True
    """
    if timeout is None and max_rows is None and max_bytes is None and is_cancelled is None:
        return UNBOUNDED
    if is_cancelled is not None and not callable(is_cancelled):
        raise InputError(f"is_cancelled is a function without arguments, not {type(is_cancelled).__name__}")
    return ReadBudget(
        _seconds(timeout), _positive(max_rows, "max_rows"), _positive(max_bytes, "max_bytes"), is_cancelled
    )


def _seconds(timeout: object) -> float | None:
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InputError(f"timeout is a number of seconds or a timedelta, not {type(timeout).__name__}")
    if not 0 < seconds < math.inf:
        raise InputError(f"timeout is {seconds} seconds, which is no time", hint="leave it out for no bound")
    return float(seconds)


def _positive(value: object, what: str) -> int | None:
    if value is None:
        return None
    number = whole_number(value, what)
    if number < 1:
        raise InputError(f"{what} is {number}, which is less than 1", hint="leave it out for no bound")
    return number
