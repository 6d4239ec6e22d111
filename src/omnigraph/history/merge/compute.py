"""What a merge does to a state of the target: rows by table, pointers, conflicts. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.errors import ChangeSchemaBoundary, Conflict, InputError, MergeSchemaMismatch
from omnigraph.history.merge.criss_cross import VirtualBase, overlay_of, side_of
from omnigraph.history.merge.engine import MergeEngine
from omnigraph.history.merge.merge_result import Kind, MergedRows, MergeResult
from omnigraph.history.merge.merge_source import MergeBase, MergeSource, find_base, require_unchanged
from omnigraph.history.merge.resolution import DecidedRows, Resolve, decide_conflicts, named_tables
from omnigraph.history.merge.table_plan import Disposition, TablePlan, plan_tables
from omnigraph.history.merge.three_way import MergeSide, RowOutcomes, decide, everything, split
from omnigraph.history.merge.validate import conflict_order, violations
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.write.change import Change, Mode, Resolved, type_of


@dataclass(frozen=True, slots=True)
class ComputedMerge:
    """A merge against one state of the target.

    Attributes:
        changes: rows to put and remove, by table key; tables that only get a pointer are among them for the counts.
        pointers: tables that show the source's version as it is.
        missing: commits of the source to copy into the target's history.
    """

    outcome: Kind
    source: MergeSource
    target: str
    base: Commit
    changes: Mapping[str, Resolved] = field(default_factory=dict)
    pointers: Mapping[str, Pin] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    missing: tuple[Commit, ...] = ()

    def result(self, engine: str, *, dry_run: bool) -> MergeResult:
        tables = {key: _counts(change) for key, change in self.changes.items()}
        return MergeResult(
            outcome=self.outcome,
            source=self.source.branch,
            target=self.target,
            commit=None,
            base=self.base.id,
            source_commit=self.source.head,
            tables={key: rows for key, rows in tables.items() if rows.inserted or rows.updated or rows.deleted},
            conflicts=self.conflicts,
            dry_run=dry_run,
            engine=engine,
        )


def compute(
    workspace: Workspace, catalog: Catalog, source: MergeSource, resolve: Resolve | None, engine: MergeEngine
) -> ComputedMerge:
    """What merging the source into the workspace's state means."""
    store, target = workspace.store, workspace.snapshot
    base = find_base(store, source, target)
    if base.snapshot is None:
        return ComputedMerge("already_up_to_date", source, target.branch, base.commit)
    computed = _Computation(workspace, catalog, source, base, base.snapshot, resolve, engine).run()
    detours = [state for detour in base.detours for state in (detour.before, detour.after)]
    for read in (source.snapshot, base.snapshot, *detours):
        require_unchanged(store, read)
    return computed


class _Computation:
    """Goes through the tables of one merge."""

    def __init__(
        self,
        workspace: Workspace,
        catalog: Catalog,
        source: MergeSource,
        base: MergeBase,
        base_state: ManifestSnapshot,
        resolve: Resolve | None,
        engine: MergeEngine,
    ) -> None:
        self._workspace = workspace
        self._store = workspace.store
        self._catalog = catalog
        self._source = source
        self._base = base
        self._base_state = base_state
        self._resolve = resolve
        self._engine = engine
        self._named = named_tables(resolve)
        self._changes: dict[str, Resolved] = {}
        self._pointers: dict[str, Pin] = {}
        self._open: list[Conflict] = []
        laid = ((key, overlay_of(self._store, pin, key, base.detours)) for key, pin in base_state.pins.items())
        self._overlays: dict[str, VirtualBase] = {key: overlay for key, overlay in laid if overlay is not None}

    def run(self) -> ComputedMerge:
        target = self._workspace.snapshot
        plans = plan_tables(self._base_state, self._source.snapshot, target, self._overlays)
        self._require_known({plan.table_key for plan in plans})
        for plan in plans:
            if plan.disposition is not Disposition.SKIP or plan.table_key in self._named:
                self._merge_table(plan)
        conflicts = sorted(self._open, key=conflict_order)
        if not conflicts and not self._takes_source_whole():
            conflicts = violations(self._workspace, self._catalog, self._changes, self._engine.values)
        return ComputedMerge(
            outcome="fast_forward" if self._base.is_target else "merged",
            source=self._source,
            target=target.branch,
            base=self._base.commit,
            changes=self._changes,
            pointers=self._pointers,
            conflicts=tuple(conflicts),
            missing=self._base.missing,
        )

    def _takes_source_whole(self) -> bool:
        """The result is the source's own state, which is valid already."""
        return self._base.is_target and not self._resolve

    def _merge_table(self, plan: TablePlan) -> None:
        type_ = type_of(self._catalog, plan.table_key)
        theirs, ours = self._sides(plan)
        outcome = self._decide(plan, theirs, ours)
        decided = decide_conflicts(type_, outcome, theirs, ours, self._resolve)
        self._open += decided.open
        if decided.open:
            return
        if plan.pointer and plan.table_key not in self._named:
            self._pointers[plan.table_key] = plan.source
        change = self._resolved(type_, plan, decided, theirs)
        if change.rows.num_rows or change.removed.num_rows:
            self._changes[plan.table_key] = change

    def _decide(self, plan: TablePlan, theirs: MergeSide, ours: MergeSide) -> RowOutcomes:
        if plan.disposition is Disposition.ADOPT:
            return everything(theirs)
        return decide(theirs, ours, lambda source, target, ids: self._engine.different(plan, source, target, ids))

    def _sides(self, plan: TablePlan) -> tuple[MergeSide, MergeSide]:
        require_same_columns(self._store, plan)
        try:
            overlay = self._overlays.get(plan.table_key)
            theirs = side_of(self._store, plan.base, plan.source, overlay)
            return theirs, side_of(self._store, plan.base, plan.target, overlay)
        except ChangeSchemaBoundary as error:
            raise MergeSchemaMismatch(
                f"'{plan.table_key}' changed its properties since the two branches went apart",
                hint="make a new branch from the target and repeat the changes there",
                table_key=plan.table_key,
            ) from error

    def _resolved(
        self, type_: NodeType | EdgeType, plan: TablePlan, decided: DecidedRows, source: MergeSide
    ) -> Resolved:
        """The change of a table with the stored rows that it touches. What only the source inserted is not looked
        for: the row table proved that the target has no such row."""
        rows = self._engine.put(type_, plan, decided, source, checked=not self._takes_source_whole())
        extra = ("src",) if isinstance(type_, EdgeType) else ()
        sought = split(rows.column("id").combine_chunks(), self._certainly_new(decided, source))[1]
        replaced, removed = (self._stored(plan, source, ids, extra) for ids in (sought, decided.remove))
        change = Change(plan.table_key, rows, Mode.MERGE, decided.remove, conformed=True)
        return Resolved(type_, change, rows, replaced, removed)

    def _stored(self, plan: TablePlan, source: MergeSide, ids: pa.Array, columns: tuple[str, ...]) -> pa.Table:
        """Where rows of the target lie. One that stands on the base was looked at already."""
        known = source.base_places(ids, columns) if plan.disposition is Disposition.ADOPT else None
        return known if known is not None else find_rows(self._workspace.readable(plan.table_key), ids, columns=columns)

    def _certainly_new(self, decided: DecidedRows, source: MergeSide) -> pa.Array:
        """Inserts of the source that were no conflict."""
        return split(source.inserted, decided.put)[0] if self._resolve is None else pa.array([], pa.string())

    def _require_known(self, tables: set[str]) -> None:
        unknown = sorted(self._named - tables)
        if unknown:
            raise InputError(f"there is no type behind '{unknown[0]}'", hint="name entities like node:Person/Eve")


def require_same_columns(store: GraphStore, plan: TablePlan) -> None:
    """Rows of one table are put into another one only if both have the same columns."""
    ours, theirs = (store.table(pin).schema for pin in (plan.target, plan.source))
    if [(field.name, field.type) for field in ours] != [(field.name, field.type) for field in theirs]:
        raise MergeSchemaMismatch(
            f"'{plan.table_key}' has different properties on the two branches",
            hint="make a new branch from the target and repeat the changes there",
            table_key=plan.table_key,
        )


def _counts(change: Resolved) -> MergedRows:
    inserted = split(change.rows.column("id").combine_chunks(), change.replaced.column("id").combine_chunks())[1]
    updated = change.replaced.column("id").combine_chunks()
    return MergedRows.of(inserted, updated.sort(), change.removed.column("id").combine_chunks().sort())
