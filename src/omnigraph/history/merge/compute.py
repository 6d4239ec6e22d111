"""What a merge does to a state of the target: rows by table, pointers, conflicts. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ChangeSchemaBoundary, Conflict, InputError, MergeSchemaMismatch
from omnigraph.history.merge.criss_cross import VirtualBase, overlay_of, side_of
from omnigraph.history.merge.engine import MergeEngine
from omnigraph.history.merge.merge_result import Kind, MergedRows, MergeResult
from omnigraph.history.merge.merge_source import MergeBase, MergeSource, require_unchanged
from omnigraph.history.merge.resolution import DecidedRows, Resolve, decide_conflicts, named_tables
from omnigraph.history.merge.table_plan import Disposition, TablePlan, plan_tables
from omnigraph.history.merge.three_way import MergeSide, RowOutcomes, decide, everything, split
from omnigraph.history.merge.validate import BrokenRule, conflict_order, violations
from omnigraph.history.merge.ways_out import WaysOut
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.commit_note import RowCounts
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.write.change import Change, Mode, Resolved, type_of
from omnigraph.write.set_rules import StoredRows


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

    @property
    def pointed(self) -> dict[str, RowCounts]:
        """Rows that the pointers change."""
        shown = {key: _counts(self.changes[key]) for key in self.pointers if key in self.changes}
        return {key: RowCounts(rows.inserted, rows.updated, rows.deleted) for key, rows in shown.items()}

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
    workspace: Workspace,
    catalog: Catalog,
    source: MergeSource,
    base: MergeBase,
    resolve: Resolve | None,
    engine: MergeEngine,
) -> ComputedMerge:
    """What merging the source into the workspace's state means."""
    store, target = workspace.store, workspace.snapshot
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
        self._disputed: dict[str, Resolved] = {}
        self._plans: dict[str, TablePlan] = {}
        self._known_sides: dict[str, tuple[MergeSide, MergeSide]] = {}
        laid = ((key, overlay_of(self._store, pin, key, base.detours)) for key, pin in base_state.pins.items())
        self._overlays: dict[str, VirtualBase] = {key: overlay for key, overlay in laid if overlay is not None}

    def run(self) -> ComputedMerge:
        target = self._workspace.snapshot
        plans = plan_tables(self._base_state, self._source.snapshot, target, self._overlays)
        self._plans = {plan.table_key: plan for plan in plans}
        self._require_known(set(self._plans))
        self._store.permit(plan.table_key for plan in plans if plan.disposition is not Disposition.SKIP)
        for plan in plans:
            if plan.disposition is not Disposition.SKIP or plan.table_key in self._named:
                self._merge_table(plan)
        broken = [] if self._takes_source_whole() else self._broken_rules()
        conflicts = sorted([*self._open, *broken], key=conflict_order)
        outcome: Kind = "fast_forward" if self._base.is_target else "merged"
        return ComputedMerge(
            outcome="conflicts" if conflicts else outcome,
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

    def _broken_rules(self) -> list[Conflict]:
        """Rules that the merged state breaks. While conflicts of rows are open nobody knows that state: what would
        break with the target's side of them all, and with the source's, is told at once."""
        taken = self._changes | self._disputed
        broken = {conflict_order(each.conflict): each for each in self._violations(taken, self._engine.values)}
        if self._disputed:
            undecided = {conflict.entity for conflict in self._open}
            kept = {key: _without(change, self._open) for key, change in self._disputed.items()}
            if_kept = {conflict_order(each.conflict): each for each in self._violations(self._changes | kept, _none)}
            for key, each in broken.items():
                certain = key in if_kept or (each.violation is None and each.conflict.entity not in undecided)
                broken[key] = each if certain else _arising(each, "theirs")
            broken |= {key: _arising(each, "ours") for key, each in if_kept.items() if key not in broken}
        if not broken:
            return []
        ways = WaysOut(self._catalog, lambda key: self._sides(self._plans[key]), taken, StoredRows(self._workspace))
        return ways.explained(list(broken.values()))

    def _violations(
        self, changes: Mapping[str, Resolved], values: Callable[[Resolved], Iterable[Conflict]]
    ) -> list[BrokenRule]:
        return violations(self._workspace, self._catalog, changes, values)

    def _merge_table(self, plan: TablePlan) -> None:
        type_ = type_of(self._catalog, plan.table_key)
        theirs, ours = self._sides(plan)
        outcome = self._decide(plan, theirs, ours)
        decided = decide_conflicts(type_, outcome, theirs, ours, self._resolve)
        if decided.if_taken is not None:
            self._open += decided.open
            self._disputed[plan.table_key] = self._resolved(type_, plan, decided.if_taken, theirs, certain=False)
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
        known = self._known_sides.get(plan.table_key)
        if known is None:
            known = self._known_sides[plan.table_key] = self._read_sides(plan)
        return known

    def _read_sides(self, plan: TablePlan) -> tuple[MergeSide, MergeSide]:
        require_same_columns(self._store, plan)
        try:
            overlay = self._overlays.get(plan.table_key)
            theirs = side_of(self._store, plan.base, plan.source, overlay)
            return theirs, side_of(self._store, plan.base, plan.target, overlay)
        except ChangeSchemaBoundary:
            raise MergeSchemaMismatch(
                f"'{plan.table_key}' changed its properties since the two branches went apart",
                hint="make a new branch from the target and repeat the changes there",
                table_key=plan.table_key,
            ) from None

    def _resolved(
        self,
        type_: NodeType | EdgeType,
        plan: TablePlan,
        decided: DecidedRows,
        source: MergeSide,
        *,
        certain: bool = True,
    ) -> Resolved:
        """The change of a table with the stored rows that it touches. What only the source inserted is not looked
        for: the row table proved that the target has no such row.

        Args:
            certain: nothing was decided about conflicts.
        """
        rows = self._engine.put(type_, plan, decided, source, checked=not self._takes_source_whole())
        extra = ("src",) if isinstance(type_, EdgeType) else ()
        new = self._certainly_new(decided, source) if certain else pa.array([], pa.string())
        sought = split(rows.column("id").combine_chunks(), new)[1]
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


def _none(change: Resolved) -> Iterable[Conflict]:
    """No rule about a row alone: such rows were looked at already."""
    return ()


def _arising(broken: BrokenRule, side: str) -> BrokenRule:
    message = f"{broken.conflict.message} once the conflicts of rows are resolved by '{side}'"
    return replace(broken, conflict=replace(broken.conflict, message=message, arises=side))


def _without(change: Resolved, conflicts: Sequence[Conflict]) -> Resolved:
    """A change that leaves the rows of conflicts as the target has them."""
    ids = pa.array([each.row_id for each in conflicts if each.table_key == change.type.table_key], pa.string())
    rows, replaced, removed = (
        table.filter(pc.invert(pc.is_in(table.column("id"), value_set=ids)))
        for table in (change.rows, change.replaced, change.removed)
    )
    return replace(change, rows=rows, replaced=replaced, removed=removed)


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
