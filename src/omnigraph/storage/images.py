"""Complete rows by stable row id, in the order asked for. Blobs come as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import CorruptGraph
from omnigraph.storage.blobs import is_blob
from omnigraph.storage.faults import store_errors
from omnigraph.storage.filters import at_row_address, with_row_id
from omnigraph.storage.tables import Handle

RowIds = npt.NDArray[np.uint64]

ROW_ID, ROW_ADDRESS = "_rowid", "_rowaddr"


def rows_at(handle: Handle, row_ids: RowIds, columns: Sequence[str], total: int | None = None) -> pa.Table:
    """Columns of the rows with these row ids, all of which exist.

    Args:
        total: how many rows the caller is going to fetch in several calls; None for just these.
    """
    fields = [plain_field(handle.schema.field(name)) for name in columns]
    if len(row_ids) == 0:
        return pa.schema(fields).empty_table()
    with store_errors("read rows", handle):
        plain = [field.name for field in fields if not is_blob(handle.schema.field(field.name))]
        found = existing_rows(handle, row_ids, plain, total) if plain else None
        if found is not None and found.num_rows != len(row_ids):
            raise CorruptGraph(f"a table lost {len(row_ids) - found.num_rows} rows while it was read")
        arrays = [
            found.column(field.name) if found is not None and field.name in plain else _blobs(handle, field, row_ids)
            for field in fields
        ]
    return pa.table(arrays, schema=pa.schema(fields))


def existing_rows(handle: Handle, row_ids: RowIds, columns: Sequence[str], total: int | None = None) -> pa.Table:
    """Those of the rows that exist, in the order asked for, with ``_rowid``. No blobs.

    The first take of a table version makes Lance learn where each row id lies, which costs as much as the table is
    large. For few rows a filter on row ids avoids that.
    """
    names = [*columns, ROW_ID]
    if max(len(row_ids), total or 0) > limits.FILTERED_ROWS:
        return handle._take_rows(pa.array(row_ids, pa.uint64()), columns=names)
    scanner = handle.scanner(columns=list(columns), filter=with_row_id(row_ids.tolist()), with_row_id=True)
    found = scanner.to_table()
    places = places_of(row_ids, np.asarray(found.column(ROW_ID).to_numpy(), np.uint64))
    return found.select(names).take(pa.array(places[places >= 0]))


def places_of(wanted: RowIds, known: RowIds) -> npt.NDArray[np.int64]:
    """Where each of the wanted numbers is among the known ones, which are all different; -1 where it is not."""
    if len(known) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[places] == wanted, places, -1)


def rows_at_addresses(handle: Handle, addresses: RowIds, columns: Sequence[str]) -> pa.Table:
    """Columns of the rows that lie at these addresses, with both numbers, in any order. For few rows; no blobs."""
    scanner = handle.scanner(
        columns=list(columns), filter=at_row_address(addresses.tolist()), with_row_id=True, with_row_address=True
    )
    return scanner.to_table()


def plain_field(field: pa.Field) -> pa.Field:
    """A column as it is above storage: blobs are bytes."""
    return pa.field(field.name, pa.large_binary() if is_blob(field) else field.type, field.nullable, field.metadata)


def _blobs(handle: Handle, field: pa.Field, row_ids: RowIds) -> pa.Array:
    """Rows with blobs are fetched a few at a time, so the list of bytes is short."""
    pairs: list[Any] = handle.read_blobs(field.name, ids=pa.array(row_ids, pa.uint64()), preserve_order=True)
    return pa.array([content for _, content in pairs], pa.large_binary())
