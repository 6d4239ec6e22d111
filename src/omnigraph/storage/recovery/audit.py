"""One row per recovery, for operators: what was interrupted, and how it ended.

Looked up before it is written, so that a recovery that is itself interrupted leaves one row and not two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from typing import Literal

import pyarrow as pa

from omnigraph import failpoints, ids
from omnigraph.errors import RecoveryRequired
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.faults import CommitConflictError, store_errors
from omnigraph.storage.mirror import append_strictly
from omnigraph.storage.tables import Tables

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


@dataclass(frozen=True, slots=True)
class TableOutcome:
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
    """Write the row of an operation unless it is there."""
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
    with store_errors("record the recovery"):
        for _ in range(_RACES):
            handle = tables.newest_or_none(PATH)
            if handle is None:
                handle = tables.create(PATH, SCHEMA)
            if sidecar.operation_id in handle.to_table(columns=["operation_id"]).column(0).to_pylist():
                return
            try:
                append_strictly(handle, pa.Table.from_pylist([row], schema=SCHEMA))
                return
            except CommitConflictError:
                continue
    raise RecoveryRequired("the audit of a recovery kept losing its race", operation_id=sidecar.operation_id)


def recoveries(tables: Tables) -> list[Recovery]:
    """Every recovery of the graph, oldest first."""
    handle = tables.newest_or_none(PATH)
    if handle is None:
        return []
    rows = sorted(handle.to_table().to_pylist(), key=lambda row: row["created_at"].replace(tzinfo=UTC))
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
