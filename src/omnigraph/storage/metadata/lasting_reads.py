"""Leases for whatever is read for long: most reads are over before a lease would pay off, and need none.

A state that was the newest a moment ago is left alone by cleanups for their grace. Whoever still reads it after
`limits.LASTING_SECONDS` gets a lease (`holds.py`), so that it can go on for hours. One thread of the process looks for
such reads; it sleeps while there are none.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.storage.metadata.holds import Hold


@dataclass(slots=True)
class _Read:
    """One read.

    Attributes:
        since: when it began, by the clock of the process.
        lease: puts the lease; None when it was done, or tried.
    """

    since: float
    lease: Callable[[], Hold | None] | None
    hold: Hold | None = None


class LastingReads:
    """The reads of a process."""

    def __init__(self) -> None:
        self._reads: dict[int, _Read] = {}
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, lease: Callable[[], Hold | None]) -> Callable[[], None]:
        """Somebody begins to read; returns what is to be called at the end.

        Args:
            lease: puts a lease on what is read; called later, from another thread, if the read lasts.
        """
        number = next(self._numbers)
        with self._changed:
            self._reads[number] = _Read(time.monotonic(), lease)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="omnigraph-reads", daemon=True)
                self._thread.start()
            elif len(self._reads) == 1:
                self._changed.notify()
        return partial(self._end, number)

    def _end(self, number: int) -> None:
        """The read is over; its lease goes, if it had one."""
        with self._changed:
            read = self._reads.pop(number)
        if read.hold is not None:
            read.hold.release()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._reads:
                    self._changed.wait()
            time.sleep(limits.LASTING_SECONDS / 2)
            self.protect()

    def protect(self) -> None:
        """Put a lease for every read that has lasted for long."""
        now = time.monotonic()
        due = []
        with self._changed:
            for number, read in self._reads.copy().items():  # one may end while they are walked through
                if read.lease is not None and now - read.since >= limits.LASTING_SECONDS:
                    due.append((number, read, read.lease))
                    read.lease = None
        for number, read, lease in due:
            hold = None
            with contextlib.suppress(OmniGraphError):  # whoever reads on learns it when files are gone
                hold = lease()
            with self._changed:
                if number in self._reads:
                    read.hold, hold = hold, None
            if hold is not None:  # it ended meanwhile
                hold.release()


#: The reads of this process.
READS = LastingReads()
