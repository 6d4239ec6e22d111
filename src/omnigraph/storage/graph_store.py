"""One graph's storage: its objects, tables and sections, and the newest snapshot of each branch.

`snapshot` always looks at the store, because another process may have published; it only spares reading again what it
already knows. Nothing here writes, except migrations of the layout on request.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph import ids, limits
from omnigraph.errors import (
    BranchNotFound,
    CorruptGraph,
    GraphNotFound,
    HistoricalVersionReclaimed,
    OmniGraphError,
    StorageError,
)
from omnigraph.storage.metadata import commit_log, manifest, migrate
from omnigraph.storage.metadata.branch_entries import BranchEntries, BranchEntry
from omnigraph.storage.metadata.commit_mirror import Mirror
from omnigraph.storage.metadata.holds import Hold, Kind, lease
from omnigraph.storage.metadata.lasting_reads import READS
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, read_snapshot, table_version_of
from omnigraph.storage.objects.locks import Sections
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.storage.tables.datasets import Tables, TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.recent_changes import RecentChanges

if TYPE_CHECKING:
    from omnigraph.storage.commit.publish import Publisher
    from omnigraph.storage.metadata.manifest import Commit
    from omnigraph.storage.store_guard import StoreGuard

_VERSIONS = 2**63  # no table has so many


@dataclass(frozen=True, slots=True)
class BranchRef:
    """The file that makes a branch exist.

    Attributes:
        identity: changes when a branch is deleted and made again under the same name.
        parent: branch it was made from; None for main.
        parent_version: manifest version it was made from; lower numbers are versions of the parent.
        lineage: its Lance branch of the manifest; None for main.
        formerly: names that it had before it was renamed.
    """

    name: str
    identity: str
    parent: str | None
    parent_version: int = 0
    lineage: str | None = None
    formerly: tuple[str, ...] = ()


_MAIN = BranchRef(ids.MAIN, ids.MAIN, None)


class GraphStore:
    """Storage of one graph, shared by every handle and thread of a process that opened it.

    Attributes:
        guard: what its user may see and do; None for everything.
    """

    guard: StoreGuard | None = None

    def __init__(self, location: Location, *, writes: bool = True) -> None:
        self.location = location
        self._writes = writes
        self.objects = ObjectStore(location)
        self.tables = Tables(location)
        self.recent_changes = RecentChanges()
        self.entries = BranchEntries(self.objects)
        self.sections = Sections(location, self.objects)
        self.mirror = Mirror(self.tables, self.sections, self._is_current)
        self.forks: dict[tuple[TableVersion, str], str] = {}
        self._newest: dict[str, ManifestSnapshot] = {}
        self._lock = threading.Lock()

    @cached_property
    def publisher(self) -> Publisher:
        """What makes a change visible; a process that only reads never asks for it."""
        from omnigraph.storage.commit.publish import Publisher

        return Publisher(self)

    def guarded(self, guard: StoreGuard) -> GraphStore:
        """The same store for somebody who may not see or do everything."""
        found = copy.copy(self)
        found.guard = guard
        return found

    @property
    def unguarded(self) -> GraphStore:
        """The same store for work that is done for several users together; what each may do is asked of their own."""
        if self.guard is None:
            return self
        found = copy.copy(self)
        found.guard = None
        return found

    def require(self, action: str, branch: str | None = None, target: str | None = None) -> None:
        """Refuse an action that is part of another one, if its user may not do it."""
        if self.guard is not None:
            self.guard.require(action, branch, target)

    def sees(self, branch: str) -> bool:
        """Whether its user may know of a branch."""
        return self.guard is None or self.guard.sees(branch)

    def seen(self, snapshot: ManifestSnapshot) -> ManifestSnapshot:
        """A state without what its user may not see."""
        return snapshot if self.guard is None else self.guard.seen(snapshot)

    def named(self, snapshot: ManifestSnapshot) -> ManifestSnapshot:
        """A state with the tables that a write of its user may name."""
        return snapshot if self.guard is None else self.guard.named(snapshot)

    def permit(self, table_keys: Iterable[str]) -> None:
        """Refuse to change tables that its user may not change."""
        if self.guard is not None:
            self.guard.permit(table_keys)

    def told(self, commit: Commit) -> Commit:
        """A commit as its user may see it."""
        return commit if self.guard is None else self.guard.told(commit)

    def snapshot(self, branch: str) -> ManifestSnapshot:
        """The newest published state of a branch."""
        return self.refresh(branch)

    def head_id(self, snapshot: ManifestSnapshot) -> str:
        """Id of the newest commit of a snapshot; free when the last publish was ours."""
        head = snapshot.head
        own = head is not None and head.version == snapshot.version
        return head.commit_id if head is not None and own else commit_log.head_commit(self.tables, snapshot).id

    def refresh(self, branch: str, *, migrate_layout: bool = False) -> ManifestSnapshot:
        """The newest state, and on request in the current layout: the stamp is per branch, so each is migrated."""
        return self.seen(self._newest_of(branch, migrate_layout=migrate_layout))

    def _newest_of(self, branch: str, *, migrate_layout: bool) -> ManifestSnapshot:
        ref = self.branch_ref(branch)
        with self._lock:
            known = self._newest.get(branch)
        if known and known.identity == ref.identity and self._is_newest(known):
            return known
        snapshot = self.read_lineage(ref, known, migrate_layout=migrate_layout)
        handle = snapshot.handle
        if manifest.stamp_of(handle) == limits.INTERNAL_SCHEMA_VERSION:
            self.adopt(snapshot)
        return snapshot

    def read_lineage(
        self, ref: BranchRef, known: ManifestSnapshot | None = None, *, migrate_layout: bool = False
    ) -> ManifestSnapshot:
        """The newest state on the lineage of a branch, as the store has it, also of a branch that is deleted.

        Args:
            known: an older state of this name, if one is at hand.
        """
        handle = self._manifest_after(ref, known) if known and ref.lineage is None else self._newest_manifest(ref)
        if known and known.identity == ref.identity and handle.version < known.version:
            raise CorruptGraph(
                f"version {known.version} of table {manifest.PATH} is missing, which branch '{ref.name}' had; "
                f"the newest is {handle.version}",
                branch=ref.name,
                version=known.version,
            )
        if migrate_layout and manifest.stamp_of(handle) < limits.INTERNAL_SCHEMA_VERSION:
            handle = migrate.to_current(self.tables, handle, ref.lineage)
        return _read(handle, ref)

    def _manifest_after(self, ref: BranchRef, known: ManifestSnapshot) -> LanceTable:
        """The newest manifest of main by the number of its version; looking for the newest of many takes longer."""
        with contextlib.suppress(HistoricalVersionReclaimed), store_errors("look at the manifest"):
            newest = self.tables.newest_number(manifest.PATH, None, known.handle)
            return self.tables.at(TableVersion(manifest.PATH, None, newest, known.identity))
        return self._newest_manifest(ref)

    def _is_newest(self, snapshot: ManifestSnapshot) -> bool:
        with store_errors("look at the manifest"):
            return self.tables.newest_number(manifest.PATH, snapshot.lineage, snapshot.handle) == snapshot.version

    def _is_current(self, snapshot: ManifestSnapshot) -> bool:
        """Whether the branch of a state still exists, and is not another one of its name."""
        try:
            return self.branch_ref(snapshot.branch).identity == snapshot.identity
        except BranchNotFound:
            return False

    def adopt(self, snapshot: ManifestSnapshot) -> None:
        """Remember the newest snapshot of a branch, so that nobody needs to read it back."""
        with self._lock:
            self._newest[snapshot.branch] = snapshot

    def adopt_fork(self, entry: BranchEntry, source: ManifestSnapshot, handle: LanceTable) -> None:
        """Remember the first state of a branch that was just made from a state in the current layout: it is the same,
        row by row, in the same fragments."""
        if handle.version == source.version:
            first = replace(source, branch=entry.name, handle=handle, identity=entry.identity, lineage=entry.lineage)
            self.adopt(first)

    def snapshot_at(self, branch: str, version: int) -> ManifestSnapshot:
        """The state of a branch at one manifest version."""
        return self.state_on(self.branch_ref(branch), version)

    def state_on(self, ref: BranchRef, version: int) -> ManifestSnapshot:
        """The state on the lineage of a branch at one manifest version."""
        with self._lock:
            known = self._newest.get(ref.name)
        is_known = known is not None and (known.identity, known.version) == (ref.identity, version)
        return self.seen(known if known and is_known else _read(self._manifest_at(ref, version), ref))

    def _manifest_at(self, ref: BranchRef, version: int) -> LanceTable:
        try:
            if 0 < version < _VERSIONS:
                return self.tables.at(TableVersion(manifest.PATH, ref.lineage, version, ref.identity))
        except HistoricalVersionReclaimed:
            if version <= self._newest_manifest(ref).version:
                raise HistoricalVersionReclaimed(
                    f"version {version} of branch '{ref.name}' is no longer stored",
                    hint="choose a newer commit",
                    branch=ref.name,
                    version=version,
                ) from None
        raise HistoricalVersionReclaimed(f"branch '{ref.name}' has no version {version}", version=version)

    def table(self, pin: Pin) -> LanceTable:
        """The table that a pin names.

        Raises:
            CorruptGraph: a newest state shows it, and it is missing.
            HistoricalVersionReclaimed: only old states had it. Names the type, not the file.
        """
        try:
            return self.tables.at(table_version_of(pin))
        except HistoricalVersionReclaimed as error:
            name = pin.table_key.partition(":")[2]
            if self._is_shown(pin):
                raise CorruptGraph(
                    f"version {pin.version} of table {pin.location}, which holds the rows of type '{name}', is missing",
                    type=name,
                    version=pin.version,
                ) from error
            raise HistoricalVersionReclaimed(
                f"the rows of type '{name}' are no longer stored",
                hint="choose a newer commit",
                type=name,
                version=pin.version,
            ) from None

    def _is_shown(self, pin: Pin) -> bool:
        """Whether the newest state of main, or of a branch that somebody looked at, has this version of a table."""
        for branch in {ids.MAIN, *self._newest}:
            with contextlib.suppress(OmniGraphError):
                if self.snapshot(branch).pins.get(pin.table_key) == pin:
                    return True
        return False

    def branch_ref(self, branch: str) -> BranchRef:
        """The ref of a branch, or BranchNotFound. Its entry is the authority; leftover directories mean nothing."""
        if branch == ids.MAIN:
            return _MAIN
        found = self.entries.read(branch)
        if found is not None and found[0].state == "live":
            return ref_of(found[0])
        ref = self.tables.ref(manifest.PATH, branch) if found is None else None
        if ref is None:
            raise _no_branch(branch)
        return BranchRef(branch, ref.identity, _owner(ref.parent_branch), ref.parent_version, branch)

    def branches_called(self, name: str) -> Iterator[BranchRef]:
        """The branch of a name, then those that had it before they were renamed."""
        with contextlib.suppress(BranchNotFound):
            yield self.branch_ref(name)
        if name != ids.MAIN:
            yield from (ref for ref in self.branch_refs() if name in ref.formerly)

    def has_branch(self, branch: str) -> bool:
        try:
            self.branch_ref(branch)
        except BranchNotFound:
            return False
        return True

    def has_branches(self) -> bool:
        """Whether any branch but main exists or is being made."""
        if self.tables.branch_names(manifest.PATH):
            return True
        found = (self.entries.read(name) for name in self.entries.names())
        return any(entry is not None and entry[0].state != "deleted" for entry in found)

    def branch_refs(self) -> list[BranchRef]:
        """Every branch: main first, then by name, internal ones included. Parents have the names of today."""
        listed = self.tables.branches(manifest.PATH)
        entered = set(self.entries.names()) if listed else set()
        refs = {
            name: BranchRef(name, str(ref["branch_identifier"]), None, int(ref["parent_version"]), name)
            for name, ref in listed.items()
            if name not in entered and ids.lineage_owner(name) is None
        }
        refs |= {str(ref.lineage): ref for ref in self._entered(listed.keys() - refs.keys(), entered)}
        names = {None: ids.MAIN} | {lineage: ref.name for lineage, ref in refs.items()}
        parents = {lineage: listed[lineage]["parent_branch"] for lineage in refs}
        found = [
            replace(ref, parent=names.get(parents[lineage]) or ref.parent or _owner(parents[lineage]))
            for lineage, ref in refs.items()
        ]
        return [_MAIN, *sorted(found, key=lambda each: each.name)]

    def _entered(self, lineages: AbstractSet[str], names: AbstractSet[str]) -> Iterator[BranchRef]:
        """The branches of some lineages by the entries of names. A branch is called like its lineage unless it was
        renamed, so the entries of other names are hardly ever read."""
        left = set(lineages)
        likely = names & {_owner(lineage) for lineage in lineages}
        for some in (sorted(likely), sorted(names - likely)):
            for name in some if left else ():
                found = self.entries.read(name)
                if found is not None and found[0].state == "live" and found[0].lineage in left:
                    left.discard(found[0].lineage)
                    yield ref_of(found[0])

    def lease(self, state: ManifestSnapshot, kind: Kind) -> Hold | None:
        """Ask that cleanups leave a state alone while somebody reads it; None where that cannot be had: for a handle
        that writes nothing, in a place that is only readable, or when the state was given up already. Whoever reads on
        learns it when files are gone."""
        if not self._writes:
            return None
        with contextlib.suppress(HistoricalVersionReclaimed, StorageError):
            return lease(self.location, self.objects, state, kind)
        return None

    @contextlib.contextmanager
    def lasting(self, state: ManifestSnapshot, kind: Kind) -> Iterator[None]:
        """Inside the block a state is read. If that takes long, cleanups leave it alone from then on."""
        end = self.begin_read(state, kind)
        try:
            yield
        finally:
            if end is not None:
                end()

    def begin_read(self, state: ManifestSnapshot, kind: Kind) -> Callable[[], None] | None:
        """The same for a read that ends when what is returned is called; None for a handle that writes nothing."""
        return READS.begin(lambda: self.lease(state, kind)) if self._writes else None

    def take_unfinished_names(self) -> None:
        """Stop branches that are being made: nobody can tell yet which state they will show. Whoever makes one finds
        its entry changed and begins again. On a disk the section of branch control keeps them out."""
        for name in () if self.location.is_local else self.entries.names():
            found = self.entries.read(name)
            if found is not None and found[0].state == "making" and not found[0].formerly:
                self.entries.put(replace(found[0], state="deleted"), found[1])

    def forget_branch(self, branch: str) -> None:
        with self._lock:
            self._newest.pop(branch, None)

    def _newest_manifest(self, ref: BranchRef) -> LanceTable:
        handle = self.tables.newest_or_none(manifest.PATH, ref.lineage)
        if handle is None:
            if ref.name == ids.MAIN:
                raise GraphNotFound(
                    f"there is no graph at {self.location.uri}", hint="create one with init", uri=self.location.uri
                )
            raise _no_branch(ref.name)
        return handle


def ref_of(entry: BranchEntry) -> BranchRef:
    return BranchRef(entry.name, entry.identity, entry.parent, entry.parent_version, entry.lineage, entry.formerly)


def _read(handle: LanceTable, ref: BranchRef) -> ManifestSnapshot:
    with store_errors("read the manifest", handle):
        return replace(read_snapshot(handle, ref.name), identity=ref.identity, lineage=ref.lineage)


def _owner(lineage: str | None) -> str:
    """The branch that a lineage of the manifest belongs to."""
    return ids.MAIN if lineage is None else ids.lineage_owner(lineage) or lineage


def _no_branch(branch: str) -> BranchNotFound:
    return BranchNotFound(f"there is no branch '{branch}'", hint="list them with branches.list()", branch=branch)
