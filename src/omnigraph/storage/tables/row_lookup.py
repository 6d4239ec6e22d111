"""Finds rows of one table: by id, by a filter, through an index where there is one, or by stable row id.

Ids in the small fragments behind an index are read at most once per process, so that a look-up reads only fragments
that may hold what it wants. Lance takes filters as Substrait, which knows neither unsigned numbers nor instants. A
filter on such a column runs here instead, batch by batch. Blobs come as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ScannerBuilder
from lance.fragment import RowIdSequence
from pyarrow.substrait import serialize_expressions

from omnigraph import limits
from omnigraph.errors import CorruptGraph, ResourceLimitExceeded
from omnigraph.lru import LruCache
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS, store_errors
from omnigraph.storage.tables import row_lookup
from omnigraph.storage.tables.datasets import AS_BYTES, as_dataset, is_blob
from omnigraph.storage.tables.filters import ColumnFilter, at_row_address, one_of, with_row_id
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.older_blobs import bytes_with_nulls, with_nulls

ID = "id"


def id_columns() -> LruCache[str, pa.ChunkedArray]:
    """An empty cache of id columns by the name of their data file."""
    return LruCache(max_entries=limits.KNOWN_ID_FRAGMENTS, max_size=limits.KNOWN_ID_BYTES, size_of=_size)


def _size(ids: pa.ChunkedArray) -> int:
    return int(ids.get_total_buffer_size())


_kept = id_columns()


def note(fragments: Sequence[Any], rows: pa.Table) -> None:
    """Rows were written as these fragments."""
    if len(fragments) == 1 and rows.num_rows <= limits.SMALL_FRAGMENT_ROWS:
        _keep(_file(fragments[0]), rows.column(ID))


def fragments_to_search(handle: LanceTable, wanted: pa.Array) -> list[Any] | None:
    """The fragments that may hold a row with one of these ids; None when it may be any of them."""
    if len(wanted) > limits.SMALL_FRAGMENT_ROWS:
        return None
    every = handle.get_fragments()
    held: dict[int, pa.ChunkedArray] = {}
    unread: dict[int, tuple[str, Any]] = {}
    for fragment in every:
        metadata = fragment.metadata
        if metadata.physical_rows <= limits.SMALL_FRAGMENT_ROWS:
            known = _known(metadata)
            if known is None:
                unread[metadata.id] = (_live_name(metadata), fragment)
            else:
                held[metadata.id] = known
    held |= _read(handle, unread)
    ruled_out = _without(held, wanted)
    return [fragment for fragment in every if fragment.fragment_id not in ruled_out] if ruled_out else None


def _without(held: dict[int, pa.ChunkedArray], wanted: pa.Array) -> set[int]:
    """Those that hold none of the wanted ids. Most look-ups are for new ids, so all are asked at once first."""
    chunks = [chunk for ids in held.values() for chunk in ids.chunks]
    if not _any_in(pa.chunked_array(chunks, pa.string()), wanted):
        return set(held)
    return {number for number, ids in held.items() if not _any_in(ids, wanted)}


def _any_in(ids: pa.ChunkedArray, wanted: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(ids, value_set=wanted)).as_py())


def _known(metadata: Any) -> pa.ChunkedArray | None:
    ids = _kept.get(_file(metadata))
    return ids if ids is not None or metadata.deletion_file is None else _kept.get(_live_name(metadata))


def _read(handle: LanceTable, unread: dict[int, tuple[str, Any]]) -> dict[int, pa.ChunkedArray]:
    """The ids in some fragments by their number; all are read in one go."""
    if not unread:
        return {}
    fragments = [fragment for _, fragment in unread.values()]
    rows = handle.scanner(columns=[ID], fragments=fragments, with_row_address=True).to_table()
    numbers = pc.shift_right(rows.column("_rowaddr"), pa.scalar(32, pa.uint64()))
    read = {}
    for number, (name, _) in unread.items():
        read[number] = rows.column(ID).filter(pc.equal(numbers, pa.scalar(number, pa.uint64())))
        _keep(name, read[number])
    return read


def _keep(file: str, ids: pa.ChunkedArray) -> None:
    if _size(ids) <= limits.KNOWN_ID_BYTES // 16:  # a few rows cut from a large table would keep all of its text
        _kept.put(file, ids)


def _live_name(metadata: Any) -> str:
    """What a scan of a fragment reads: its file without the rows deleted so far."""
    deletion = metadata.deletion_file
    return f"{_file(metadata)} {deletion.read_version} {deletion.id}" if deletion else _file(metadata)


def _file(metadata: Any) -> str:
    """The name of a fragment's first data file, which has its ids: columns that are added later get files of their own.

    ``_path`` because ``path`` makes a new class at each look.
    """
    return str(metadata.files[0]._path)


#: So few values always go through the filter; Lance chooses between index and scan.
_FEW_VALUES = 64

#: Rows of a batch that is compared with many values: their hash table is made again for each batch.
_BATCH_ROWS = 262_144


_ADDRESSES = (pa.field("_rowid", pa.uint64()), pa.field("_rowaddr", pa.uint64()))

#: Lance skips fields of this name when it reads a filter.
_PLACEHOLDER = "__unlikely_name_placeholder_{}"


def select_rows(
    handle: LanceTable,
    columns: Sequence[str],
    filter_: ColumnFilter,
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
        reader = _scanner(handle, scanned, [filter_] if pushed else [], fragments).to_reader()
        batches = reader if pushed else _passing(reader, filter_.expression)
        if any(is_blob(handle.schema.field(name)) for name in names):
            batches = (with_nulls(handle, batch) for batch in batches)
        found = pa.Table.from_batches(_bounded(batches, max_bytes), schema=reader.schema)
        return found.select([*names, *(field.name for field in _ADDRESSES)])


def narrowed_rows(
    handle: LanceTable, columns: Sequence[str], filters: Sequence[ColumnFilter]
) -> Iterator[pa.RecordBatch]:
    """Columns of all rows that may pass every filter, batch by batch; the caller tests them. No blobs."""
    with store_errors("look up rows", handle):
        if handle.get_fragments():
            pushed = [each for each in filters if is_understood(handle.schema.field(each.column).type)]
            yield from _scanner(handle, list(columns), pushed, None).to_reader()


def is_understood(type_: pa.DataType) -> bool:
    """Whether Lance can be given a filter on a column of this type."""
    return not (pa.types.is_unsigned_integer(type_) or pa.types.is_date64(type_))


def _scanner(
    handle: LanceTable, columns: list[str], filters: Sequence[ColumnFilter], fragments: list[Any] | None
) -> Any:
    builder: Any = ScannerBuilder(as_dataset(handle)).columns(columns).with_row_id(True).with_row_address(True)
    builder.blob_handling(AS_BYTES)
    if fragments is not None:
        builder.with_fragments(fragments)
    if filters:
        # The builder's own way writes down the types of all columns and fails on a list of unsigned numbers.
        builder._substrait_filter = serialized(filters, handle.schema)
    return builder.to_scanner()


def serialized(filters: Sequence[ColumnFilter], schema: pa.Schema) -> bytes:
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


RowIds = npt.NDArray[np.uint64]

ROW_ID, ROW_ADDRESS = "_rowid", "_rowaddr"


def rows_at(handle: LanceTable, row_ids: RowIds, columns: Sequence[str], total: int | None = None) -> pa.Table:
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


def existing_rows(handle: LanceTable, row_ids: RowIds, columns: Sequence[str], total: int | None = None) -> pa.Table:
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


def rows_at_addresses(handle: LanceTable, addresses: RowIds, columns: Sequence[str]) -> pa.Table:
    """Columns of the rows that lie at these addresses, with both numbers, in any order. For few rows; no blobs."""
    scanner = handle.scanner(
        columns=list(columns), filter=at_row_address(addresses.tolist()), with_row_id=True, with_row_address=True
    )
    return scanner.to_table()


def plain_field(field: pa.Field) -> pa.Field:
    """A column as it is above storage: blobs are bytes."""
    return pa.field(field.name, pa.large_binary() if is_blob(field) else field.type, field.nullable, field.metadata)


def _blobs(handle: LanceTable, field: pa.Field, row_ids: RowIds) -> pa.Array:
    """Rows with blobs are fetched a few at a time, so the list of bytes is short."""
    pairs: list[Any] = handle.read_blobs(field.name, ids=pa.array(row_ids, pa.uint64()), preserve_order=True)
    addresses = np.array([address for address, _ in pairs], np.uint64)
    return bytes_with_nulls(
        handle, field.name, addresses, pa.array([content for _, content in pairs], pa.large_binary())
    )


def row_ids_in_metadata(meta: Any) -> RowIds | None:
    """Row ids of all places of a fragment, if its metadata holds them in the usual form."""
    try:
        sequence: Any = RowIdSequence.from_inline_metadata(meta.row_id_meta)
        row_ids = np.asarray(sequence.to_pyarrow().to_numpy(), np.uint64)
    except READ_EXCEPTIONS:
        return None
    return row_ids if len(row_ids) == meta.physical_rows else None


@dataclass(frozen=True, slots=True)
class RowLocations:
    """Where existing rows lie: ids with their stable row id and current address, in id order of the answer."""

    ids: pa.Array
    row_ids: np.ndarray[Any, np.dtype[np.uint64]]
    addresses: np.ndarray[Any, np.dtype[np.uint64]]


def find_rows(handle: LanceTable, wanted: pa.Array, column: str = ID, columns: tuple[str, ...] = ()) -> pa.Table:
    """Rows whose column is one of the wanted values, with row id and address, through the index when that is faster."""
    names = list(dict.fromkeys([column, *columns]))
    with store_errors("look up rows", handle):
        if len(wanted) == 0 or not handle.get_fragments():
            return _no_rows(handle, names)
        searched = row_lookup.fragments_to_search(handle, wanted) if column == ID else None
        if searched == []:
            return _no_rows(handle, names)
        few = len(wanted) <= _FEW_VALUES or len(wanted) <= handle.count_rows() * limits.INDEX_LOOKUP_SHARE
        if few:
            return select_rows(handle, names, one_of(column, wanted), fragments=searched)
        reader = handle.scanner(
            columns=names,
            fragments=searched,
            with_row_id=True,
            with_row_address=True,
            batch_size=_BATCH_ROWS,
            blob_handling=AS_BYTES,
        ).to_reader()
        matching = (batch.filter(pc.is_in(batch.column(column), value_set=wanted)) for batch in reader)
        return pa.Table.from_batches(matching, schema=reader.schema)


def _no_rows(handle: LanceTable, columns: list[str]) -> pa.Table:
    return pa.schema([*(handle.schema.field(name) for name in columns), *_ADDRESSES]).empty_table()


def locate(handle: LanceTable, wanted: pa.Array) -> RowLocations:
    """Find rows by id."""
    rows = find_rows(handle, wanted)
    return RowLocations(
        rows.column(ID).combine_chunks(),
        rows.column("_rowid").to_numpy(),
        rows.column("_rowaddr").to_numpy(),
    )
