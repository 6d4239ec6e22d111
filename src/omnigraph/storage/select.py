"""Rows of one table that pass a filter, through an index where there is one.

Lance takes filters as Substrait, which knows neither unsigned numbers nor instants. A filter on such a column runs
here instead, batch by batch; the other columns of the table are never in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from lance.dataset import ScannerBuilder
from pyarrow.substrait import serialize_expressions

from omnigraph.errors import ResourceLimitExceeded
from omnigraph.storage.blobs import AS_BYTES
from omnigraph.storage.faults import store_errors
from omnigraph.storage.filters import Filter
from omnigraph.storage.tables import Handle

_ADDRESSES = (pa.field("_rowid", pa.uint64()), pa.field("_rowaddr", pa.uint64()))

#: Lance skips fields of this name when it reads a filter.
_PLACEHOLDER = "__unlikely_name_placeholder_{}"


def select_rows(
    handle: Handle,
    columns: Sequence[str],
    filter_: Filter,
    max_bytes: int | None = None,
    fragments: list[Any] | None = None,
) -> pa.Table:
    """Columns of the rows that pass, with row id and address. Blobs come as bytes.

    Args:
        max_bytes: refuse more row data than this.
        fragments: look in these only; an index is used all the same.

    Raises:
        ResourceLimitExceeded: the rows that pass hold more.
    """
    with store_errors("look up rows", handle):
        if not handle.get_fragments():
            return pa.schema([*(handle.schema.field(name) for name in columns), *_ADDRESSES]).empty_table()
        names = list(columns)
        pushed = is_understood(handle.schema.field(filter_.column).type)
        scanned = names if pushed or filter_.column in names else [*names, filter_.column]
        reader = _scanner(handle, scanned, filter_ if pushed else None, fragments).to_reader()
        batches = reader if pushed else _passing(reader, filter_.expression)
        found = pa.Table.from_batches(_bounded(batches, max_bytes), schema=reader.schema)
        return found.select([*names, *(field.name for field in _ADDRESSES)])


def is_understood(type_: pa.DataType) -> bool:
    """Whether Lance can be given a filter on a column of this type."""
    return not (pa.types.is_unsigned_integer(type_) or pa.types.is_date64(type_))


def _scanner(handle: Handle, columns: list[str], filter_: Filter | None, fragments: list[Any] | None) -> Any:
    builder: Any = ScannerBuilder(handle).columns(columns).with_row_id(True).with_row_address(True)
    builder.blob_handling(AS_BYTES)
    if fragments is not None:
        builder.with_fragments(fragments)
    if filter_ is not None:
        # The builder's own way writes down the types of all columns and fails on a list of unsigned numbers.
        builder._substrait_filter = serialized([filter_], handle.schema)
    return builder.to_scanner()


def serialized(filters: Sequence[Filter], schema: pa.Schema) -> bytes:
    """All of some filters in the form that Lance takes. Columns that they do not mention are left out of it."""
    mentioned = {filter_.column for filter_ in filters}
    fields = [
        field if field.name in mentioned else pa.field(_PLACEHOLDER.format(position), pa.int8())
        for position, field in enumerate(schema)
    ]
    whole = reduce(and_, (filter_.expression for filter_ in filters))
    return bytes(serialize_expressions([whole], ["filter"], pa.schema(fields)))


def _passing(batches: Iterable[pa.RecordBatch], expression: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from pa.Table.from_batches([batch]).filter(expression).to_batches()


def _bounded(batches: Iterable[pa.RecordBatch], max_bytes: int | None) -> Iterator[pa.RecordBatch]:
    gathered = 0
    for batch in batches:
        gathered += batch.nbytes
        if max_bytes is not None and gathered > max_bytes:
            raise ResourceLimitExceeded("bytes of rows in one mutation", gathered, max_bytes)
        yield batch
