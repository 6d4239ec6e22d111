"""Reads every state that stays, and what it shows. What cannot be resolved refuses the cleanup: a reference that
nobody understands is not an absent one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from omnigraph import limits
from omnigraph.errors import (
    BranchNotFound,
    CleanupRefused,
    CorruptGraph,
    HistoricalVersionReclaimed,
    StorageError,
    UncoveredDrift,
)
from omnigraph.storage.commit import sidecar
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.metadata.reclaimed import Reclaimed, ReclaimedVersions, name_of
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.upkeep.cleanup.branch_look import BranchLook, look_at_branches, wanted_versions
from omnigraph.upkeep.cleanup.graph_files import GraphFiles
from omnigraph.upkeep.cleanup.removal_plan import Kept
from omnigraph.upkeep.drift import DriftKind, drift_kind


class KeptStates:
    """Finds out what stays of a graph.

    Args:
        before: what earlier cleanups gave up; a tag on such a state was never finished.
        given_up: what this one does, by lineage.
    """

    def __init__(
        self, store: GraphStore, files: GraphFiles, before: Reclaimed, given_up: Mapping[str, ReclaimedVersions]
    ) -> None:
        self._store = store
        self._files = files
        self._before = before
        self._given_up = given_up
        self._states: dict[tuple[str, int], ManifestSnapshot] = {}

    def read(self) -> Kept:
        """Look at all branches, tags, leases and recovery records, and at every state that they need.

        Raises:
            CleanupRefused: one of them cannot be resolved.
            UncoveredDrift: other software wrote rows to a table.
        """
        self._require_readable_records()
        branches = look_at_branches(self._store)
        wanted = wanted_versions(self._store, branches)
        pins: dict[tuple[str, str | None], set[int]] = defaultdict(set)
        floors: dict[tuple[str, str | None], int] = {}
        keys: dict[str, str] = {}
        for branch in branches:
            head = branch.state
            floors[manifest.PATH, head.lineage] = head.version
            states = self._states_of(branch, wanted[name_of(head.lineage)])
            for state in [*states, head]:
                pins[manifest.PATH, state.lineage].add(state.version)
                for pin in state.pins.values():
                    pins[pin.location, pin.branch].add(pin.version)
                    keys[pin.location] = pin.table_key
                keys |= {
                    hidden.location: hidden.table_key for hidden in state.hidden.values() if hidden.location not in keys
                }
            for pin in head.pins.values():
                if head.owns(pin.branch):
                    floors[pin.location, pin.branch] = pin.version
                    self._require_explained(pin)
        lineages = frozenset(branch.ref.lineage for branch in branches if branch.ref.lineage is not None)
        return Kept({place: frozenset(versions) for place, versions in pins.items()}, floors, lineages, keys)

    def _require_readable_records(self) -> None:
        """A record that can be read is of a write that goes on from a head that stays, or it is void; the files that it
        names are above what its branch shows, or were never listed."""
        for operation_id in sidecar.pending(self._store.objects):
            try:
                sidecar.read(self._store.objects, operation_id)
            except StorageError as error:
                raise CleanupRefused(
                    f"the recovery record {operation_id} cannot be read: {error.message}",
                    hint="nothing was removed; run recover",
                    operation_id=operation_id,
                ) from error

    def _states_of(self, branch: BranchLook, wanted: set[int]) -> list[ManifestSnapshot]:
        ref, newest = branch.ref, branch.state.version
        name = name_of(ref.lineage)
        listed = self._versions_of(ref)
        gone = self._given_up.get(name, ReclaimedVersions(ref.identity, 0))
        if gone.identity != ref.identity:
            gone = ReclaimedVersions(ref.identity, 0)
        kept = {version for version in listed if not gone.covers(version)}
        kept |= set(range(max(listed, default=newest) + 1, newest))
        earlier = self._before.of(ref.lineage, ref.identity)
        kept |= {version for version in wanted if version in listed or not earlier.covers(version)}
        with ThreadPoolExecutor(limits.CLEANUP_THREADS) as threads:
            found = threads.map(lambda version: self._state(ref, version, listed), sorted(kept - {newest}))
            return [state for state in found if state is not None]

    def _versions_of(self, ref: BranchRef) -> set[int]:
        table = self._files.tables.get(manifest.PATH)
        return set(table.versions.get(ref.lineage, ())) if table is not None else set()

    def _state(self, ref: BranchRef, version: int, listed: set[int]) -> ManifestSnapshot | None:
        key = (name_of(ref.lineage), version)
        known = self._states.get(key)
        if known is not None and known.identity == ref.identity:
            return known
        try:
            state = self._store.state_on(ref, version)
        except BranchNotFound:
            return None  # deleted since it was listed, with all its states
        except (HistoricalVersionReclaimed, CorruptGraph) as error:
            if version not in listed and not self._store.has_branch(ref.name):
                return None
            raise CleanupRefused(
                f"version {version} of branch '{ref.name}' is needed and cannot be read: {error.message}",
                hint="nothing was removed; run verify, and restore the file from a copy",
                branch=ref.name,
                version=version,
            ) from error
        self._states[key] = state
        return state

    def _require_explained(self, pin: Pin) -> None:
        """Rows that other software wrote above what the graph shows: somebody has to decide about them first."""
        table = self._files.tables.get(pin.location)
        listed = table.versions.get(pin.branch, {}) if table is not None else {}
        newest = max(listed, default=0)
        if newest <= pin.version:
            return
        handle = self._store.tables.at(TableVersion(pin.location, pin.branch, newest))
        if drift_kind(handle, above=pin.version) is DriftKind.UNEXPLAINED:
            raise UncoveredDrift(pin.table_key, newest, pin.version)
