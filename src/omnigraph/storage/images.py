"""Complete rows by stable row id, in the order asked for. Blobs come as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import CorruptGraph
from omnigraph.storage.blobs import is_blob
from omnigraph.storage.faults import store_errors
from omnigraph.storage.tables import Handle

RowIds = npt.NDArray[np.uint64]


def rows_at(handle: Handle, row_ids: RowIds, columns: Sequence[str]) -> pa.Table:
    """Columns of the rows with these row ids, all of which exist."""
    fields = [plain_field(handle.schema.field(name)) for name in columns]
    if len(row_ids) == 0:
        return pa.schema(fields).empty_table()
    wanted = pa.array(row_ids, pa.uint64())
    with store_errors("read rows"):
        plain = [field.name for field in fields if not is_blob(handle.schema.field(field.name))]
        found = handle._take_rows(wanted, columns=plain) if plain else None
        if found is not None and found.num_rows != len(row_ids):
            raise CorruptGraph(f"a table lost {len(row_ids) - found.num_rows} rows while it was read")
        arrays = [
            found.column(field.name) if found is not None and field.name in plain else _blobs(handle, field, wanted)
            for field in fields
        ]
    return pa.table(arrays, schema=pa.schema(fields))


def plain_field(field: pa.Field) -> pa.Field:
    """A column as it is above storage: blobs are bytes."""
    return pa.field(field.name, pa.large_binary() if is_blob(field) else field.type, field.nullable, field.metadata)


def _blobs(handle: Handle, field: pa.Field, wanted: pa.Array) -> pa.Array:
    """Rows with blobs are fetched a few at a time, so the list of bytes is short."""
    pairs: list[Any] = handle.read_blobs(field.name, ids=wanted, preserve_order=True)
    return pa.array([content for _, content in pairs], pa.large_binary())
