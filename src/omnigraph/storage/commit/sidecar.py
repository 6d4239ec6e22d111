"""The recovery record of one write: what it is about to do, complete enough for somebody else to finish it.

It is durable before any table moves and removed after everything is published. Fields that other software does not
know are additions; the record stays readable for it. Nothing here decides anything, see `recovery/`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from omnigraph import failpoints, ids, limits
from omnigraph.errors import StorageError, UnreadableSidecar
from omnigraph.storage.commit import redo
from omnigraph.storage.faults import READ_EXCEPTIONS
from omnigraph.storage.objects import Objects
from omnigraph.storage.section import RECOVERY_DIRECTORY
from omnigraph.storage.stage import Staged


class WriterKind(StrEnum):
    """Who writes. The first two commit exactly once per table, the others may commit several times."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"

    @property
    def is_strict(self) -> bool:
        return self in (WriterKind.MUTATION, WriterKind.LOAD)

    @property
    def preserves_content(self) -> bool:
        return self in (WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE)


@dataclass(frozen=True, slots=True)
class CommitDraft:
    """A commit before it has a parent and a version: minted with the write, so that recovery keeps its author."""

    id: str
    actor: str | None
    created_at: datetime
    merged_parent: str | None = None


@dataclass(frozen=True, slots=True)
class TableIntent:
    """One table that the write moves.

    Attributes:
        uri: full address when the record was written; a moved graph has another one, so it is only a label.
        branch: Lance branch on which the commit lands; None is the main lineage.
        staged: the transaction, None in a record of software that cannot redo.
    """

    table_key: str
    uri: str
    expected_version: int
    post_commit_pin: int
    branch: str | None
    staged: Staged | None = None


@dataclass(frozen=True, slots=True)
class Sidecar:
    operation_id: str
    branch: str
    actor: str | None
    kind: WriterKind
    tables: tuple[TableIntent, ...]
    started_at: datetime
    commit: CommitDraft | None = None
    base_head: str | None = None
    merge_source: str | None = None
    registrations: tuple[tuple[str, str, str | None], ...] = ()
    tombstones: tuple[tuple[str, int], ...] = ()
    aborted: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def can_redo(self) -> bool:
        return self.commit is not None and all(table.staged is not None for table in self.tables)


#: What reading damaged JSON, fields and transactions may raise.
_DAMAGE: tuple[type[Exception], ...] = (LookupError, OverflowError, *READ_EXCEPTIONS)


def write(objects: Objects, sidecar: Sidecar) -> None:
    failpoints.reach("recovery.sidecar_write")
    objects.write(_path(sidecar.operation_id), json.dumps(_to_json(sidecar)).encode())


def remove(objects: Objects, operation_id: str) -> bool:
    """Remove a record whose work is done. A failure is harmless (the next writer sees that it is stale): False."""
    try:
        failpoints.reach("recovery.sidecar_delete")
        objects.delete(_path(operation_id))
        return True
    except StorageError:
        return False


def pending(objects: Objects) -> list[str]:
    """Operation ids of all records, oldest first. A listing that fails is never taken for an empty one."""
    failpoints.reach("recovery.sidecar_list")
    return [name[: -len(".json")] for name in objects.names(RECOVERY_DIRECTORY) if name.endswith(".json")]


def read(objects: Objects, operation_id: str) -> Sidecar | None:
    """A record, or None when its writer finished since it was listed."""
    failpoints.reach("recovery.post_sidecar_list_pre_read")
    content = objects.read(_path(operation_id))
    if content is None:
        return None
    try:
        record = json.loads(content)
        version = record["schema_version"]
        if version == limits.SIDECAR_SCHEMA_VERSION:
            return _from_json(record, operation_id)
    except _DAMAGE as error:
        raise UnreadableSidecar(
            f"the recovery record {_path(operation_id)} cannot be read ({type(error).__name__})",
            hint="it is kept; restore it from a copy or ask for help before removing it",
            operation_id=operation_id,
        ) from error
    raise UnreadableSidecar(
        f"the recovery record {_path(operation_id)} has version {version!r}, "
        f"this software knows {limits.SIDECAR_SCHEMA_VERSION}",
        hint="upgrade omnigraph",
        operation_id=operation_id,
        found_version=version,
        supported_version=limits.SIDECAR_SCHEMA_VERSION,
    )


def _path(operation_id: str) -> str:
    return f"{RECOVERY_DIRECTORY}/{operation_id}.json"


def _to_json(sidecar: Sidecar) -> dict[str, Any]:
    record: dict[str, Any] = {
        "schema_version": limits.SIDECAR_SCHEMA_VERSION,
        "operation_id": sidecar.operation_id,
        "started_at": str(ids.micros(sidecar.started_at)),
        "branch": None if sidecar.branch == ids.MAIN else sidecar.branch,
        "actor_id": sidecar.actor,
        "writer_kind": sidecar.kind.value,
        "tables": [_table_to_json(table) for table in sidecar.tables],
        **sidecar.extra,
    }
    if sidecar.merge_source:
        record["merge_source_commit_id"] = sidecar.merge_source
    if sidecar.commit:
        record["intent"] = {
            "commit": {
                "graph_commit_id": sidecar.commit.id,
                "actor_id": sidecar.commit.actor,
                "merged_parent": sidecar.commit.merged_parent,
                "created_at": ids.micros(sidecar.commit.created_at),
            },
            "base": {"head_commit_id": sidecar.base_head},
        }
    if sidecar.aborted:
        record["decision"] = "abort"
    return record


def _table_to_json(table: TableIntent) -> dict[str, Any]:
    record: dict[str, Any] = {
        "table_key": table.table_key,
        "table_path": table.uri,
        "expected_version": table.expected_version,
        "post_commit_pin": table.post_commit_pin,
    }
    if table.branch:
        record["table_branch"] = table.branch
    if table.staged:
        record["transactions"] = [redo.to_json(table.staged)]
    return record


def _from_json(record: dict[str, Any], operation_id: str) -> Sidecar:
    if record["operation_id"] != operation_id:
        raise ValueError("operation_id differs from the file name")
    commit = (record.get("intent") or {}).get("commit")
    return Sidecar(
        operation_id=operation_id,
        branch=_optional(record["branch"]) or ids.MAIN,
        actor=_optional(record["actor_id"]),
        kind=WriterKind(record["writer_kind"]),
        tables=tuple(_table_from_json(table) for table in record["tables"]),
        started_at=ids.from_micros(int(record["started_at"])),
        commit=CommitDraft(
            id=_text(commit["graph_commit_id"]),
            actor=_optional(commit["actor_id"]),
            created_at=ids.from_micros(int(commit["created_at"])),
            merged_parent=_optional(commit["merged_parent"]),
        )
        if commit
        else None,
        base_head=_optional((record.get("intent") or {}).get("base", {}).get("head_commit_id")),
        merge_source=_optional(record.get("merge_source_commit_id")),
        registrations=tuple(
            (_text(entry["table_key"]), _text(entry["table_path"]), _optional(entry.get("table_branch")))
            for entry in record.get("additional_registrations", ())
        ),
        tombstones=tuple(
            (_text(entry["table_key"]), int(entry["tombstone_version"])) for entry in record.get("tombstones", ())
        ),
        aborted=record.get("decision") == "abort",
    )


def _table_from_json(record: dict[str, Any]) -> TableIntent:
    transactions = record.get("transactions") or []
    if len(transactions) > 1:
        raise ValueError("more than one transaction for a table")
    return TableIntent(
        table_key=_text(record["table_key"]),
        uri=_text(record["table_path"]),
        expected_version=int(record["expected_version"]),
        post_commit_pin=int(record["post_commit_pin"]),
        branch=_optional(record.get("table_branch")),
        staged=redo.from_json(transactions[0]) if transactions else None,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    return value


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)
