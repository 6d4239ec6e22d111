"""What somebody needs for a while: a lease on an old state, or a claim on files that are staged and not published.

One small object each, which its owner renews and removes. The store's own clock says when it was renewed last; one that
was not for longer than it says has expired, and a cleanup may remove it. Nothing is safe because of that clock: a lease
is entered before its owner looks whether the state was given up, and whoever reads a state without one finds its files
gone, never other rows. A claim is entered before the first file is staged, and looked for again after the head was read
that the files are published on; a cleanup that removed it has moved that head.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from omnigraph import ids, limits
from omnigraph.errors import CleanupRefused, HistoricalVersionReclaimed, ReadSetChanged, StorageError
from omnigraph.storage.metadata import reclaimed
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.file_sizes import listed_files
from omnigraph.storage.objects.object_store import Location, ObjectStore

LEASES = f"{reclaimed.DIRECTORY}/leases"
CLAIMS = f"{reclaimed.DIRECTORY}/claims"

Kind: TypeAlias = Literal["snapshot", "export", "baseline", "query", "merge", "spark", "copy", "load"]


@dataclass(frozen=True, slots=True)
class HeldState:
    """A lease as a cleanup finds it.

    Attributes:
        lineage: of the manifest; None is the main one.
        version: None means everything that the graph has, which a copy of it needs.
    """

    kind: str
    lineage: str | None
    identity: str
    version: int | None


class Hold:
    """A lease or a claim that is being kept. `release` it, or let the process end."""

    def __init__(self, location: Location, objects: ObjectStore, path: str, content: bytes, tag: str) -> None:
        self.path = path
        self._location = location
        self._objects = objects
        self._content = content
        self._tag = tag
        self._ended = threading.Event()

    def is_there(self) -> bool:
        """Whether nobody removed it, as the store says."""
        return self._objects.read(self.path) is not None

    def leave(self) -> None:
        """Renew it no longer; others may."""
        self._ended.set()

    def release(self) -> None:
        """Nobody needs it any more. A store that does not answer forgets it by itself."""
        self._ended.set()
        with contextlib.suppress(StorageError):
            self._objects.delete(self.path)

    def _renew(self) -> bool:
        """Say that it is still needed; False when it is gone. Never brings back one that was removed."""
        if self._location.is_local:
            try:
                os.utime(self._location.child(self.path))
            except FileNotFoundError:
                return False
            return True
        tag = self._objects.replace(self.path, self._content, self._tag)
        self._tag = tag or self._tag
        return tag is not None

    def keep_alive(self) -> None:
        """Renew it in the background until it is released, or gone."""
        ended, this = self._ended, weakref.ref(self)

        def renew() -> None:
            while not ended.wait(limits.hold_seconds() / 3):
                hold = this()
                if hold is None:
                    return
                with contextlib.suppress(StorageError):
                    if not hold._renew():
                        return

        threading.Thread(target=renew, name="omnigraph-hold", daemon=True).start()


def lease(location: Location, objects: ObjectStore, state: ManifestSnapshot, kind: Kind) -> Hold:
    """Ask that a state stays.

    Raises:
        HistoricalVersionReclaimed: a cleanup gave it up.
    """
    values = {"lineage": state.lineage, "identity": state.identity, "version": state.version}
    hold = _enter(location, objects, LEASES, {"kind": kind, **values})
    try:
        reclaimed.require_kept(objects, state)
    except (HistoricalVersionReclaimed, StorageError):
        hold.release()
        raise
    return hold


def lease_everything(location: Location, objects: ObjectStore) -> Hold:
    """Ask that everything stays that the graph has now, for a copy of it. What was given up already may go."""
    return _enter(location, objects, LEASES, {"kind": "copy", "lineage": None, "identity": "", "version": None})


@contextlib.contextmanager
def holding(hold: Hold | None) -> Iterator[None]:
    """Inside the block something is held; None holds nothing."""
    try:
        yield
    finally:
        if hold is not None:
            hold.release()


def claim(location: Location, objects: ObjectStore, base: ManifestSnapshot) -> str:
    """Ask that files stay which are staged from now on, and the state that they are made for; returns the path of the
    claim. Keep it with `kept`."""
    values = {"lineage": base.lineage, "identity": base.identity, "version": base.version}
    return _enter(location, objects, CLAIMS, {"kind": "load", **values}, renews=False).path


def lease_for_others(location: Location, objects: ObjectStore, state: ManifestSnapshot) -> str | None:
    """A lease that other processes renew while they read, with `kept`; None where none can be had."""
    try:
        hold = lease(location, objects, state, "spark")
    except (HistoricalVersionReclaimed, StorageError):
        return None
    hold.leave()
    return hold.path


def kept(location: Location, objects: ObjectStore, path: str) -> Hold | None:
    """A lease or a claim that somebody made, kept from now on; None when it is gone."""
    found = objects.read_versioned(path)
    if found is None:
        return None
    hold = Hold(location, objects, path, *found)
    hold.keep_alive()
    return hold


def require_claim(objects: ObjectStore, path: str) -> None:
    """Refuse to publish files whose claim is gone. Call it after the head was read that they are published on.

    Raises:
        ReadSetChanged: a cleanup may have removed the files.
    """
    if objects.read(path) is None:
        raise ReadSetChanged("the files that the load staged", "claimed", "given up, because the claim had expired")


def held_states(location: Location, objects: ObjectStore) -> list[HeldState]:
    """The states of leases and claims that have not expired."""
    found = []
    for held in (each for directory in (LEASES, CLAIMS) for each in _held(location, objects, directory)):
        values = held.values
        version = None if values["version"] is None else int(values["version"])
        if not held.expired:
            found.append(HeldState(str(values["kind"]), values.get("lineage"), str(values.get("identity")), version))
    return found


def has_claims(location: Location, objects: ObjectStore) -> bool:
    """Whether somebody is staging files."""
    return any(not held.expired for held in _held(location, objects, CLAIMS))


def remove_expired(location: Location, objects: ObjectStore) -> bool:
    """Remove leases and claims that have expired; True when claims are left. A claim that is removed here is never
    there again, so its owner learns it, and one that is left is seen."""
    left = False
    for directory in (LEASES, CLAIMS):
        for held in _held(location, objects, directory):
            if held.expired:
                objects.delete(held.path)
            else:
                left = left or directory == CLAIMS
    return left


def _enter(
    location: Location, objects: ObjectStore, directory: str, values: dict[str, Any], *, renews: bool = True
) -> Hold:
    path = f"{directory}/{ids.new_ulid()}.json"
    content = json.dumps({**values, "seconds": limits.hold_seconds(), "pid": os.getpid()}).encode()
    tag = objects.create(path, content)
    hold = Hold(location, objects, path, content, tag or "")
    if renews:
        hold.keep_alive()
    return hold


@dataclass(frozen=True, slots=True)
class _Held:
    """An object as it lies there."""

    path: str
    values: dict[str, Any]
    expired: bool


def _held(location: Location, objects: ObjectStore, directory: str) -> Iterator[_Held]:
    now = time.time()
    for file in listed_files(location, directory):
        values = _values(objects, file.path) if file.path.endswith(".json") else None
        if values is not None:
            yield _Held(file.path, values, now - file.modified > float(values["seconds"]))


def _values(objects: ObjectStore, path: str) -> dict[str, Any] | None:
    """What an object says; None when it was removed meanwhile."""
    content = objects.read(path)
    if content is None:
        return None
    try:
        values = json.loads(content)
        if isinstance(values, dict) and {"kind", "version", "seconds"} <= values.keys():
            return values
    except ValueError:
        pass
    raise CleanupRefused(f"{path} is unreadable", hint="remove it when nobody needs it", file=path)
