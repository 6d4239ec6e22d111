"""`WorkPool`: threads that do the work of requests, so that the event loop never waits for a disk.

A pool is bounded twice: by its threads, and by how many requests may wait for one. A job that turns into a long stream
leaves the pool with its thread, and another thread takes the place.

Short jobs are done by one thread after the other: threads that all compute in Python only take the interpreter from
each other, which costs more than the job. As soon as jobs do not end quickly, more threads help, until they do. For
the same reason the outcomes of short jobs that wait behind each other are delivered together, before the last of them
begins.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from omnigraph import limits
from omnigraph.errors import TooManyRequests

Job: TypeAlias = Callable[[], None]

#: Seconds without the end of a job, and of waiting at the head of the line, after which another thread helps.
_STANDSTILL = 0.002
_LONG_WAIT = 0.02


class WorkPool:
    """A bounded pool.

    Args:
        threads: jobs that run at once.
        waiting: jobs that may wait besides.
        one_by_one: whether short jobs wait for each other; otherwise each job that comes has a thread at once.
        deliver: hands on the outcomes of jobs; called when no job waits, and often while one does.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        waiting: int,
        *,
        one_by_one: bool,
        deliver: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._most = threads
        self._waiting = waiting
        self._one_by_one = one_by_one
        self._deliver = deliver
        self._jobs: deque[tuple[float, Job]] = deque()
        self._lock = threading.Lock()
        self._there_is_work = threading.Condition(self._lock)
        self._is_crowded = threading.Condition(self._lock)
        self._is_calm = True
        self._is_closed = False
        self._unfinished = 0
        self._done = 0
        self._threads = 0
        self._idle = 0
        self._begun: dict[int, float] = {}  # thread → when its job began
        self._here = threading.local()
        if one_by_one:
            threading.Thread(target=self._watch_line, name=f"omnigraph-{name}-line", daemon=True).start()

    @property
    def queued(self) -> int:
        """Jobs that wait for a thread."""
        return len(self._jobs)

    @property
    def unfinished(self) -> int:
        """Jobs that run or wait."""
        return self._unfinished

    @property
    def delivers(self) -> bool:
        """Whether the outcome of the job that runs here may wait for `deliver`: another job comes right behind it."""
        return self._one_by_one and bool(self._jobs) and not getattr(self._here, "left", True)

    def submit(self, job: Job) -> None:
        """Have a job done; it must not raise.

        Raises:
            TooManyRequests: too many wait already.
        """
        with self._lock:
            if self._unfinished >= self._most + self._waiting:
                raise TooManyRequests(
                    f"the server has too much to do: {self._waiting} requests wait already",
                    hint="wait a moment, then send it again",
                    counted=f"{self.name} pool",
                    retry_after=limits.BUSY_SECONDS,
                )
            self._unfinished += 1
            self._jobs.append((time.monotonic(), job))
            if not self._one_by_one or self._threads == self._idle:
                self._help()
            elif self._is_calm:
                self._is_calm = False
                self._is_crowded.notify()

    def leave(self) -> None:
        """Take the calling thread out of the pool: its job goes on without counting here. Once more does nothing."""
        with self._lock:
            if not getattr(self._here, "left", True):
                self._here.left = True
                self._unfinished -= 1
                self._threads -= 1
                del self._begun[threading.get_ident()]
                if self._jobs:
                    self._help()

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        with self._lock:
            self._is_closed = True
            self._there_is_work.notify_all()
            self._is_crowded.notify_all()

    def _help(self) -> None:
        """Have one more thread take jobs, if there may be one more."""
        if self._idle:
            self._idle -= 1
            self._there_is_work.notify()
        elif self._threads < self._most:
            self._threads += 1
            threading.Thread(target=self._work, name=f"omnigraph-{self.name}", daemon=True).start()

    def _work(self) -> None:
        self._here.left = True
        while (job := self._next()) is not None:
            self._here.left = False
            if not self._jobs:
                self._deliver()
            job()
            del job
            if self._here.left:
                return

    def _next(self) -> Job | None:
        me = threading.get_ident()
        with self._lock:
            if not self._here.left:
                self._unfinished -= 1
                self._done += 1
                self._here.left = True
                del self._begun[me]
            while not self._jobs or self._goes_on_without():
                if self._is_closed:
                    self._threads -= 1
                    return None
                self._idle += 1
                self._deliver()
                self._there_is_work.wait()
            self._begun[me] = time.monotonic()
            return self._jobs.popleft()[1]

    def _goes_on_without(self) -> bool:
        """Whether the line moves quickly without one more thread."""
        if not self._one_by_one or not self._begun:
            return False
        now = time.monotonic()
        return now - max(self._begun.values()) < _STANDSTILL and now - self._jobs[0][0] < _LONG_WAIT

    def _watch_line(self) -> None:
        """Call further threads while the line does not move; sleep while there is none."""
        with self._lock:
            while not self._is_closed:
                if not self._jobs:
                    self._is_calm = True
                    self._is_crowded.wait()
                    continue
                done = self._done
                self._is_crowded.wait(_STANDSTILL)
                self._deliver()
                if self._jobs and (self._done == done or time.monotonic() - self._jobs[0][0] > _LONG_WAIT):
                    self._help()
