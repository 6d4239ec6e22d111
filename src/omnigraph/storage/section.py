"""The commit section: at most one process at a time commits to a branch.

On a local disk it is a file lock, which the kernel frees when its process dies. On an object store it is a lease (see
`lease.py`). Inside one process a plain lock comes first, shared by all handles on the same graph. Safety never rests
on the section: it only saves work. Whoever is late goes on beside the next owner, and the store decides between them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from omnigraph import limits
from omnigraph.errors import LockTimeout
from omnigraph.storage.faults import store_errors
from omnigraph.storage.lease import Lease
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

RECOVERY_DIRECTORY = "__recovery"

#: Name of the section that branch control and schema changes take before those of the branches they touch.
CONTROL = "/control"  # no branch can have this name


class Fence(Protocol):
    """What is known of an owned section."""

    @property
    def epoch(self) -> int:
        """Grows with every new owner of a lease; 0 where the kernel guards the section."""

    def is_held(self) -> bool:
        """Whether nobody else was in the section since it was taken. Asks the store; False when it does not answer."""

    def kept(self) -> AbstractContextManager[None]:
        """Inside, the section does not end by itself, however long the block takes."""


@dataclass(frozen=True, slots=True)
class _KernelFence:
    epoch: int = 0

    def is_held(self) -> bool:
        """A held file lock cannot be lost."""
        return True

    def kept(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class Sections:
    """The sections of one graph."""

    def __init__(self, location: Location, objects: Objects) -> None:
        self._location = location
        self._objects = objects
        self._leases: dict[str, Lease] = {}

    @contextlib.contextmanager
    def hold(self, branch: str) -> Iterator[Fence]:
        """Own the commit section of a branch (or `CONTROL`) until the block ends."""
        name = "control" if branch == CONTROL else f"branch.{branch.replace('/', '~')}"
        deadline = time.monotonic() + limits.lock_timeout_seconds()
        local = _process_lock(f"{self._location.uri}#{name}")
        if not local.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise _timeout(branch)
        try:
            if self._location.is_local:
                path = self._location.child(f"{RECOVERY_DIRECTORY}/{name}.lock")
                with _file_lock(path, branch, deadline), _inside(name):
                    yield _KernelFence()
            else:
                lease = self._leases.setdefault(name, Lease(self._objects, f"{RECOVERY_DIRECTORY}/{name}.lease"))
                lease.acquire(deadline)
                try:
                    with _inside(name):
                        yield lease
                finally:
                    lease.release()
        finally:
            local.release()


_held: list[str] = []


def is_held() -> bool:
    """Whether this process is inside any section. Stopping there is safe, but leaves work for whoever comes next."""
    return bool(_held)


@contextlib.contextmanager
def _inside(name: str) -> Iterator[None]:
    _held.append(name)
    try:
        yield
    finally:
        _held.remove(name)


_process_locks: dict[str, threading.Lock] = {}
_registry = threading.Lock()


def _process_lock(key: str) -> threading.Lock:
    with _registry:
        return _process_locks.setdefault(key, threading.Lock())


@contextlib.contextmanager
def _file_lock(path: str, branch: str, deadline: float) -> Iterator[None]:
    with store_errors(f"lock {path}"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    _locked.add(descriptor)
    try:
        pause = 0.0005
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > deadline:
                raise _timeout(branch, path)
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 2, 0.01)
        yield
    finally:
        if descriptor in _locked:  # a forked child has none
            _locked.remove(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough while a child holds a copy
            os.close(descriptor)


_locked: set[int] = set()


def _leave_locks_to_the_parent() -> None:
    """A child that was forked inside a section would hold its lock as long as it lives."""
    for descriptor in _locked:
        os.close(descriptor)
    _locked.clear()


os.register_at_fork(after_in_child=_leave_locks_to_the_parent)


def _timeout(branch: str, path: str | None = None) -> LockTimeout:
    """The error of somebody who waited in vain. On a disk a stopped process keeps its lock: it is named."""
    holder = _holder(path) if path is not None else None
    who = "another writer" if holder is None else f"process {holder}"
    waited = f"for more than {limits.lock_timeout_seconds():g} s"
    hint = "retry, or raise OMNIGRAPH_LOCK_TIMEOUT"
    return LockTimeout(
        f"{who} has held branch '{branch}' {waited}",
        hint=hint if holder is None else f"{hint}; if it is stopped, continue or end it",
        branch=branch,
        **({} if holder is None else {"pid": holder}),
    )


def _holder(path: str) -> int | None:
    """The process that has a file locked; None where the kernel does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        inode = str(os.stat(path).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode and int(fields[4]) > 0:
                return int(fields[4])
    return None
