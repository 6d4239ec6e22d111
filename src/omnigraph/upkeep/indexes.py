"""Builds the indexes a schema asks for, and extends those whose table grew.

An index never changes an answer. Segments are built before the commit section, on the state that the branch has then;
in the section only their metadata is held against what the table has become. All missing parts of one table become one
transaction, all tables one commit; with nothing to do there is no commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph import ids, limits
from omnigraph.errors import HistoricalVersionReclaimed, StorageError
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema.index_plan import index_plan
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, table_version_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.table_indexes import BuiltSegment, IndexWork, index_work, staged_segments
from omnigraph.upkeep.work_engine import SegmentTask, UpkeepEngine, UpkeepEngines, embedded, is_kept


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """A declared index that could not be built yet, and why."""

    table_key: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `ensure_indices` did: the commit (None when everything was there) and what is still to come."""

    commit: Commit | None
    built: tuple[tuple[str, str], ...]
    pending: tuple[PendingIndex, ...]

    def __repr__(self) -> str:
        made = f"commit {self.commit.id}" if self.commit is not None else "no commit"
        return f"IndexReport({len(self.built)} built, {len(self.pending)} pending; {made})"


#: Segments that were built, by the key of their table.
BuiltTables = Mapping[str, Sequence[BuiltSegment]]


def ensure_indices(
    store: GraphStore, schemas: SchemaRegistry, branch: str, engines: UpkeepEngines = embedded
) -> IndexReport:
    """Make every wanted index cover its whole table.

    Begins again when files are gone because the branch moved: a type was dropped, or older states were removed.
    """
    snapshot = store.snapshot(branch)
    for attempt in range(limits.REPREPARE_BUDGET + 1):
        try:
            built, pending = _built(store, schemas.of(snapshot), snapshot, engines)
            break
        except (StorageError, HistoricalVersionReclaimed):
            fresh = store.refresh(branch)
            if attempt == limits.REPREPARE_BUDGET or (fresh.identity, fresh.head) == (snapshot.identity, snapshot.head):
                raise
            snapshot = fresh
    schema = schemas.of(snapshot).hash
    write = Write(
        branch,
        WriterKind.ENSURE_INDICES,
        ids.SYSTEM_ACTOR,
        lambda workspace: prepared_indexes(workspace, snapshot, built, schema),
    )
    done = run(store, write)
    kept = {(key, segment.work.column): None for key, found in done.report.items() for segment in found}
    return IndexReport(done.commit, tuple(kept), tuple(pending))


def _built(
    store: GraphStore, schema: CompiledSchema, snapshot: ManifestSnapshot, engines: UpkeepEngines
) -> tuple[BuiltTables, list[PendingIndex]]:
    """Segments for everything that is missing at a state, and what has to wait."""
    work: dict[str, list[IndexWork]] = {}
    pending: list[PendingIndex] = []
    for type_ in own_types(schema, snapshot):
        found, waiting = table_work(store.table(snapshot.pins[type_.table_key]), type_)
        pending += waiting
        if found:
            work[type_.table_key] = found
    rows = sum(each.rows for found in work.values() for each in found)
    engine = engines(store, rows)
    tasks = [
        (key, SegmentTask(table_version_of(snapshot.pins[key]), snapshot.pins[key].version, part))
        for key, found in work.items()
        for part in in_parts(engine, found)
    ]
    built: dict[str, list[BuiltSegment]] = {}
    for (key, _), segment in zip(tasks, engine.build([task for _, task in tasks]) if tasks else (), strict=True):
        built.setdefault(key, []).append(segment)
    return built, pending


def own_types(schema: CompiledSchema, snapshot: ManifestSnapshot) -> list[NodeType | EdgeType]:
    """Types whose tables have rows and belong to the branch itself. A branch reads the others with the indexes that
    they have on main, or on the branch it was made from; building there would fork the table."""
    types: list[NodeType | EdgeType] = [*schema.catalog.nodes.values(), *schema.catalog.edges.values()]
    return [type_ for type_ in types if is_own(snapshot, type_.table_key)]


def is_own(snapshot: ManifestSnapshot, table_key: str) -> bool:
    pin = snapshot.pins.get(table_key)
    return pin is not None and pin.row_count > 0 and (snapshot.lineage is None or snapshot.owns(pin.branch))


def table_work(handle: LanceTable, type_: NodeType | EdgeType) -> tuple[list[IndexWork], list[PendingIndex]]:
    """What is missing of the indexes of a table, and what has to wait."""
    work, pending = [], []
    for index in index_plan(type_).wanted:
        found, reason = index_work(handle, index.column, index.kind.value, index.tokenizer)
        if reason is not None:
            pending.append(PendingIndex(type_.table_key, index.column, reason))
        elif found is not None:
            work.append(found)
    return work, pending


def in_parts(engine: UpkeepEngine, work: Sequence[IndexWork]) -> list[IndexWork]:
    """The work as the engine does it."""
    most = engine.segment_rows
    return [part for each in work for part in (each.parts(most) if most and each.rows > most else [each])]


def prepared_indexes(
    workspace: Workspace, planned: ManifestSnapshot, built: BuiltTables, schema: str
) -> Prepared[BuiltTables]:
    """What of the segments that were built for one state fits the state of a branch now; reads metadata only."""
    tables, kept = {}, {}
    for key, segments in built.items() if is_kept(workspace.store, planned, workspace.snapshot) else ():
        if not is_own(workspace.snapshot, key):
            continue
        pin, handle = workspace.writable(key)
        staged, fitting = staged_segments(handle, pin.row_count, segments)
        if staged is not None:
            tables[key], kept[key] = PreparedTable(pin, handle, staged, reads_rows=False), fitting
    return Prepared(kept, tables, made_for=schema)
