"""The recovery record of one write: what it is about to do, complete enough for another process to finish it.

Its values, their JSON form, and its file: written before any table moves, removed after everything is published.
Fields that other software does not know are additions; the record stays readable for it, and records of other or older
software stay readable here. Nothing here decides anything, see `recovery/`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import lance
import pyarrow as pa
from lance.bitmap import Bitmap
from lance.fragment import DataFile, FragmentMetadata

from omnigraph import failpoints, ids
from omnigraph.errors import InternalError, StorageError, UnreadableSidecar
from omnigraph.storage.commit.preparation import CommitDraft, SchemaChange
from omnigraph.storage.metadata.commit_note import note_of
from omnigraph.storage.metadata.commit_part import parts_of, parts_to_json
from omnigraph.storage.metadata.manifest import Commit, Pin
from omnigraph.storage.objects.locks import RECOVERY_DIRECTORY
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables.datasets import OPERATION
from omnigraph.storage.tables.schema_parts import schema_from_parts, schema_to_parts
from omnigraph.storage.tables.stage_rows import StagedTransaction

#: Version of the recovery record; any other value is refused.
_SIDECAR_SCHEMA_VERSION = 1


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
class TableIntent:
    """One table that the write moves.

    Attributes:
        uri: full address when the record was written; a moved graph has another one, so it is only a label.
        expected_version: the table's version before; 0 when this write makes the table.
        branch: Lance branch on which the commit lands; None is the main lineage.
        staged: the transaction, None in a record of software that cannot redo.
        location: path below the graph root; None in a record of older software: where the graph says.
        shown_version: what the graph shows under this key before, if that is another number: the table is new to it,
            comes back after a drop, or carries a new name.
    """

    table_key: str
    uri: str
    expected_version: int
    post_commit_pin: int
    branch: str | None
    staged: StagedTransaction | None = None
    location: str | None = None
    shown_version: int | None = None

    @property
    def replaces(self) -> int:
        return self.expected_version if self.shown_version is None else self.shown_version


@dataclass(frozen=True, slots=True)
class Pointer:
    """A table version that the write shows as it is, in place of the version the graph shows."""

    pin: Pin
    replaces: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A table that the write takes out of the graph."""

    table_key: str
    version: int
    replaces: int


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The record of one attempt.

    Attributes:
        commit: the commit that the write makes; the last one where it makes several.
        earlier: those before it, in their order.
        base_head: commit that the write was computed on. Only while it is the head can the write still be published.
        base_identity: which branch of this name that was; None in a record of older software.
    """

    operation_id: str
    branch: str
    actor: str | None
    kind: WriterKind
    tables: tuple[TableIntent, ...]
    started_at: datetime
    commit: CommitDraft | None = None
    earlier: tuple[CommitDraft, ...] = ()
    base_head: str | None = None
    base_identity: str | None = None
    base_schema: str | None = None
    merge_source: str | None = None
    registrations: tuple[tuple[str, str, str | None], ...] = ()
    pointers: tuple[Pointer, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    merged_commits: tuple[Commit, ...] = ()
    schema: SchemaChange | None = None
    aborted: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def can_redo(self) -> bool:
        return self.commit is not None and all(table.staged is not None for table in self.tables)


def to_json(sidecar: Sidecar) -> dict[str, Any]:
    record: dict[str, Any] = {
        "schema_version": _SIDECAR_SCHEMA_VERSION,
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
    if sidecar.registrations:
        record["additional_registrations"] = [
            {"table_key": key, "table_path": path, **({"table_branch": branch} if branch else {})}
            for key, path, branch in sidecar.registrations
        ]
    if sidecar.tombstones:
        record["tombstones"] = [
            {"table_key": entry.table_key, "tombstone_version": entry.version, "expected_version": entry.replaces}
            for entry in sidecar.tombstones
        ]
    if sidecar.pointers:
        record["pointers"] = [_pointer_to_json(pointer) for pointer in sidecar.pointers]
    if sidecar.commit:
        record["intent"] = _intent_to_json(sidecar, sidecar.commit)
    if sidecar.schema:
        record["schema"] = _schema_to_json(sidecar.schema)
    if sidecar.aborted:
        record["decision"] = "abort"
    return record


def _intent_to_json(sidecar: Sidecar, commit: CommitDraft) -> dict[str, Any]:
    intent: dict[str, Any] = {
        "commit": _draft_to_json(commit),
        "base": {
            "head_commit_id": sidecar.base_head,
            "schema_ir_hash": sidecar.base_schema,
            "branch_identifier": sidecar.base_identity,
        },
    }
    if sidecar.earlier:
        intent["earlier"] = [_draft_to_json(draft) for draft in sidecar.earlier]
    if sidecar.merged_commits:
        intent["merged_commits"] = [
            commit.to_dict() | ({"parts": parts_to_json(commit.parts)} if commit.parts else {})
            for commit in sidecar.merged_commits
        ]
    return intent


def _draft_to_json(draft: CommitDraft) -> dict[str, Any]:
    record: dict[str, Any] = {
        "graph_commit_id": draft.id,
        "actor_id": draft.actor,
        "merged_parent": draft.merged_parent,
        "created_at": ids.micros(draft.created_at),
        **draft.note,
    }
    if draft.labels:
        record["labels"] = dict(draft.labels)
    if draft.parts:
        record["parts"] = parts_to_json(draft.parts)
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
    if table.location:
        record["location"] = table.location
    if table.shown_version is not None:
        record["shown_version"] = table.shown_version
    if table.staged:
        record["transactions"] = [transaction_to_json(table.staged)]
    return record


def _pointer_to_json(pointer: Pointer) -> dict[str, Any]:
    pin = pointer.pin
    return {
        "table_key": pin.table_key,
        "location": pin.location,
        "table_version": pin.version,
        "table_branch": pin.branch,
        "row_count": pin.row_count,
        "metadata": pin.metadata,
        "expected_version": pointer.replaces,
    }


def _schema_to_json(schema: SchemaChange) -> dict[str, Any]:
    return {
        "target_hash": schema.hash,
        "source": schema.source,
        "ir": schema.ir,
        "state": schema.state,
        "purge": list(schema.purge),
        "remove": list(schema.remove),
    }


def from_json(record: dict[str, Any], operation_id: str) -> Sidecar:
    """Read a record; whatever a damaged one raises is for the caller to explain."""
    if record["operation_id"] != operation_id:
        raise ValueError("operation_id differs from the file name")
    intent = record.get("intent") or {}
    return Sidecar(
        operation_id=operation_id,
        branch=_optional(record["branch"]) or ids.MAIN,
        actor=_optional(record["actor_id"]),
        kind=WriterKind(record["writer_kind"]),
        tables=tuple(_read_table(table) for table in record["tables"]),
        started_at=ids.from_micros(int(record["started_at"])),
        commit=_read_draft(intent["commit"]) if intent.get("commit") else None,
        earlier=tuple(_read_draft(draft) for draft in intent.get("earlier", ())),
        base_head=_optional(intent.get("base", {}).get("head_commit_id")),
        base_identity=_optional(intent.get("base", {}).get("branch_identifier")),
        base_schema=_optional(intent.get("base", {}).get("schema_ir_hash")),
        merge_source=_optional(record.get("merge_source_commit_id")),
        registrations=tuple(
            (_text(entry["table_key"]), _text(entry["table_path"]), _optional(entry.get("table_branch")))
            for entry in record.get("additional_registrations", ())
        ),
        pointers=tuple(_read_pointer(entry) for entry in record.get("pointers", ())),
        tombstones=tuple(_read_tombstone(entry) for entry in record.get("tombstones", ())),
        merged_commits=tuple(_read_commit(entry) for entry in intent.get("merged_commits", ())),
        schema=_read_schema(record["schema"]) if record.get("schema") else None,
        aborted=record.get("decision") == "abort",
    )


def _read_draft(record: dict[str, Any]) -> CommitDraft:
    return CommitDraft(
        id=_text(record["graph_commit_id"]),
        actor=_optional(record["actor_id"]),
        created_at=ids.from_micros(int(record["created_at"])),
        merged_parent=_optional(record["merged_parent"]),
        labels=_labels(record.get("labels")),
        note=note_of(record),
        parts=parts_of(record),
    )


def _read_commit(record: dict[str, Any]) -> Commit:
    return Commit(
        id=_text(record["graph_commit_id"]),
        branch=_optional(record["graph_branch"]) or ids.MAIN,
        version=int(record["graph_manifest_version"]),
        parent=_optional(record["parent_commit_id"]),
        merged_parent=_optional(record["merged_parent_commit_id"]),
        actor=_optional(record["actor_id"]),
        created_at=ids.from_micros(int(record["created_at"])),
        labels=_labels(record.get("labels")),
        note=note_of(record),
        parts=parts_of(record),
    )


def _read_table(record: dict[str, Any]) -> TableIntent:
    transactions = record.get("transactions") or []
    if len(transactions) > 1:
        raise ValueError("more than one transaction for a table")
    shown = record.get("shown_version")
    return TableIntent(
        table_key=_text(record["table_key"]),
        uri=_text(record["table_path"]),
        expected_version=int(record["expected_version"]),
        post_commit_pin=int(record["post_commit_pin"]),
        branch=_optional(record.get("table_branch")),
        staged=transaction_from_json(transactions[0]) if transactions else None,
        location=_location(record["location"]) if record.get("location") else None,
        shown_version=int(shown) if shown is not None else None,
    )


def _read_pointer(record: dict[str, Any]) -> Pointer:
    pin = Pin(
        table_key=_text(record["table_key"]),
        location=_location(record["location"]),
        version=int(record["table_version"]),
        branch=_optional(record["table_branch"]),
        row_count=int(record["row_count"]),
        metadata=_text(record["metadata"]),
    )
    return Pointer(pin, int(record["expected_version"]))


def _read_tombstone(record: dict[str, Any]) -> Tombstone:
    """Other software puts a tombstone right above the version that it hides."""
    version = int(record["tombstone_version"])
    return Tombstone(_text(record["table_key"]), version, int(record.get("expected_version", version - 1)))


def _read_schema(record: dict[str, Any]) -> SchemaChange:
    return SchemaChange(
        hash=_text(record["target_hash"]),
        source=_text(record["source"]),
        ir=_text(record["ir"]),
        state=_text(record["state"]),
        purge=tuple(_location(location) for location in record.get("purge", ())),
        remove=tuple(_location(location) for location in record.get("remove", ())),
    )


def _labels(record: dict[str, Any] | None) -> dict[str, str]:
    return {_text(name): str(value) for name, value in (record or {}).items()}


def _location(value: Any) -> str:
    """A path below the root; a record must never lead out of it."""
    text = _text(value)
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"{text!r} leads out of the graph")
    return text


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    return value


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


#: What reading damaged JSON, fields and transactions may raise.
_DAMAGE: tuple[type[Exception], ...] = (LookupError, OverflowError, *READ_EXCEPTIONS)


def write(objects: ObjectStore, sidecar: Sidecar) -> None:
    failpoints.reach("recovery.sidecar_write")
    objects.write(_path(sidecar.operation_id), json.dumps(to_json(sidecar)).encode())


def remove(objects: ObjectStore, operation_id: str) -> bool:
    """Remove a record whose work is done. A failure is harmless (the next writer sees that it is stale): False."""
    try:
        failpoints.reach("recovery.sidecar_delete")
        objects.delete(_path(operation_id))
        return True
    except StorageError:
        return False


def pending(objects: ObjectStore) -> list[str]:
    """Operation ids of all records, oldest first. A listing that fails is never taken for an empty one."""
    failpoints.reach("recovery.sidecar_list")
    return [name[: -len(".json")] for name in objects.names(RECOVERY_DIRECTORY) if name.endswith(".json")]


def read(objects: ObjectStore, operation_id: str) -> Sidecar | None:
    """A record, or None when its writer finished since it was listed."""
    failpoints.reach("recovery.post_sidecar_list_pre_read")
    content = objects.read(_path(operation_id))
    if content is None:
        return None
    try:
        record = json.loads(content)
        version = record["schema_version"]
        if version == _SIDECAR_SCHEMA_VERSION:
            return from_json(record, operation_id)
    except _DAMAGE as error:
        raise UnreadableSidecar(
            f"the recovery record {_path(operation_id)} cannot be read ({type(error).__name__})",
            hint="it is kept; restore it from a copy or ask for help before removing it",
            operation_id=operation_id,
        ) from error
    raise UnreadableSidecar(
        f"the recovery record {_path(operation_id)} has version {version!r}, "
        f"this software knows {_SIDECAR_SCHEMA_VERSION}",
        hint="upgrade omnigraph",
        operation_id=operation_id,
        found_version=version,
        supported_version=_SIDECAR_SCHEMA_VERSION,
    )


def _path(operation_id: str) -> str:
    return f"{RECOVERY_DIRECTORY}/{operation_id}.json"


_OPERATIONS = lance.LanceOperation
_FILE_FIELDS = tuple(field.name for field in dataclasses.fields(DataFile))


def transaction_to_json(staged: StagedTransaction) -> dict[str, Any]:
    return {
        "uuid": staged.uuid,
        "read_version": staged.read_version,
        "rows_after": staged.rows_after,
        "operation": _operation_to_json(staged.operation),
        "digests": dict(staged.digests),
    }


def transaction_from_json(record: dict[str, Any]) -> StagedTransaction:
    """Read a staged transaction; whatever a damaged one raises is for the reader of the whole record to explain."""
    return StagedTransaction(
        operation=_operation_from_json(record["operation"]),
        read_version=int(record["read_version"]),
        rows_after=int(record["rows_after"]),
        uuid=str(record["uuid"]),
        digests={str(name): str(digest) for name, digest in (record.get("digests") or {}).items()},
    )


def transaction(staged: StagedTransaction, operation_id: str) -> Any:
    """The Lance transaction to commit, marked as one of ours: what it makes without being shown is harmless."""
    return lance.Transaction(
        staged.read_version, staged.operation, uuid=staged.uuid, transaction_properties={OPERATION: operation_id}
    )


def _operation_to_json(operation: Any) -> dict[str, Any]:
    if isinstance(operation, _OPERATIONS.Append):
        return {"kind": "append", "fragments": _fragments(operation.fragments)}
    if isinstance(operation, _OPERATIONS.Update):
        return {
            "kind": "update",
            "removed_fragment_ids": list(operation.removed_fragment_ids),
            "updated_fragments": _fragments(operation.updated_fragments),
            "new_fragments": _fragments(operation.new_fragments),
        }
    if isinstance(operation, _OPERATIONS.Overwrite):
        schema = base64.b64encode(_arrow(operation.new_schema).serialize().to_pybytes()).decode()
        return {"kind": "overwrite", "schema": schema, "fragments": _fragments(operation.fragments)}
    if isinstance(operation, _OPERATIONS.Merge):
        fragments = _fragments(operation.fragments)
        return {"kind": "merge", "fragments": fragments, "schema": _lance_schema(operation.schema)}
    if isinstance(operation, _OPERATIONS.Project):
        return {"kind": "project", "schema": _lance_schema(operation.schema)}
    if isinstance(operation, _OPERATIONS.CreateIndex):
        record = {"kind": "create_index", "new_indices": [index_to_json(index) for index in operation.new_indices]}
        removed = [index_to_json(index) for index in operation.removed_indices]
        return record | {"removed_indices": removed} if removed else record
    if isinstance(operation, _OPERATIONS.Rewrite):
        groups = [(_fragments(group.old_fragments), _fragments(group.new_fragments)) for group in operation.groups]
        return {"kind": "rewrite", "groups": [{"old": old, "new": new} for old, new in groups]}
    raise InternalError(f"no recovery record can hold a {type(operation).__name__} operation")


def _operation_from_json(record: dict[str, Any]) -> Any:
    match record["kind"]:
        case "append":
            return _OPERATIONS.Append(_read_fragments(record["fragments"]))
        case "update":
            return _OPERATIONS.Update(
                removed_fragment_ids=[int(value) for value in record["removed_fragment_ids"]],
                updated_fragments=_read_fragments(record["updated_fragments"]),
                new_fragments=_read_fragments(record["new_fragments"]),
            )
        case "overwrite":
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(record["schema"])))
            return _OPERATIONS.Overwrite(schema, _read_fragments(record["fragments"]))
        case "merge":
            return _OPERATIONS.Merge(_read_fragments(record["fragments"]), _read_lance_schema(record["schema"]))
        case "project":
            return _OPERATIONS.Project(_read_lance_schema(record["schema"]))
        case "create_index":
            removed = [index_from_json(index) for index in record.get("removed_indices", ())]
            return _OPERATIONS.CreateIndex([index_from_json(index) for index in record["new_indices"]], removed)
        case "rewrite":
            groups = [(_read_fragments(group["old"]), _read_fragments(group["new"])) for group in record["groups"]]
            return _OPERATIONS.Rewrite([_OPERATIONS.RewriteGroup(old, new) for old, new in groups], [])
    raise ValueError(f"operation {record['kind']!r}")


def _lance_schema(schema: Any) -> dict[str, Any]:
    metadata, fields = schema_to_parts(schema)
    return {"metadata": metadata, "fields": [base64.b64encode(field).decode() for field in fields]}


def _read_lance_schema(record: dict[str, Any]) -> Any:
    return schema_from_parts(record["metadata"], [base64.b64decode(field) for field in record["fields"]])


def _arrow(schema: Any) -> pa.Schema:
    return schema if isinstance(schema, pa.Schema) else schema.to_pyarrow()


def _fragments(fragments: Any) -> list[dict[str, Any]]:
    return [_fragment_to_json(fragment) for fragment in fragments]


def _fragment_to_json(fragment: Any) -> dict[str, Any]:
    """What Lance's own `to_json` gives, without the copies of all lists that it makes on the way."""
    if fragment.overlays:
        return dict(fragment.to_json())
    return {
        "id": fragment.id,
        "files": [_file_to_json(file) for file in fragment.files],
        "overlays": [],
        "physical_rows": fragment.physical_rows,
        "deletion_file": fragment.deletion_file.asdict() if fragment.deletion_file is not None else None,
        "row_id_meta": fragment.row_id_meta.asdict() if fragment.row_id_meta is not None else None,
        "created_at_version_meta": _version_meta(fragment.created_at_version_meta),
        "last_updated_at_version_meta": _version_meta(fragment.last_updated_at_version_meta),
    }


def _file_to_json(file: DataFile) -> dict[str, Any]:
    values = {name: getattr(file, name) for name in _FILE_FIELDS}
    values["path"] = values.pop("_path")
    return values


def _version_meta(meta: Any) -> Any:
    return json.loads(meta.json()) if meta is not None else None


def _read_fragments(records: list[dict[str, Any]]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(json.dumps(record)) for record in records]


def index_to_json(index: Any) -> dict[str, Any]:
    """A segment of an index, as `lance.Index`."""
    details = index.index_details
    return {
        "uuid": index.uuid,
        "name": index.name,
        "fields": list(index.fields),
        "dataset_version": index.dataset_version,
        "fragment_ids": list(index.fragment_ids),
        "index_version": index.index_version,
        "created_at": index.created_at.isoformat() if index.created_at else None,
        "files": [dataclasses.asdict(file) for file in index.files] if index.files is not None else None,
        "index_details": [details[0], base64.b64encode(details[1]).decode()] if details else None,
    }


def index_from_json(record: dict[str, Any]) -> Any:
    details = record["index_details"]
    return lance.Index(
        uuid=record["uuid"],
        name=record["name"],
        fields=record["fields"],
        dataset_version=record["dataset_version"],
        fragment_ids=Bitmap(record["fragment_ids"]),
        index_version=record["index_version"],
        created_at=datetime.fromisoformat(record["created_at"]) if record["created_at"] else None,
        files=[lance.IndexFile(**file) for file in record["files"]] if record["files"] is not None else None,
        index_details=(details[0], base64.b64decode(details[1])) if details else None,
    )
