"""The preparation of a write: the state it is computed on, and everything that one publish will show of it.

A `Workspace` gives the tables of a state to read and to stage on. `Prepared` is staged and not yet visible; all of it
goes into the recovery record too, so that whoever comes after a crash publishes exactly the same.

The first write of a branch to a table gives the table a Lance branch of its own. Forking copies nothing and shows
nothing: until a publish names it, the fork is invisible, so it needs no section and no record, and it may come at any
later time. It has the name of the branch's own lineage, or a fresh one where that is taken. Nothing is removed here:
unused forks are for cleanup.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from omnigraph import failpoints, ids, limits
from omnigraph.errors import StorageError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.commit_note import RowCounts
from omnigraph.storage.metadata.commit_part import TablePart
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.stage_rows import StagedTransaction

#: What a preparation found out besides the change itself: counts, a plan, rejected rows.
Report_co = TypeVar("Report_co", covariant=True)


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """A staged change of one table.

    Attributes:
        pin: what the graph showed when this was computed. For a table that the write makes, its key and location at
            version 0; for a renamed one the new key with the version and location of the old.
        handle: the table at that pin, on the lineage the commit goes to; None for a table that the write makes.
        reads_rows: the change depends on rows that were there (update, delete, overwrite): a moved pin is a conflict.
    """

    pin: Pin
    handle: LanceTable | None
    staged: StagedTransaction
    reads_rows: bool


@dataclass(frozen=True, slots=True)
class Merged:
    """The other side of a merge.

    Attributes:
        parent: head commit of the source.
        commits: commits of the source that the target does not know yet; their rows are copied, so that the history
            stays whole when the source is deleted.
    """

    parent: str
    commits: tuple[Commit, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The schema that a publish makes the graph's own.

    Attributes:
        hash: of the new schema; recorded in the head row, so that every state knows its schema.
        source, ir, state: texts of the three schema files.
        purge: locations of tables whose older versions are removed once the change is visible.
        remove: locations of tables that are removed wholly then.
    """

    hash: str
    source: str
    ir: str
    state: str
    purge: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitDraft:
    """A commit before it has a parent and a version: minted with the write, so that recovery keeps its author.

    Attributes:
        parts: what it does to its tables, of a commit that others are published with and come after.
    """

    id: str
    actor: str | None
    created_at: datetime
    merged_parent: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    note: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, TablePart] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared(Generic[Report_co]):
    """One publish, and what its preparation reports to the caller of the commit.

    Attributes:
        report: comes back with the commit; belongs to exactly this preparation.
        tables: staged table commits by table key.
        pointers: pins shown as they are, without a table commit: an adopted version, a renamed type.
        pointed: rows that pointers change, where they are known; of table commits they are known anyway.
        tombstones: table keys that disappear, with the version at which they do.
        merged: makes the commit a merge, even if no table moves.
        labels: names and values kept in the commit, e.g. the id of the job that made it.
        made_for: hash of the schema that the change was computed for, recorded where the state itself has none.
        commits: the commits that it makes, in their order, where it makes several; each is the parent of the next.
    """

    report: Report_co
    tables: Mapping[str, PreparedTable] = field(default_factory=dict)
    pointers: Mapping[str, Pin] = field(default_factory=dict)
    pointed: Mapping[str, RowCounts] = field(default_factory=dict)
    tombstones: Mapping[str, int] = field(default_factory=dict)
    merged: Merged | None = None
    schema: SchemaChange | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    made_for: str | None = None
    commits: tuple[CommitDraft, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit; labels alone are no change."""
        return not (self.tables or self.pointers or self.tombstones or self.merged or self.schema)


#: A preparation whose report nobody looks at, for the steps of the protocol.
AnyPrepared = Prepared[Any]


@dataclass(frozen=True, slots=True)
class Workspace:
    """The state a write is computed on, and the tables it may change."""

    store: GraphStore
    snapshot: ManifestSnapshot

    @property
    def threads(self) -> int:
        """How many tables are worked on at once: on a disk that takes processors, on an object store it is waiting."""
        return min(limits.TABLE_THREADS, os.cpu_count() or 1) if self.store.location.is_local else limits.TABLE_THREADS

    def writable(self, table_key: str) -> tuple[Pin, LanceTable]:
        """A table to stage on, and its pin on the lineage that the commit goes to. The first write of a branch to a
        table forks it."""
        pin = self.snapshot.pins[table_key]
        own, handle = writable(self.store, self.snapshot, pin)
        return (pin if own == pin.branch else replace(pin, branch=own)), handle

    def readable(self, table_key: str) -> LanceTable:
        pin = self.snapshot.pins[table_key]
        return self.store.table(pin)


def writable(store: GraphStore, snapshot: ManifestSnapshot, pin: Pin) -> tuple[str | None, LanceTable]:
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


def _forked(store: GraphStore, pin: Pin, lineage: str) -> LanceTable | None:
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
    return handle if content_of(handle) == content_of(store.table(pin)) else None


def content_of(handle: LanceTable) -> list[tuple[int, list[str], str | None]]:
    """What a version consists of. On a disk a branch that was made again has the name and numbers of the former one."""
    return [
        (each.fragment_id, [file.path for file in each.metadata.files], _deletions(each.metadata))
        for each in handle.get_fragments()
    ]


def _deletions(fragment: Any) -> str | None:
    return fragment.deletion_file.path(fragment.id) if fragment.deletion_file is not None else None


def _fork(store: GraphStore, pin: Pin, lineage: str) -> LanceTable:
    failpoints.reach("fork.before_create")
    handle = store.tables.fork(table_version_of(pin), lineage)
    failpoints.reach("fork.post_create_pre_open")
    return handle
