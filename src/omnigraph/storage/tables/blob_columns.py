"""Blob columns: bytes outside, a Lance blob column inside.

A column that is marked as a blob has the type ``large_binary`` everywhere above storage. On disk it is a Lance blob
column, so that large values lie in files of their own and a scan of other columns never reads them. Null and empty
are different values in both forms.
"""

from __future__ import annotations

from typing import Any, Literal

import lance
import pyarrow as pa
import pyarrow.compute as pc

#: Metadata of a field that holds blobs; whoever makes the schema sets it.
MARK = b"omnigraph.blob"

#: How a scan returns blob columns as bytes; without it a scan returns where the bytes lie.
AS_BYTES: Literal["all_binary"] = "all_binary"

_PHYSICAL = lance.blob_field("blob").type


def physical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema a table is created with: marked columns become Lance blob columns."""
    fields = [
        field.with_type(_PHYSICAL) if MARK in (field.metadata or {}) and pa.types.is_large_binary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def has_blobs(schema: pa.Schema) -> bool:
    return any(is_blob(field) for field in schema)


def physical_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as a table of this physical schema takes them: bytes are wrapped, everything else stays."""
    for position, field in enumerate(schema):
        if is_blob(field) and rows.column(position).type != field.type:
            rows = rows.set_column(position, field, _wrapped(rows.column(position), field.type))
    return rows


def is_blob(field: pa.Field) -> bool:
    """Whether a field of a stored table is a Lance blob column."""
    return bool(getattr(field.type, "extension_name", None) == _PHYSICAL.extension_name)


def _wrapped(column: pa.ChunkedArray, type_: Any) -> pa.Array:
    data = column.combine_chunks().cast(pa.large_binary())
    members = [data, *(pa.nulls(len(data), field.type) for field in list(type_.storage_type)[1:])]
    storage = pa.StructArray.from_arrays(members, fields=list(type_.storage_type), mask=pc.is_null(data))
    return pa.ExtensionArray.from_storage(type_, storage)
