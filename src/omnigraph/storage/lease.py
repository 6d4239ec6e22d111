"""A lease on an object store: one owner, an expiry, and an epoch that only grows.

The object is never removed; releasing it writes an empty owner. Taking it is a conditional put, so two takers cannot
both win. A crashed owner on this machine is recognised at once; one elsewhere when the same record has been watched
unchanged for its whole life, which needs no agreement between clocks. An owner that was only slow may still be at work
then: a lease keeps writers out of each other's way, it makes nothing safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omnigraph import ids, limits
from omnigraph.errors import CorruptGraph, LockTimeout, StorageError
from omnigraph.storage.objects import Objects


@dataclass(slots=True)
class _Watched:
    tag: str
    since: float


class Lease:
    """One named lease, reused by the process for every section it takes."""

    def __init__(self, objects: Objects, path: str) -> None:
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
