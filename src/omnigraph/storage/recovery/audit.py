"""One row per recovery, for operators: what was interrupted, and how it ended.

Looked up before it is written, so that a recovery that is itself interrupted leaves one row and not two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Literal

import pyarrow as pa

from omnigraph import failpoints, ids
from omnigraph.errors import CorruptGraph, RecoveryRequired, StorageError, StoreUnavailable
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.metadata.commit_mirror import append_strictly
from omnigraph.storage.objects.native_libraries import (
    READ_EXCEPTIONS,
    CommitConflictError,
    is_damage,
    panics_as_damage,
    reason,
)
from omnigraph.storage.tables.datasets import Tables

PATH = "_graph_commit_recoveries.lance"
SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("sidecar_writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes_json", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)

Kind = Literal["RolledForward", "RolledBack"]
_RACES = 8
_FAILURES: tuple[type[Exception], ...] = (StorageError, *READ_EXCEPTIONS)


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The versions of one table before and after a recovery."""

    table_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """An audit row as operators read it."""

    operation_id: str
    kind: str
    commit_id: str
    actor: str | None
    writer_kind: str
    outcomes: tuple[TableOutcome, ...]


def record(tables: Tables, sidecar: Sidecar, kind: Kind, commit_id: str, outcomes: list[TableOutcome]) -> None:
    """Write the row of an operation unless it is there.

    A list that cannot be read takes no rows. It is for people; no write waits for it.
    """
    failpoints.reach("recovery.record_audit")
    row = {
        "graph_commit_id": commit_id,
        "recovery_kind": kind,
        "recovery_for_actor": sidecar.actor,
        "operation_id": sidecar.operation_id,
        "sidecar_writer_kind": sidecar.kind.value,
        "per_table_outcomes_json": json.dumps(
            [{"table_key": o.table_key, "from_version": o.from_version, "to_version": o.to_version} for o in outcomes]
        ),
        "created_at": ids.now().replace(tzinfo=None),
    }
    try:
        with panics_as_damage():
            _append_once(tables, row)
    except _FAILURES as error:
        if not is_damage(error):
            raise StoreUnavailable(f"could not record the recovery: {reason(error)}") from error


def _append_once(tables: Tables, row: dict[str, Any]) -> None:
    for _ in range(_RACES):
        handle = tables.newest_or_none(PATH)
        if handle is None:
            handle = tables.create(PATH, SCHEMA)
        if row["operation_id"] in handle.to_table(columns=["operation_id"]).column(0).to_pylist():
            return
        try:
            append_strictly(handle, pa.Table.from_pylist([row], schema=SCHEMA))
            return
        except CommitConflictError:
            continue
    raise RecoveryRequired("the audit of a recovery kept losing its race", operation_id=row["operation_id"])


def recoveries(tables: Tables) -> list[Recovery]:
    """Every recovery of the graph, oldest first.

    Raises:
        CorruptGraph: the list cannot be read.
    """
    try:
        with panics_as_damage():
            handle = tables.newest_or_none(PATH)
            found = handle.to_table().to_pylist() if handle is not None else []
    except _FAILURES as error:
        kind = CorruptGraph if is_damage(error) else StoreUnavailable
        raise kind(f"{PATH} cannot be read: {reason(error)}") from error
    rows = sorted(found, key=lambda row: row["created_at"].replace(tzinfo=UTC))
    return [
        Recovery(
            operation_id=row["operation_id"],
            kind=row["recovery_kind"],
            commit_id=row["graph_commit_id"],
            actor=row["recovery_for_actor"],
            writer_kind=row["sidecar_writer_kind"],
            outcomes=tuple(TableOutcome(**outcome) for outcome in json.loads(row["per_table_outcomes_json"])),
        )
        for row in rows
    ]
