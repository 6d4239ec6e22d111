"""First write of a graph branch to a table: the table gets a Lance branch of its own.

Forking copies nothing and shows nothing: until a publish names it, the fork is invisible, so it needs no section and no
record, and it may come at any later time. It has the name of the branch's own lineage, or a fresh one where that is
taken. Nothing is removed here: what nobody shows is for cleanup.
"""

from __future__ import annotations

from omnigraph import failpoints, ids
from omnigraph.errors import StorageError
from omnigraph.storage.manifest import Pin
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle


def writable(store: GraphStore, snapshot: Snapshot, pin: Pin) -> tuple[str | None, Handle]:
    """A table at its pin, on a lineage that only the snapshot's branch commits to: its name and the table."""
    if snapshot.lineage is None or snapshot.owns(pin.branch):
        return pin.branch, store.tables.at(pin.location, pin.branch, pin.version, pin.origin)
    place = (pin.location, pin.branch, pin.version, snapshot.identity)
    own = store.forks.get(place, snapshot.lineage)
    handle = _forked(store, pin, own)
    if handle is None:
        own = ids.new_lineage(snapshot.lineage)
        handle = _fork(store, pin, own)
        store.forks[place] = own  # whoever staged files on it finds it again
    return own, handle


def _forked(store: GraphStore, pin: Pin, lineage: str) -> Handle | None:
    """The fork of this name that begins at the pin, made if need be; None when another one has the name."""
    found = store.tables.ref(pin.location, lineage)
    if found is None:
        try:
            return _fork(store, pin, lineage)
        except StorageError:
            found = store.tables.ref(pin.location, lineage)
            if found is None and not store.objects.any_below(f"{pin.location}/tree/{lineage}"):
                raise
    begins = found is not None and (found.parent_branch, found.parent_version) == (pin.branch, pin.version)
    return store.tables.at(pin.location, lineage, pin.version) if begins else None


def _fork(store: GraphStore, pin: Pin, lineage: str) -> Handle:
    failpoints.reach("fork.before_create")
    handle = store.tables.fork(pin.location, lineage, pin.branch, pin.version)
    failpoints.reach("fork.post_create_pre_open")
    return handle
