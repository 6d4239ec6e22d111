"""What a write is computed on: one state, and its tables to read and to stage on.

The first write of a branch to a table gives the table a Lance branch of its own. Forking copies nothing and shows
nothing: until a publish names it, the fork is invisible, so it needs no section and no record, and it may come at any
later time. It has the name of the branch's own lineage, or a fresh one where that is taken. Nothing is removed here:
what nobody shows is for cleanup.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from omnigraph import failpoints, ids, limits
from omnigraph.errors import StorageError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.metadata.manifest_snapshot import ManifestSnapshot
from omnigraph.storage.tables.datasets import Handle, TableVersion


@dataclass(frozen=True, slots=True)
class Workspace:
    """The state a write is computed on, and the tables it may change."""

    store: GraphStore
    snapshot: ManifestSnapshot

    @property
    def threads(self) -> int:
        """How many tables are worked on at once: on a disk that takes processors, on an object store it is waiting."""
        return min(limits.TABLE_THREADS, os.cpu_count() or 1) if self.store.location.is_local else limits.TABLE_THREADS

    def writable(self, table_key: str) -> tuple[Pin, Handle]:
        """A table to stage on, and its pin on the lineage that the commit goes to. The first write of a branch to a
        table forks it."""
        pin = self.snapshot.pins[table_key]
        own, handle = writable(self.store, self.snapshot, pin)
        return (pin if own == pin.branch else replace(pin, branch=own)), handle

    def readable(self, table_key: str) -> Handle:
        pin = self.snapshot.pins[table_key]
        return self.store.table(pin)


def writable(store: GraphStore, snapshot: ManifestSnapshot, pin: Pin) -> tuple[str | None, Handle]:
    """A table at its pin, on a lineage that only the snapshot's branch commits to: its name and the table."""
    if snapshot.lineage is None or snapshot.owns(pin.branch):
        return pin.branch, store.table(pin)
    place = (table_version_of(pin), snapshot.identity)
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
    if found is None or (found.parent_branch, found.parent_version) != (pin.branch, pin.version):
        return None
    handle = store.tables.at(TableVersion(pin.location, lineage, pin.version))
    return handle if _content(handle) == _content(store.table(pin)) else None


def _content(handle: Handle) -> list[tuple[int, list[str], str | None]]:
    """What a version consists of. On a disk a branch that was made again has the name and numbers of the former one."""
    return [
        (each.fragment_id, [file.path for file in each.metadata.files], _deletions(each.metadata))
        for each in handle.get_fragments()
    ]


def _deletions(fragment: Any) -> str | None:
    return fragment.deletion_file.path(fragment.id) if fragment.deletion_file is not None else None


def _fork(store: GraphStore, pin: Pin, lineage: str) -> Handle:
    failpoints.reach("fork.before_create")
    handle = store.tables.fork(table_version_of(pin), lineage)
    failpoints.reach("fork.post_create_pre_open")
    return handle
