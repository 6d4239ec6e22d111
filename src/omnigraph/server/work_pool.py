"""`WorkPool`: threads that do the work of requests, so that the event loop never waits for a disk.

A pool is bounded twice: by its threads, and by how many requests may wait for one. A job that turns into a long stream
leaves the pool with its thread, and another thread takes the place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

from omnigraph.errors import TooManyRequests

Job: TypeAlias = Callable[[], None]


class WorkPool:
    """A bounded pool.

    Args:
        threads: jobs that run at once.
        waiting: jobs that may wait besides.
    """

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.name = name
        self._most = threads
        self._waiting = waiting
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0
        self._here = threading.local()

    @property
    def queued(self) -> int:
        """Jobs that wait for a thread."""
        return self._jobs.qsize()

    @property
    def unfinished(self) -> int:
        """Jobs that run or wait."""
        return self._unfinished

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
                )
            self._unfinished += 1
            self._jobs.put(job)
            self._add_thread()

    def leave(self) -> None:
        """Take the calling thread out of the pool: its job goes on without counting here. Once more does nothing."""
        with self._lock:
            if not getattr(self._here, "left", True):
                self._here.left = True
                self._unfinished -= 1
                self._threads -= 1
                self._add_thread()

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _add_thread(self) -> None:
        if self._threads < min(self._most, self._unfinished):
            self._threads += 1
            threading.Thread(target=self._work, name=f"omnigraph-{self.name}", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._here.left = False
            job()
            del job
            with self._lock:
                if self._here.left:
                    return
                self._unfinished -= 1
        with self._lock:
            self._threads -= 1
