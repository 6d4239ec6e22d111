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
    found = store.tables.ref(pin.location, own)
    if found is not None and (found.parent_branch, found.parent_version) == (pin.branch, pin.version):
        return own, store.tables.at(pin.location, own, pin.version)
    try:
        if found is None:
            return own, _fork(store, pin, own)
    except StorageError:
        pass  # another writer was here, or one that died halfway: its files have this name
    fresh = ids.new_lineage(snapshot.lineage)
    handle = _fork(store, pin, fresh)
    store.forks[place] = fresh  # whoever staged files on it finds it again
    return fresh, handle


def _fork(store: GraphStore, pin: Pin, lineage: str) -> Handle:
    failpoints.reach("fork.before_create")
    handle = store.tables.fork(pin.location, lineage, pin.branch, pin.version)
    failpoints.reach("fork.post_create_pre_open")
    return handle
