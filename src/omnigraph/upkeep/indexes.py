"""Builds the indexes a schema asks for, and extends those whose table grew.

An index never changes an answer. All missing parts of one table become one transaction, all tables one commit; with
nothing to do there is no commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph import ids
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.index_plan import WantedIndex, index_plan
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.tables.table_indexes import missing_parts, stage_index


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


def ensure_indices(store: GraphStore, schemas: SchemaRegistry, branch: str) -> IndexReport:
    """Make every wanted index cover its whole table."""

    def prepare(workspace: Workspace) -> Prepared[IndexReport]:
        schema = schemas.of(workspace.snapshot)
        built: list[tuple[str, str]] = []
        pending: list[PendingIndex] = []
        tables = {}
        types: list[NodeType | EdgeType] = [*schema.catalog.nodes.values(), *schema.catalog.edges.values()]
        for type_ in types:
            key = type_.table_key
            table = _prepare_table(workspace, key, list(index_plan(type_).wanted), built, pending)
            if table is not None:
                tables[key] = table
        return Prepared(IndexReport(None, tuple(built), tuple(pending)), tables, made_for=schema.hash)

    done = run(store, Write(branch, WriterKind.ENSURE_INDICES, ids.SYSTEM_ACTOR, prepare))
    return replace(done.report, commit=done.commit)


def _prepare_table(
    workspace: Workspace,
    key: str,
    wanted: list[WantedIndex],
    built: list[tuple[str, str]],
    pending: list[PendingIndex],
) -> PreparedTable | None:
    pin = workspace.snapshot.pins.get(key)
    if pin is None or pin.row_count == 0:
        return None
    graph_branch = workspace.snapshot.branch
    if graph_branch != ids.MAIN and pin.branch is None:
        return None  # a branch reads main's rows with main's indexes; building here would fork the table
    work = []
    for index in wanted:
        fragments, reason = missing_parts(workspace.readable(key), index.column, index.kind.value)
        if reason:
            pending.append(PendingIndex(key, index.column, reason))
        elif fragments:
            work.append((index.column, index.kind.value, fragments))
    if not work:
        return None
    pin, handle = workspace.writable(key)
    built += [(key, column) for column, _, _ in work]
    return PreparedTable(pin, handle, stage_index(handle, pin.row_count, work), reads_rows=False)
