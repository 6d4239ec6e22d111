"""One graph's storage: its objects, tables and sections, and the newest snapshot of each branch.

`snapshot` always looks at the store, because another process may have published; it only spares reading again what it
already knows. Nothing here writes, except migrations of the layout on request.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace

from omnigraph import ids, limits
from omnigraph.errors import (
    BranchNotFound,
    CorruptGraph,
    GraphNotFound,
    HistoricalVersionReclaimed,
    OmniGraphError,
)
from omnigraph.storage import manifest, migrate
from omnigraph.storage.effects import Effects
from omnigraph.storage.faults import store_errors
from omnigraph.storage.location import Location
from omnigraph.storage.manifest import Pin
from omnigraph.storage.mirror import Mirror
from omnigraph.storage.objects import Objects
from omnigraph.storage.section import Sections
from omnigraph.storage.snapshot import Snapshot, read_snapshot
from omnigraph.storage.tables import Handle, Tables

_VERSIONS = 2**63  # no table has so many


@dataclass(frozen=True, slots=True)
class BranchRef:
    """The file that makes a branch exist.

    Attributes:
        identity: changes when a branch is deleted and made again under the same name.
        parent: branch it was made from; None for main.
        parent_version: manifest version it was made from; lower numbers are versions of the parent.
    """

    name: str
    identity: str
    parent: str | None
    parent_version: int = 0


class GraphStore:
    """Storage of one graph, shared by every handle and thread of a process that opened it."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.objects = Objects(location)
        self.tables = Tables(location)
        self.effects = Effects()
        self.sections = Sections(location, self.objects)
        self.mirror = Mirror(self.tables, self.sections)
        self._newest: dict[str, Snapshot] = {}
        self._lock = threading.Lock()

    @staticmethod
    def lance_branch(branch: str) -> str | None:
        return None if branch == ids.MAIN else branch

    def snapshot(self, branch: str) -> Snapshot:
        """The newest published state of a branch."""
        return self.refresh(branch)

    def refresh(self, branch: str, *, migrate_layout: bool = False) -> Snapshot:
        """The newest state, and on request in the current layout: the stamp is per branch, so each is migrated."""
        identity = self.branch_ref(branch).identity
        with self._lock:
            known = self._newest.get(branch)
        if known and known.identity == identity and self._is_newest(known):
            return known
        handle = self._manifest_after(known) if known and branch == ids.MAIN else self._newest_manifest(branch)
        if known and known.identity == identity and handle.version < known.version:
            raise CorruptGraph(
                f"version {known.version} of table {manifest.PATH} is missing, which branch '{branch}' had; "
                f"the newest is {handle.version}",
                branch=branch,
                version=known.version,
            )
        if migrate_layout and manifest.stamp_of(handle) < limits.INTERNAL_SCHEMA_VERSION:
            handle = migrate.to_current(self.tables, handle, self.lance_branch(branch))
        with store_errors("read the manifest", handle):
            snapshot = replace(read_snapshot(handle, branch), identity=identity)
        if manifest.stamp_of(handle) == limits.INTERNAL_SCHEMA_VERSION:
            self.adopt(snapshot)
        return snapshot

    def _manifest_after(self, known: Snapshot) -> Handle:
        """The newest manifest of main by the number of its version; looking for the newest of many takes longer."""
        with contextlib.suppress(HistoricalVersionReclaimed), store_errors("look at the manifest"):
            return self.tables.at(manifest.PATH, None, known.handle.latest_version, known.identity)
        return self._newest_manifest(known.branch)

    def _is_newest(self, snapshot: Snapshot) -> bool:
        with store_errors("look at the manifest"):
            return bool(snapshot.handle.latest_version == snapshot.version)

    def adopt(self, snapshot: Snapshot) -> None:
        """Remember the newest snapshot of a branch, so that nobody needs to read it back."""
        with self._lock:
            self._newest[snapshot.branch] = snapshot

    def adopt_fork(self, branch: str, source: Snapshot, handle: Handle) -> None:
        """Remember the first state of a branch that was just made from a state in the current layout: it is the same,
        row by row, in the same fragments. The caller keeps the branch from being deleted meanwhile."""
        if handle.version == source.version:
            identity = self.branch_ref(branch).identity
            self.adopt(replace(source, branch=branch, handle=handle, identity=identity))

    def snapshot_at(self, branch: str, version: int) -> Snapshot:
        """The state of a branch at one manifest version."""
        identity = self.branch_ref(branch).identity
        with self._lock:
            known = self._newest.get(branch)
        if known and (known.identity, known.version) == (identity, version):
            return known
        handle = self._manifest_at(branch, version, identity)
        with store_errors("read the manifest", handle):
            return replace(read_snapshot(handle, branch), identity=identity)

    def _manifest_at(self, branch: str, version: int, identity: str) -> Handle:
        try:
            if 0 < version < _VERSIONS:
                return self.tables.at(manifest.PATH, self.lance_branch(branch), version, identity)
        except HistoricalVersionReclaimed as error:
            if version <= self._newest_manifest(branch).version:
                raise HistoricalVersionReclaimed(
                    f"version {version} of branch '{branch}' is no longer stored",
                    hint="choose a newer commit",
                    branch=branch,
                    version=version,
                ) from error
        raise HistoricalVersionReclaimed(f"branch '{branch}' has no version {version}", version=version)

    def table(self, pin: Pin) -> Handle:
        """The table that a pin names.

        Raises:
            CorruptGraph: a newest state shows it, and it is missing.
            HistoricalVersionReclaimed: only old states had it. Names the type, not the file.
        """
        try:
            return self.tables.at(pin.location, pin.branch, pin.version, pin.origin)
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
            ) from error

    def _is_shown(self, pin: Pin) -> bool:
        """Whether the newest state of main, or of a branch that somebody looked at, has this version of a table."""
        for branch in {ids.MAIN, *self._newest}:
            with contextlib.suppress(OmniGraphError):
                if self.snapshot(branch).pins.get(pin.table_key) == pin:
                    return True
        return False

    def branch_ref(self, branch: str) -> BranchRef:
        """The ref of a branch, or BranchNotFound. The ref is the authority; leftover directories mean nothing."""
        if branch == ids.MAIN:
            return BranchRef(ids.MAIN, ids.MAIN, None)
        ref = self.tables.ref(manifest.PATH, branch)
        if ref is None:
            raise BranchNotFound(f"there is no branch '{branch}'", hint="list them with branches.list()", branch=branch)
        return BranchRef(branch, ref.identity, ref.parent_branch or ids.MAIN, ref.parent_version)

    def branch_names(self) -> list[str]:
        """Every branch, internal ones included, without looking at any."""
        return [ids.MAIN, *self.tables.branch_names(manifest.PATH)]

    def branch_refs(self) -> list[BranchRef]:
        """Every branch: main first, then by name, internal ones included."""
        listed = self.tables.branches(manifest.PATH)
        return [
            BranchRef(ids.MAIN, ids.MAIN, None),
            *(
                BranchRef(
                    name, str(ref["branch_identifier"]), ref["parent_branch"] or ids.MAIN, int(ref["parent_version"])
                )
                for name, ref in sorted(listed.items())
            ),
        ]

    def forget_branch(self, branch: str) -> None:
        with self._lock:
            self._newest.pop(branch, None)

    def _newest_manifest(self, branch: str) -> Handle:
        handle = self.tables.newest_or_none(manifest.PATH, self.lance_branch(branch))
        if handle is None:
            if branch == ids.MAIN:
                raise GraphNotFound(
                    f"there is no graph at {self.location.uri}", hint="create one with init", uri=self.location.uri
                )
            raise BranchNotFound(f"there is no branch '{branch}'", branch=branch)
        return handle
