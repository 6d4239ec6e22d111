"""Changes of any number of types → staged tables: row rules, stored rows, set rules, files. Then one commit.

Staging is a function of a state, so the commit protocol can ask for it again when the branch moved meanwhile. What
it staged for an attempt that was lost stays on disk, invisible, until cleanup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import InputError, InvalidRow
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.tables.row_lookup import RowLocations
from omnigraph.storage.tables.stage_rows import stage_change, stage_overwrite
from omnigraph.write.arrow_rows import table_of
from omnigraph.write.change import Change, Resolved, require_one_per_type, resolve, type_of
from omnigraph.write.row_rules import Conformed, conform, named_ends
from omnigraph.write.set_rules import Proposal, StoredRows, refuse_violations, single_rows

_NOT_FOUND = RowLocations(pa.array([], pa.string()), np.array([], np.uint64), np.array([], np.uint64))

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Rows that a caller gives, for one commit.

    Attributes:
        base: snapshot the changes were computed from; None for changes that depend on no row.
        if_commit: head commit the caller insists on.
    """

    branch: str
    changes: Sequence[Change]
    actor: str | None = None
    kind: WriterKind = WriterKind.MUTATION
    base: ManifestSnapshot | None = None
    if_commit: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did: its commit (None when nothing changed) and rows per type."""

    commit: Commit | None
    put: Mapping[str, int]
    removed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """Changes that keep every rule, staged on one state; and how many rows each table gets and loses.

    Attributes:
        resolved: the final rows of each table that is touched, and the stored ones that they replace.
    """

    tables: Mapping[str, PreparedTable]
    put: Mapping[str, int]
    removed: Mapping[str, int]
    resolved: Mapping[str, Resolved]


@dataclass(frozen=True, slots=True)
class TypedChange:
    """The change of one type with its rows in the schema of their table, each id once."""

    type: NodeType | EdgeType
    change: Change
    rows: pa.Table
    fresh_ids: bool


def write(store: GraphStore, schemas: SchemaRegistry, request: WriteRequest) -> WriteResult:
    """Validate and commit given rows of any number of types as one commit."""
    if not isinstance(request.changes, Iterable):
        raise InputError(f"changes is a list of Change, not a {type(request.changes).__name__}")
    rows = _GivenRows(schemas, replace(request, changes=[_in_arrow(change) for change in request.changes]))
    done = run(
        store,
        Write(
            request.branch,
            request.kind,
            request.actor,
            rows.prepare,
            base=request.base,
            if_commit=request.if_commit,
            message=request.message,
        ),
    )
    return WriteResult(done.commit, done.report.put, done.report.removed)


def _in_arrow(change: object) -> Change:
    """The same change with its rows as a table, which can be looked at more than once."""
    if not isinstance(change, Change):
        hint = "pass omnigraph.Change values, such as Change('node:Person', rows), or use load"
        raise InputError(f"a change of the graph is no {type(change).__name__}", hint=hint)
    return change if change.put is None else replace(change, put=table_of(change.put, f"rows of '{change.table_key}'"))


@dataclass(slots=True)
class _GivenRows:
    """Rows of a request, typed once for each schema that they meet."""

    schemas: SchemaRegistry
    request: WriteRequest
    _typed: dict[str, list[TypedChange]] = field(default_factory=dict)

    def prepare(self, workspace: Workspace) -> Prepared[StagedChanges]:
        schema = self.schemas.of(workspace.snapshot)
        named = self.schemas.of(workspace.store.named(workspace.snapshot))
        if named.hash not in self._typed:
            with row_numbers(self.request.changes):
                self._typed[named.hash] = typed_changes(named.catalog, self.request.changes)
        has_base = self.request.base is not None
        staged = stage_changes(workspace, schema.catalog, self._typed[named.hash], has_base=has_base)
        return Prepared(staged, staged.tables, made_for=schema.hash)


@contextmanager
def row_numbers(changes: Sequence[Change]) -> Iterator[None]:
    """Rows that a caller gave: the error of one of several says which, counted from 1."""
    try:
        yield
    except InvalidRow as error:
        row = error.details.get("row")
        if row is not None and any(change.put is not None and len(change.put) > 1 for change in changes):
            error.hint = f"{error.hint}; row {row + 1}" if error.hint else f"row {row + 1}"
        raise


def typed_changes(catalog: Catalog, changes: Sequence[Change]) -> list[TypedChange]:
    """The row rules: every row in the schema of its table, or the first violation."""
    require_one_per_type(list(changes))
    return [_typed(catalog, change) for change in changes]


def stage_changes(
    workspace: Workspace, catalog: Catalog, changes: Sequence[TypedChange], *, has_base: bool = False
) -> StagedChanges:
    """Check changes against the rows that are stored and stage them, or raise the first violation.

    Args:
        has_base: the caller names the state that it computed the changes from.
    """
    found = side_by_side(
        lambda each: resolve(workspace, each.type, each.change, each.rows, each.fresh_ids),
        list(changes),
        workspace.threads,
    )
    resolved = {item.type.table_key: item for item in found}
    check_sets(workspace, catalog, resolved)
    return StagedChanges(
        tables=_stage(workspace, resolved, has_base),
        put={key: item.rows.num_rows for key, item in resolved.items() if item.change.put is not None},
        removed={key: item.removed.num_rows for key, item in resolved.items() if item.removed.num_rows},
        resolved=resolved,
    )


def _typed(catalog: Catalog, change: Change) -> TypedChange:
    type_ = type_of(catalog, change.table_key)
    if change.put is not None and change.conformed:
        put = Conformed(change.put, change.fresh_ids)
    else:
        rows = named_ends(type_, change.put) if change.put is not None else _no_rows(type_)
        put = conform(type_, rows, has_ids=change.has_ids)
        put = replace(put, fresh_ids=put.fresh_ids or (change.has_ids and change.fresh_ids))
    rows = put.rows if put.fresh_ids else single_rows(type_, change.mode, put.rows)
    return TypedChange(type_, change, rows, put.fresh_ids)


def _no_rows(type_: NodeType | EdgeType) -> pa.Table:
    columns = ["id", "src", "dst"] if isinstance(type_, EdgeType) else ["id"]
    return pa.schema([(name, pa.string()) for name in columns]).empty_table()


def check_sets(workspace: Workspace, catalog: Catalog, resolved: dict[str, Resolved]) -> None:
    """Raise the first violation of a rule about rows together, in the order that callers rely on."""
    refuse_violations(Proposal(catalog, resolved, StoredRows(workspace)))


def _stage(workspace: Workspace, resolved: dict[str, Resolved], has_base: bool) -> dict[str, PreparedTable]:
    def stage_one(item: Resolved) -> tuple[str, PreparedTable] | None:
        key = item.type.table_key
        if item.rows.num_rows == 0 and item.removed.num_rows == 0 and not item.overwrites:
            return None
        pin, handle = workspace.writable(key)
        if item.overwrites:
            if item.rows.num_rows == 0 and pin.row_count == 0:
                return None
            staged = stage_overwrite(handle, item.rows)
        else:
            change = stage_change(handle, pin.row_count, item.rows, found_rows(item.replaced), found_rows(item.removed))
            if change is None:
                return None
            staged = change
        return key, PreparedTable(pin, handle, staged, item.change.depends_on_rows(has_base))

    tables = side_by_side(stage_one, list(resolved.values()), workspace.threads)
    return dict(table for table in tables if table is not None)


def side_by_side(work: Callable[[_In], _Out], items: list[_In], threads: int = limits.TABLE_THREADS) -> list[_Out]:
    """Do the same for several tables at once. Each may wait for a section, so the threads belong to this call."""
    if len(items) <= 1 or threads <= 1:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(work, items))


def found_rows(rows: pa.Table) -> RowLocations:
    if rows.num_rows == 0:
        return _NOT_FOUND
    return RowLocations(rows.column("id").combine_chunks(), _numbers(rows, "_rowid"), _numbers(rows, "_rowaddr"))


def _numbers(rows: pa.Table, column: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.asarray(rows.column(column).to_numpy(), np.uint64)
