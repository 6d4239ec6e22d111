"""Null blobs in files of an older Lance, which this one reads as empty blobs.

It wrote a null as a value without bytes, and the null beside it in a way that is no longer read. Only the layout of the
column in its file tells such files from today's, so a file is looked at when an empty blob came out of it, once. An
empty blob that is none lies after other bytes; before the first bytes the two are one, and null it is, as it was there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileReader

from omnigraph import limits
from omnigraph.lru import LruCache
from omnigraph.storage.tables.datasets import is_blob
from omnigraph.storage.tables.lance_types import LanceTable

ADDRESS = "_rowaddr"

_NOWHERE = np.array([], np.uint64)
_OFFSET = np.uint64(0xFFFFFFFF)
_FRAGMENT = np.uint64(32)

#: Places of rows in their fragment.
Places: TypeAlias = npt.NDArray[np.uint64]

#: Where the nulls lie in the files that were looked at, by address of the file and column; nowhere in files of today.
_looked_at: LruCache[tuple[str, str], Places] = LruCache(max_entries=limits.OLDER_BLOB_FILES)


def with_nulls(handle: LanceTable, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose blobs are bytes, with its nulls. It has the addresses of its rows among its columns."""
    for position, name in enumerate(batch.schema.names):
        if name in handle.schema.names and is_blob(handle.schema.field(name)):
            addresses = np.asarray(batch.column(ADDRESS), np.uint64)
            found = bytes_with_nulls(handle, name, addresses, batch.column(position))
            batch = batch.set_column(position, batch.schema.field(position), found)
    return batch


def bytes_with_nulls(handle: LanceTable, column: str, addresses: Places, values: pa.Array) -> pa.Array:
    """The blobs of some rows, with their nulls."""
    empty = np.asarray(pc.fill_null(pc.equal(pc.binary_length(values), 0), False))
    if not empty.any():
        return values
    is_null = np.zeros(len(values), np.bool_)
    for fragment in np.unique(addresses[empty] >> _FRAGMENT):
        inside = empty & (addresses >> _FRAGMENT == fragment)
        is_null[inside] = np.isin(addresses[inside] & _OFFSET, _nulls(handle, column, int(fragment)))
    return pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)


def has_older_nulls(handle: LanceTable, fragment: int) -> bool:
    """Whether a fragment holds such a null. What reads it knows; what Lance writes of it, as a compaction does, is an
    empty blob for good."""
    names = [field.name for field in handle.schema if is_blob(field)]
    return any(len(_nulls(handle, name, fragment)) for name in names)


def file_of_column(handle: LanceTable, column: str, fragment: int) -> tuple[int, Any | None]:
    """The field id of a column, and the data file of a fragment that holds it; None when no file does."""
    (number,) = (field.id() for field in handle.lance_schema.fields() if field.name() == column)
    files = handle.get_fragment(fragment).metadata.files
    return number, next((each for each in files if number in each.fields), None)


def _nulls(handle: LanceTable, column: str, fragment: int) -> Places:
    """Places in a fragment whose blob is null although it is read as empty."""
    number, file = file_of_column(handle, column, fragment)
    if file is None:
        return _NOWHERE
    root = handle.base_paths()[file.base_id].path if file.base_id is not None else handle.uri
    address = f"{root}/data/{file.path}"
    place = file.column_indices[list(file.fields).index(number)]
    options = handle._storage_options
    return _looked_at.get_or_make(
        (address, column),
        lambda: _places(handle, column, fragment) if _is_older(address, place, options) else _NOWHERE,
    )


def _is_older(address: str, place: int, options: dict[str, str] | None) -> bool:
    """Whether the nulls of a column lie in a layer of their own, above the one of its values."""
    pages: Any = LanceFileReader(address, storage_options=options).metadata().columns[place].pages
    layers = [str(page.encoding).partition("layers: [")[2].partition("]")[0] for page in pages]
    return any(text.count("Repdef") > 1 and "Nullable" in text for text in layers)


def _places(handle: LanceTable, column: str, fragment: int) -> Places:
    """Where the values without any bytes before them lie, in rows of every version that shows the file."""
    scanner = handle.scanner(
        columns=[column],
        fragments=[handle.get_fragment(fragment)],
        with_row_id=True,
        include_deleted_rows=True,
        scan_in_order=True,
    )
    described = scanner.to_table().column(column).combine_chunks()
    members = (described.field(name) for name in ("kind", "position", "size"))
    nothing = [np.asarray(pc.fill_null(pc.equal(member, 0), False)) for member in members]
    return np.flatnonzero(np.logical_and.reduce(nothing)).astype(np.uint64)
