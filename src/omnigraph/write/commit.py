"""The way through: rows → row rules → set rules → staged tables → one commit.

Preparing is a function of a snapshot, so the commit protocol can run it again when the branch moved meanwhile. What
does not depend on the snapshot (row rules, ids) is done once, before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.protocol import Prepared, PreparedTable, Workspace, Writer, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.manifest import Commit
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.stage import Found, stage_change, stage_overwrite
from omnigraph.storage.store import GraphStore
from omnigraph.write.change import Change, require_one_per_type, type_of
from omnigraph.write.resolved import Resolved, resolve
from omnigraph.write.rows import Conformed, conform
from omnigraph.write.set_rules import Proposal, StoredRows, refuse_violations, single_rows

_NOT_FOUND = Found(pa.array([], pa.string()), np.array([], np.uint64), np.array([], np.uint64))

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write.

    Attributes:
        base: snapshot the changes were computed from; None for changes that depend on no row.
        if_commit: head commit the caller insists on.
        compute: makes the changes from the state they will be committed on, instead of ``changes``; asked again when
            that state moved.
        strict: a table whose rows were read and that moved since is a conflict, even if ``compute`` could be asked.
    """

    branch: str
    changes: Sequence[Change]
    actor: str | None = None
    kind: WriterKind = WriterKind.MUTATION
    base: Snapshot | None = None
    if_commit: str | None = None
    compute: Callable[[Workspace], Sequence[Change]] | None = None
    strict: bool = True


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did: its commit (None when nothing changed) and rows per type."""

    commit: Commit | None
    put: dict[str, int]
    removed: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Typed:
    type: NodeType | EdgeType
    change: Change
    rows: pa.Table
    fresh_ids: bool


def write(store: GraphStore, catalog: Catalog, request: WriteRequest) -> WriteResult:
    """Validate and commit changes of any number of types as one commit."""
    given = _typed_all(catalog, request.changes)
    outcome: dict[str, dict[str, int]] = {}

    def prepare(workspace: Workspace) -> Prepared:
        typed = _typed_all(catalog, request.compute(workspace)) if request.compute else given
        found = side_by_side(
            lambda item: resolve(workspace, item.type, item.change, item.rows, item.fresh_ids), typed, workspace.threads
        )
        resolved = {item.type.table_key: item for item in found}
        check_sets(workspace, catalog, resolved)
        outcome["put"] = {key: item.rows.num_rows for key, item in resolved.items() if item.change.put is not None}
        outcome["removed"] = {key: item.removed.num_rows for key, item in resolved.items() if item.removed.num_rows}
        return Prepared(_stage(workspace, resolved, request))

    writer = Writer(
        request.branch, request.kind, request.actor, prepare, request.base, request.if_commit, catalog.hash or None
    )
    commit = run(store, writer)
    return WriteResult(commit, outcome.get("put", {}), outcome.get("removed", {}))


def _typed_all(catalog: Catalog, changes: Sequence[Change]) -> list[_Typed]:
    require_one_per_type(list(changes))
    return [_typed(catalog, change) for change in changes]


def _typed(catalog: Catalog, change: Change) -> _Typed:
    type_ = type_of(catalog, change.table_key)
    if change.put is not None and change.conformed:
        put = Conformed(change.put, change.fresh_ids)
    else:
        put = conform(type_, change.put if change.put is not None else _no_rows(type_))
    rows = put.rows if put.fresh_ids else single_rows(type_, change.mode, put.rows)
    return _Typed(type_, change, rows, put.fresh_ids)


def _no_rows(type_: NodeType | EdgeType) -> pa.Table:
    columns = ["id", "src", "dst"] if isinstance(type_, EdgeType) else ["id"]
    return pa.schema([(name, pa.string()) for name in columns]).empty_table()


def check_sets(workspace: Workspace, catalog: Catalog, resolved: dict[str, Resolved]) -> None:
    """Raise the first violation of a rule about rows together, in the order that callers rely on."""
    refuse_violations(Proposal(catalog, resolved, StoredRows(workspace)))


def _stage(workspace: Workspace, resolved: dict[str, Resolved], request: WriteRequest) -> dict[str, PreparedTable]:
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
        reads_rows = request.strict and item.change.depends_on_rows(request.base is not None)
        return key, PreparedTable(pin, handle, staged, reads_rows)

    tables = side_by_side(stage_one, list(resolved.values()), workspace.threads)
    return dict(table for table in tables if table is not None)


def side_by_side(work: Callable[[_In], _Out], items: list[_In], threads: int = limits.TABLE_THREADS) -> list[_Out]:
    """Do the same for several tables at once. Each may wait for a section, so the threads belong to this call."""
    if len(items) <= 1 or threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(work, items))


def found_rows(rows: pa.Table) -> Found:
    if rows.num_rows == 0:
        return _NOT_FOUND
    return Found(rows.column("id").combine_chunks(), _numbers(rows, "_rowid"), _numbers(rows, "_rowaddr"))


def _numbers(rows: pa.Table, column: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.asarray(rows.column(column).to_numpy(), np.uint64)
