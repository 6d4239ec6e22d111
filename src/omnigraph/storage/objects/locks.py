"""The commit section: at most one process at a time commits to a branch.

On a local disk it is a file lock, which the kernel frees when its process dies. On an object store it is a lease: one
object with an owner, an expiry and an epoch that only grows, taken by a conditional put and never removed. Inside one
process a plain lock comes first, shared by all handles on the same graph. Safety never rests on the section: it only
saves work. A late owner goes on beside the next one, and the store decides between them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from omnigraph import ids, limits
from omnigraph.errors import CorruptGraph, LockTimeout, StorageError
from omnigraph.logs import WAITS
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.objects.object_store import Location, ObjectStore


@dataclass(slots=True)
class _Watched:
    """A lease of somebody else as it was seen first."""

    tag: str
    since: float


class Lease:
    """One named lease, reused by the process for every section it takes."""

    def __init__(self, objects: ObjectStore, path: str) -> None:
        self._objects = objects
        self._path = path
        self._owner = f"{ids.new_ulid()}"
        self._tag: str | None = None
        self._epoch = 0
        self._held = False

    @property
    def epoch(self) -> int:
        return self._epoch

    def acquire(self, deadline: float) -> None:
        """Wait for the lease until the deadline (monotonic seconds)."""
        if self._tag is not None and self._put(self._epoch + 1, self._tag):
            return
        watched: _Watched | None = None
        started = time.monotonic()
        while True:
            watched = self._try(watched)
            if watched is None:
                return
            if time.monotonic() > deadline:
                raise LockTimeout(
                    f"another writer holds {self._path}",
                    hint="retry, or raise OMNIGRAPH_LOCK_TIMEOUT",
                    path=self._path,
                )
            WAITS.debug("waiting for the lease %s", self._path)
            pause = look_again_after(time.monotonic() - started)
            time.sleep(random.uniform(pause / 2, pause))

    def is_held(self) -> bool:
        """Whether nobody took the lease since it was acquired: a conditional put, which also renews it."""
        try:
            self._held = self._tag is not None and self._put(self._epoch + 1, self._tag)
        except StorageError:
            self._held = False
        return self._held

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Renew the lease while the block runs, for work that takes longer than a lease lasts."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(limits.lease_seconds() / 3) and self.is_held():
                continue

        thread = threading.Thread(target=renew, name="omnigraph-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def release(self) -> None:
        """Give it back. A lease that was lost meanwhile stays with its new owner.

        A store that does not take it back fails nothing: what was done under the lease is done, and it ends by itself.
        """
        if not self._held or self._tag is None:
            return
        self._held = False
        tag, self._tag = self._tag, None
        with contextlib.suppress(StorageError):
            self._tag = self._objects.replace(self._path, _record(None, self._epoch), tag)

    def _try(self, watched: _Watched | None) -> _Watched | None:
        """One attempt. None means success; otherwise the record that is in the way."""
        found = self._objects.read_versioned(self._path)
        if found is None:
            return None if self._put(1, None) else _Watched("", time.monotonic())
        record, tag = _parse(found[0], self._path), found[1]
        if watched is None or watched.tag != tag:
            watched = _Watched(tag, time.monotonic())
        expired = time.monotonic() - watched.since > float(record.get("seconds", limits.lease_seconds()))
        # Our own name means that the answer to our last request was lost: nobody else holds it.
        free = record.get("owner") in (None, self._owner) or expired or _died_here(record)
        return None if free and self._put(int(record["epoch"]) + 1, tag) else watched

    def _put(self, epoch: int, tag: str | None) -> bool:
        content = _record(self._owner, epoch)
        new = (
            self._objects.create(self._path, content)
            if tag is None
            else self._objects.replace(self._path, content, tag)
        )
        self._tag = new
        if new is None:
            return False
        self._epoch, self._held = epoch, True
        return True


def look_again_after(waited: float) -> float:
    """Seconds until somebody who has waited so long looks again.

    Soon at first, because a section is short. Then less often, to spare the store; and ever more often after a second:
    a busy writer leaves the lease free for moments only, and the one who looks most often finds them. Otherwise the
    last owner, who knows when it let go, would take it again and again.
    """
    shortest, longest = limits.LEASE_POLL_SECONDS
    return max(shortest, min(shortest + waited / 4, longest / max(waited, 1.0)))


def _record(owner: str | None, epoch: int) -> bytes:
    return json.dumps(
        {
            "owner": owner,
            "epoch": epoch,
            "seconds": limits.lease_seconds(),
            "pid": os.getpid(),
            "host": _machine(),
            "started": _started(os.getpid()),
        }
    ).encode()


def _parse(content: bytes, path: str) -> dict[str, Any]:
    try:
        record = json.loads(content)
        int(record["epoch"])
        return dict(record)
    except (ValueError, KeyError, TypeError):
        raise CorruptGraph(f"the lease {path} is unreadable", hint="remove it when no writer is running") from None


def _died_here(record: dict[str, Any]) -> bool:
    """Whether the owner was a process of this machine that is gone."""
    pid = record.get("pid")
    return record.get("host") == _machine() and isinstance(pid, int) and _started(pid) != record.get("started")


@cache
def _machine() -> str:
    """Names this boot of this machine and its process namespace: the space in which a pid means something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"unknown/{ids.new_ulid()}"


def _started(pid: int) -> str | None:
    """Start time of a process in kernel ticks, so that a reused pid is another process; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    except OSError:
        return None


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
    """The fence of a file lock."""

    epoch: int = 0

    def is_held(self) -> bool:
        """A held file lock cannot be lost."""
        return True

    def kept(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class Sections:
    """The sections of one graph."""

    def __init__(self, location: Location, objects: ObjectStore) -> None:
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
            WAITS.debug("waiting for the commit section of branch '%s'", branch)
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
