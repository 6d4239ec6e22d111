"""Scans of a whole table: in shares by several processes, or in the order of its ids.

For a parallel scan the driver of a job decides which fragments belong together; each task opens the same version by
itself and scans its share. Only a small description travels, never an open table. A scan by id streams a table that is
in that order already, sorts a small one in memory, and of a large one sorts the ids only and fetches rows by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ScannerBuilder

from omnigraph import limits
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables.datasets import AS_BYTES, Tables, as_dataset, has_blobs
from omnigraph.storage.tables.filters import ColumnFilter, one_of
from omnigraph.storage.tables.lance_types import Fragment, LanceTable
from omnigraph.storage.tables.older_blobs import ADDRESS, with_nulls
from omnigraph.storage.tables.row_lookup import is_understood, select_rows, serialized

#: Rows per batch that a distributed scan hands to the JVM.
_SCAN_BATCH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class TableAt:
    """Where one version of a table lies, with what it takes to open it from another machine."""

    location: Location
    pin: Pin

    def open(self) -> LanceTable:
        tables = _tables(self.location.uri, tuple(sorted(self.location.options.items())))
        return tables.at(table_version_of(self.pin))

    @property
    def schema(self) -> pa.Schema:
        """The stored columns; blobs have a type of Lance's own."""
        schema: pa.Schema = self.open().schema
        return schema


@lru_cache(maxsize=8)
def _tables(uri: str, options: tuple[tuple[str, str], ...]) -> Tables:
    """A process that runs many tasks keeps what it opened."""
    return Tables(Location(uri, dict(options)))


def fragment_groups(table: TableAt) -> list[tuple[int, ...]]:
    """Fragments in stored order, gathered until a group has enough rows for a task; together they are the table."""
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    gathered = 0
    for fragment in table.open().get_fragments():
        count = fragment.count_rows()
        if group and gathered + count > limits.SCAN_TASK_ROWS:
            groups.append(tuple(group))
            group, gathered = [], 0
        group.append(fragment.fragment_id)
        gathered += count
    return [*groups, tuple(group)] if group else groups


def scan_fragments(
    table: TableAt, fragments: Sequence[int], columns: Sequence[str], filters: Sequence[ColumnFilter] = ()
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of some fragments that pass all filters, in stored order; blobs come as bytes."""
    handle = table.open()
    with store_errors("read a table", handle):
        pushed: list[ColumnFilter] = []
        late: list[ColumnFilter] = []
        for each in filters:
            (pushed if is_understood(handle.schema.field(each.column).type) else late).append(each)
        scanned = [*columns, *{each.column for each in late if each.column not in columns}]
        blobs = has_blobs(pa.schema([handle.schema.field(name) for name in scanned]))
        batches = _scanner(handle, fragments, scanned, pushed, blobs).to_batches()
        for batch in batches:
            found = pa.Table.from_batches([with_nulls(handle, batch) if blobs else batch])
            for each in late:
                found = found.filter(each.expression)
            yield from found.select(list(columns)).to_batches()


def _scanner(
    handle: LanceTable, fragments: Sequence[int], columns: list[str], filters: list[ColumnFilter], blobs: bool
) -> Any:
    builder: Any = ScannerBuilder(as_dataset(handle)).columns(columns).scan_in_order(True)
    builder.with_fragments([handle.get_fragment(number) for number in fragments])
    builder.blob_handling(AS_BYTES).with_row_address(blobs)
    builder.batch_size(limits.EXPORT_BLOB_BATCH_ROWS if blobs else _SCAN_BATCH_ROWS)
    if filters:
        builder._substrait_filter = serialized(filters, handle.schema)
    return builder.to_scanner()


def whole_table(handle: LanceTable, columns: Sequence[str] | None) -> pa.Table:
    """Some columns of every row in stored order, None for all; blobs come as bytes."""
    names = list(columns) if columns is not None else list(handle.schema.names)
    blobs = has_blobs(pa.schema([field for field in handle.schema if field.name in names]))
    scanned = [*names, ADDRESS] if blobs and ADDRESS not in names else names
    table = handle.to_table(columns=scanned, blob_handling=AS_BYTES)
    if not blobs:
        return table
    batches = [with_nulls(handle, batch) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, table.schema).select(names)


def whole_table_in_pieces(handle: LanceTable, columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """The same piece by piece: only some thousand rows are in memory at a time."""
    names = list(columns) if columns is not None else list(handle.schema.names)
    blobs = has_blobs(pa.schema([field for field in handle.schema if field.name in names]))
    scanned = [*names, ADDRESS] if blobs and ADDRESS not in names else names
    scanner = handle.scanner(
        columns=scanned,
        batch_size=limits.EXPORT_BLOB_BATCH_ROWS if blobs else limits.EXPORT_BATCH_ROWS,
        blob_handling=AS_BYTES,
        scan_in_order=True,
    )
    schema = pa.schema([scanner.projected_schema.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        with store_errors("read a table", handle):
            for batch in scanner.to_batches():
                yield (with_nulls(handle, batch) if blobs else batch).select(names)

    return pa.RecordBatchReader.from_batches(schema, batches())


ID = "id"


def rows_by_id(
    handle: LanceTable, columns: Sequence[str], fragments: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Columns of every row, or of those of some fragments, ascending by the bytes of ``id``; blobs come as bytes."""
    with store_errors("read a table", handle):
        every = handle.get_fragments()
        chosen = every if fragments is None else [each for each in every if each.fragment_id in set(fragments)]
        if not chosen:
            return
        ids = handle.scanner(columns=[ID], with_row_id=True, fragments=chosen).to_table()
        texts = ids.column(ID).combine_chunks()
        blobs = has_blobs(pa.schema([handle.schema.field(name) for name in columns]))
        if _is_ascending(texts):
            batches = _stored_order(handle, columns, chosen, blobs)
        elif not blobs and _size(chosen) <= limits.EXPORT_SORT_BYTES:
            batches = _sorted_here(handle, columns, chosen)
        else:
            batches = _fetched(handle, columns, ids.take(pc.sort_indices(texts)), blobs)
        yield from batches


def _is_ascending(texts: pa.Array) -> bool:
    return len(texts) < 2 or pc.all(pc.less(texts[:-1], texts[1:])).as_py()


def _size(fragments: Sequence[Any]) -> int:
    return sum(file.file_size_bytes or 0 for fragment in fragments for file in fragment.metadata.files)


def _stored_order(
    handle: LanceTable, columns: Sequence[str], fragments: Sequence[Fragment], blobs: bool
) -> Iterator[pa.RecordBatch]:
    rows = limits.EXPORT_BLOB_BATCH_ROWS if blobs else limits.EXPORT_BATCH_ROWS
    scanner = handle.scanner(
        columns=list(columns),
        fragments=fragments,
        batch_size=rows,
        blob_handling=AS_BYTES,
        scan_in_order=True,
        with_row_address=blobs,
    )
    for batch in scanner.to_batches():
        yield with_nulls(handle, batch).select(list(columns)) if blobs else batch


def _sorted_here(handle: LanceTable, columns: Sequence[str], fragments: Sequence[Fragment]) -> Iterator[pa.RecordBatch]:
    table = (
        handle.scanner(columns=list(columns), fragments=fragments).to_table().combine_chunks()
    )  # taking from chunks is slow
    order = pc.sort_indices(table.column(ID))
    for start in range(0, len(order), limits.EXPORT_BATCH_ROWS):
        yield from _one_batch(table.take(order[start : start + limits.EXPORT_BATCH_ROWS]))


def _fetched(handle: LanceTable, columns: Sequence[str], ids: pa.Table, blobs: bool) -> Iterator[pa.RecordBatch]:
    step = limits.EXPORT_BLOB_BATCH_ROWS if blobs else limits.EXPORT_BATCH_ROWS
    for start in range(0, ids.num_rows, step):
        part = ids.slice(start, step)
        if blobs:
            wanted = part.column(ID).combine_chunks()
            found = select_rows(handle, list(columns), one_of(ID, wanted)).select(list(columns))
            found = found.take(pc.sort_indices(found.column(ID)))
        else:
            row_ids = np.asarray(part.column("_rowid").to_numpy(), np.uint64)
            found = handle._take_rows(row_ids.tolist(), columns=list(columns))
        yield from _one_batch(found)


def _one_batch(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches()


class AdaptiveBatches:
    """Steps through a number of rows in batches of about as many bytes as allowed.

    Args:
        most: rows of a batch at most.
        bytes_: size of a batch at most, as far as the batches before allow to tell.
    """

    def __init__(self, most: int, bytes_: int) -> None:
        self._most = most
        self._bytes = bytes_
        self._step = max(1, most // 32)

    def steps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Bounds of one batch after the other; say after each one with `took` how large it was."""
        while start < stop:
            end = min(start + self._step, stop)
            yield start, end
            start = end

    def took(self, rows: int, size: int) -> None:
        if rows:
            fitting = self._bytes * rows // max(size, 1)
            self._step = max(1, min(self._most, fitting, self._step * 8))
