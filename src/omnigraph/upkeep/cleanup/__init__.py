"""Removes what no branch, tag, reader or running write needs. Safe whatever is late; see docs/decisions/0019.

0. list the files, so that nothing that is staged later is among them;
1. say which states are given up, by compare-and-swap;
2. commit to every branch, so that no write that was computed before can be published any more;
3. read all branches, tags, leases and records, and open everything that stays;
4. remove what was listed and what nothing of that needs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from omnigraph import failpoints, ids, limits
from omnigraph.errors import BranchNotFound
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.commit.publish import GraphChange, publish
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest, reclaimed
from omnigraph.storage.metadata.holds import has_claims, remove_expired
from omnigraph.storage.metadata.reclaimed import Reclaimed, ReclaimedVersions
from omnigraph.storage.objects.file_sizes import listed_files
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.tables.named_files import NamedFiles
from omnigraph.upkeep.cleanup.branch_look import given_up, look_at_branches, wanted_versions
from omnigraph.upkeep.cleanup.cleanup_result import CleanupResult, TableCleanup
from omnigraph.upkeep.cleanup.graph_files import GraphFiles
from omnigraph.upkeep.cleanup.kept_states import KeptStates
from omnigraph.upkeep.cleanup.policy import CLEANUP, CleanupPolicy
from omnigraph.upkeep.cleanup.removal_plan import Kept, Planner, RemovalPlan, total
from omnigraph.upkeep.cleanup.remove_files import finish_lists, remove
from omnigraph.upkeep.stats.graph_stats import StoredFiles


@dataclass(frozen=True, slots=True)
class CleanupRequest:
    """Who asks for a cleanup by which rule."""

    policy: CleanupPolicy
    actor: str | None = None


def preview(store: GraphStore, request: CleanupRequest) -> CleanupResult:
    """What a cleanup would remove. Writes nothing.

    Raises:
        CleanupRefused: something that stays cannot be read.
    """
    run = _Run(store, request)
    run.look()
    return run.result(*run.plan(), confirmed=False)


def cleanup(store: GraphStore, request: CleanupRequest) -> CleanupResult:
    """Remove what the rule gives up, and what nobody needs anyway. Without anything to remove, nothing is committed.

    Raises:
        CleanupRefused: something that stays cannot be read; nothing was removed.
        RecoveryRequired: an interrupted write cannot be resolved; nothing was removed.
        UncoveredDrift: other software wrote rows to a table; nothing was removed.
        ConflictError: another cleanup was faster.
    """
    run = _Run(store, request)
    with store.sections.hold(CONTROL) as fence, fence.kept():
        finish_lists(store)
        run.look()
        if not run.gives_up_states:
            kept, plan = run.plan()
            if not plan.is_worthwhile:
                return run.result(kept, RemovalPlan((), (), ()))
        run.settle_claims()
        reclaimed.put(store.objects, run.given_up, run.before.tag)
        failpoints.reach("cleanup.after_reclaimed")
        commits = _commit_everywhere(store, request)
        failpoints.reach("cleanup.after_commits")
        store.take_unfinished_names()
        kept, plan = run.plan()
        failpoints.reach("cleanup.before_removal")
        if store.location.is_local:  # names are used again there; nobody may take one meanwhile
            run.remove(plan)
    if not store.location.is_local:
        run.remove(plan)
    return run.result(kept, plan, commits)


class _Run:
    """One cleanup."""

    def __init__(self, store: GraphStore, request: CleanupRequest) -> None:
        self._store = store
        self._policy = request.policy
        self._named = NamedFiles(store.tables, store.objects)
        self._now = time.time()
        self._claimed = False
        self._errors: dict[str, str] = {}
        self.before = Reclaimed()
        self.given_up: dict[str, ReclaimedVersions] = {}

    def look(self) -> None:
        """List the files, and decide what is given up."""
        store = self._store
        self._files = GraphFiles(listed_files(store.location))
        failpoints.reach("cleanup.after_listing")
        self._claimed = has_claims(store.location, store.objects)
        self.before = reclaimed.read(store.objects)
        branches = look_at_branches(store)
        self.given_up = given_up(branches, wanted_versions(store, branches), self.before, self._policy, ids.now())

    def settle_claims(self) -> None:
        """Take claims away that have expired, before the heads are moved that their files could be published on."""
        self._claimed = remove_expired(self._store.location, self._store.objects)

    @property
    def gives_up_states(self) -> bool:
        """Whether a state is there that is given up."""
        table = self._files.tables.get(manifest.PATH)
        versions = table.versions if table is not None else {}
        found = ((self.given_up.get(reclaimed.name_of(lineage)), each) for lineage, each in versions.items())
        return any(gone.covers(version) for gone, each in found if gone is not None for version in each)

    def plan(self) -> tuple[Kept, RemovalPlan]:
        kept = KeptStates(self._store, self._files, self.before, self.given_up).read()
        older_than = None if self._claimed else self._now - limits.UNFINISHED_FILES_SECONDS
        return kept, Planner(self._files, self._named, older_than).plan(kept)

    def remove(self, plan: RemovalPlan) -> None:
        self._errors = remove(self._store, plan)

    def result(
        self, kept: Kept, plan: RemovalPlan, commits: dict[str, str] | None = None, *, confirmed: bool = True
    ) -> CleanupResult:
        tables = [
            TableCleanup(
                table.key,
                len(table.versions),
                len(table.all),
                total(table.all),
                self._errors.get(table.location, table.error),
            )
            for table in plan.tables
            if table.all or table.error
        ]
        unfinished = [file for table in plan.tables for file in table.unfinished]
        legacy = [*plan.legacy, *plan.topologies]
        states = sum(len(versions) for (location, _), versions in kept.pins.items() if location == manifest.PATH)
        removed = next((len(table.versions) for table in plan.tables if table.location == manifest.PATH), 0)
        return CleanupResult(
            uri=self._store.location.uri,
            keep=self._policy.keep,
            older_than=self._policy.older_than,
            confirmed=confirmed,
            states_kept=states,
            states_removed=removed,
            tables=tuple(tables),
            reclaimed_forks=tuple(f"{table.key}@{lineage}" for table in plan.tables for lineage in table.forks),
            dropped_tables=tuple(table.key for table in plan.tables if table.whole),
            unfinished=StoredFiles(len(unfinished), total(unfinished)),
            legacy=StoredFiles(len(legacy), total(legacy)),
            commits=commits or {},
            warnings=self._policy.warnings,
        )


def _commit_everywhere(store: GraphStore, request: CleanupRequest) -> dict[str, str]:
    """Take the head away from every write that was computed before, on every branch."""
    found = {}
    for ref in store.branch_refs():
        try:
            with store.sections.hold(ref.name) as fence:
                heal_branch(store, ref.name, fence)
                draft = CommitDraft(ids.new_ulid(), request.actor, ids.now(), note={"kind": CLEANUP})
                published = publish(store, ref.name, GraphChange(draft), fence.epoch, ids.new_ulid())
                store.mirror.note(published.snapshot, published.commit)
                found[ref.name] = published.commit.id
        except BranchNotFound:
            continue  # deleted meanwhile
        failpoints.reach("cleanup.between_commits")
    return found
