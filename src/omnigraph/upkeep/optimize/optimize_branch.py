"""Optimizes the tables of one branch: heavy work first, on the state that the branch has then, and two short commits.

A round joins fragments, makes a draft of each table that shows the result to nobody, builds on the draft what is
missing of the indexes, and publishes: one commit for the fragments of all tables, and right after it one for their
indexes, because Lance has no transaction that does both. In the commit section only metadata is held against what the
tables have become, so that nobody waits: what a faster writer changed is left out and planned again in the next round.
Rows never change, so whatever part of it becomes visible is right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from omnigraph import failpoints, ids
from omnigraph.errors import HistoricalVersionReclaimed, StorageError, UncoveredDrift
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.tables.compaction import RewrittenGroup, fitting, fragment_groups, numbered, staged_rewrite
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.table_indexes import BuiltSegment, IndexWork
from omnigraph.upkeep.drift import DriftKind, drift_kind
from omnigraph.upkeep.indexes import in_parts, is_own, own_types, prepared_indexes, table_work
from omnigraph.upkeep.optimize.optimize_report import BUSY, DRIFT, OptimizedTable
from omnigraph.upkeep.work_engine import RewriteTask, SegmentTask, UpkeepEngine, UpkeepEngines, is_kept

#: How often work is planned: again because a writer was faster, or because an index that was joined lets more fragments
#: be joined too.
_ROUNDS = 4

_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class OptimizeRequest:
    """What is optimized, by which engine, and what is said about it.

    Attributes:
        types: names of types; None for all.
    """

    engines: UpkeepEngines
    types: frozenset[str] | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done with one table of a state.

    Attributes:
        groups: fragments that are to be joined.
        work: what is missing of its indexes before that.
    """

    type: NodeType | EdgeType
    pin: Pin
    handle: LanceTable
    groups: list[tuple[int, ...]]
    work: list[IndexWork]

    def first_part(self) -> _Plan | None:
        """The indexes that find rows by their row ids, if they are in the way of fragments that could be joined: Lance
        joins what one segment covers, or none does, and such a segment stays good."""
        work = [each for each in self.work if each.is_by_row_id]
        hindered = work and fragment_groups(self.handle, aligned=False)
        return replace(self, groups=[], work=work) if hindered else None

    @property
    def rows(self) -> int:
        """Rows that the work reads, about."""
        sizes = {each.fragment_id: each.metadata.physical_rows for each in self.handle.get_fragments()}
        joined = sum(sizes[number] for group in self.groups for number in group)
        return int(joined) + sum(each.rows for each in self.work)


class BranchOptimization:
    """The work on one branch: `run`, then `commits`, `tables` and `engine` tell what was done."""

    def __init__(self, store: GraphStore, schemas: SchemaRegistry, branch: str, request: OptimizeRequest) -> None:
        self._store = store
        self._schemas = schemas
        self._branch = branch
        self._request = request
        self._found: dict[str, OptimizedTable] = {}
        self._planned: ManifestSnapshot
        self._schema = ""
        self.commits: list[Commit] = []
        self.engine: str | None = None

    @property
    def tables(self) -> list[OptimizedTable]:
        return [self._found[key] for key in sorted(self._found)]

    def run(self) -> None:
        """Work until there is nothing left to do, or others were faster each time.

        Raises:
            RecoveryRequired: an interrupted write of the branch can be neither finished nor dropped.
        """
        for _ in range(_ROUNDS):
            plans = self._plans()
            if not plans:
                return
            engine = self._request.engines(self._store, sum(plan.rows for plan in plans))
            self.engine = engine.name
            try:
                self._round(plans, engine)
            except (StorageError, HistoricalVersionReclaimed):
                fresh, planned = self._store.refresh(self._branch), self._planned
                if (fresh.identity, fresh.head) == (planned.identity, planned.head):
                    raise  # otherwise a type was dropped, or older states were removed: plan again
        for plan in self._plans():
            self._note(plan.pin.table_key, skipped=BUSY)

    def _plans(self) -> list[_Plan]:
        """What is to be done with the tables of the branch; none with those that need nothing."""
        settle(self._store, self._branch)
        snapshot = self._store.snapshot(self._branch)
        schema = self._schemas.of(snapshot)
        self._planned, self._schema = snapshot, schema.hash
        plans = []
        for type_ in own_types(schema, snapshot):
            pin = snapshot.pins[type_.table_key]
            if (self._request.types is not None and type_.name not in self._request.types) or self._is_skipped(pin):
                continue
            handle = self._store.table(pin)
            work, pending = table_work(handle, type_)
            self._note(pin.table_key, pending_indexes=tuple(pending))
            plan = _Plan(type_, pin, handle, fragment_groups(handle), work)
            if plan.groups or plan.work:
                plans.append(plan)
        first = [found for plan in plans if (found := plan.first_part()) is not None]
        return first or plans

    def _is_skipped(self, pin: Pin) -> bool:
        """Whether other software wrote rows to a table; looked at before the first commit, which looks again."""
        known = self._found.setdefault(pin.table_key, OptimizedTable(pin.table_key, self._branch))
        if known.skipped is None and not self.commits:
            newest = self._store.tables.newest(pin.location, pin.branch)
            if newest.version > pin.version and drift_kind(newest, above=pin.version) is DriftKind.UNEXPLAINED:
                self._skip(pin.table_key, pin.version, int(newest.version))
        return self._found[pin.table_key].skipped is not None

    def _round(self, plans: Sequence[_Plan], engine: UpkeepEngine) -> None:
        groups = self._rewritten(plans, engine)
        failpoints.reach("optimize.after_rewrite")
        with contextlib.ExitStack() as drafts:
            tasks = [
                (plan.pin.table_key, SegmentTask(place, plan.pin.version, part))
                for plan in plans
                for place, work in [self._to_index(plan, groups.get(plan.pin.table_key), drafts)]
                for part in in_parts(engine, work)
            ]
            segments: dict[str, list[BuiltSegment]] = {}
            built = engine.build([task for _, task in tasks]) if tasks else []
            for (key, _), segment in zip(tasks, built, strict=True):
                segments.setdefault(key, []).append(segment)
        failpoints.reach("optimize.after_build")
        for key, joined in self._commit(groups, _prepared_groups).items():
            self._count_groups(key, joined)
        failpoints.reach("optimize.between_commits")
        for key, kept in self._commit(segments, prepared_indexes).items():
            self._count_segments(key, kept)

    def _rewritten(self, plans: Sequence[_Plan], engine: UpkeepEngine) -> dict[str, list[RewrittenGroup]]:
        """The new files of fragments that are joined, by table."""
        tasks = [
            (plan, RewriteTask(table_version_of(plan.pin), fragments)) for plan in plans for fragments in plan.groups
        ]
        done = engine.rewrite([task for _, task in tasks]) if tasks else []
        found: dict[str, list[RewrittenGroup]] = {}
        for (plan, _), group in zip(tasks, done, strict=True):
            found.setdefault(plan.pin.table_key, []).append(group)
        return {
            plan.pin.table_key: numbered(plan.handle, found[plan.pin.table_key])
            for plan in plans
            if plan.pin.table_key in found
        }

    def _to_index(
        self, plan: _Plan, groups: list[RewrittenGroup] | None, drafts: contextlib.ExitStack
    ) -> tuple[TableVersion, list[IndexWork]]:
        """Where the segments of a table are built, and which: on a draft, if its fragments are about to change."""
        if not groups:
            return table_version_of(plan.pin), plan.work
        staged = staged_rewrite(plan.handle, plan.pin.row_count, groups)
        draft = self._store.tables.commit_detached(plan.handle, sidecar.transaction(staged, ids.new_ulid()))
        place = TableVersion(plan.pin.location, plan.pin.branch, int(draft.version))
        drafts.callback(_drop_draft, self._store, place)
        return place, table_work(draft, plan.type)[0]

    def _commit(
        self,
        done: Mapping[str, Sequence[_Done]],
        prepare: Callable[
            [Workspace, ManifestSnapshot, Mapping[str, Sequence[_Done]], str],
            Prepared[Mapping[str, Sequence[_Done]]],
        ],
    ) -> Mapping[str, Sequence[_Done]]:
        """Publish what still fits the branch, and tell what that was. A table that others wrote to is left out."""
        left = dict(done)

        def prepared(workspace: Workspace) -> Prepared[Mapping[str, Sequence[_Done]]]:
            return prepare(workspace, self._planned, left, self._schema)

        write = Write(self._branch, WriterKind.OPTIMIZE, ids.SYSTEM_ACTOR, prepared, message=self._request.message)
        while left:
            try:
                committed = run(self._store, write)
            except UncoveredDrift as drift:
                key, pin, head = (drift.details[name] for name in ("table_key", "pin", "head"))
                self._skip(key, pin, head)
                del left[key]
                continue
            if committed.commit is not None:
                self.commits.append(committed.commit)
                return committed.report
            break
        return {}

    def _skip(self, table_key: str, shown: int, newest: int) -> None:
        self._note(table_key, skipped=DRIFT, version=shown, newest_version=newest)

    def _count_groups(self, table_key: str, groups: Sequence[RewrittenGroup]) -> None:
        known = self._found[table_key]
        self._note(
            table_key,
            fragments_removed=known.fragments_removed + sum(len(group.old) for group in groups),
            fragments_added=known.fragments_added + sum(len(group.new) for group in groups),
            deleted_rows_dropped=known.deleted_rows_dropped + sum(group.dropped_rows for group in groups),
        )

    def _count_segments(self, table_key: str, segments: Sequence[BuiltSegment]) -> None:
        known = self._found[table_key]
        columns = [*known.indexes_built, *(segment.work.column for segment in segments)]
        rows = known.rows_indexed + sum(segment.work.rows for segment in segments)
        self._note(table_key, indexes_built=tuple(dict.fromkeys(columns)), rows_indexed=rows)

    def _note(self, table_key: str, **found: Any) -> None:
        self._found[table_key] = replace(self._found[table_key], **found)


def settle(store: GraphStore, branch: str) -> None:
    """Finish or drop what dead writers of a branch left.

    Raises:
        RecoveryRequired: something can be neither finished nor dropped.
    """
    if sidecar.pending(store.objects):
        with store.sections.hold(branch) as fence:
            heal_branch(store, branch, fence)


def _prepared_groups(
    workspace: Workspace, planned: ManifestSnapshot, groups: Mapping[str, Sequence[RewrittenGroup]], schema: str
) -> Prepared[Mapping[str, Sequence[RewrittenGroup]]]:
    """What of the fragments that were rewritten for one state fits the state of a branch now; reads metadata only."""
    tables, kept = {}, {}
    for key, found in groups.items() if is_kept(workspace.store, planned, workspace.snapshot) else ():
        if not is_own(workspace.snapshot, key):
            continue
        pin, handle = workspace.writable(key)
        fits = fitting(handle, found)
        if fits:
            staged = staged_rewrite(handle, pin.row_count, fits)
            tables[key], kept[key] = PreparedTable(pin, handle, staged, reads_rows=False), fits
    return Prepared(kept, tables, made_for=schema)


def _drop_draft(store: GraphStore, draft: TableVersion) -> None:
    with contextlib.suppress(StorageError):
        store.tables.drop_detached(draft)
