"""Staged transactions as JSON and back, so that a recovery record can finish what its writer could not.

Covers exactly the operations that OmniGraph stages: append, update, overwrite, merge, project, create-index.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from datetime import datetime
from typing import Any

import lance
import pyarrow as pa
from lance.bitmap import Bitmap
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.errors import InternalError
from omnigraph.storage.tables.datasets import OPERATION
from omnigraph.storage.tables.stage_columns import schema_from_parts, schema_to_parts
from omnigraph.storage.tables.stage_rows import StagedTransaction

_OPERATIONS = lance.LanceOperation
_FILE_FIELDS = tuple(field.name for field in dataclasses.fields(DataFile))


def to_json(staged: StagedTransaction) -> dict[str, Any]:
    return {
        "uuid": staged.uuid,
        "read_version": staged.read_version,
        "rows_after": staged.rows_after,
        "operation": _operation_to_json(staged.operation),
        "digests": dict(staged.digests),
    }


def from_json(record: dict[str, Any]) -> StagedTransaction:
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
        return {"kind": "create_index", "new_indices": [_index_to_json(index) for index in operation.new_indices]}
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
            return _OPERATIONS.CreateIndex([_read_index(index) for index in record["new_indices"]], [])
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


def _index_to_json(index: Any) -> dict[str, Any]:
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


def _read_index(record: dict[str, Any]) -> Any:
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
