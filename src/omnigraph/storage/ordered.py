"""Every row of one table in the order of its ids, batch by batch.

A table that lies in that order already is streamed as it is. A small one is sorted in memory. Of a large one only the
ids are, and the rows are fetched by them, so memory follows the ids and one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.storage.blobs import AS_BYTES, has_blobs
from omnigraph.storage.faults import store_errors
from omnigraph.storage.filters import one_of
from omnigraph.storage.select import select_rows
from omnigraph.storage.tables import Handle

ID = "id"


def rows_by_id(
    handle: Handle, columns: Sequence[str], fragments: Sequence[int] | None = None
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
    handle: Handle, columns: Sequence[str], fragments: list[Any], blobs: bool
) -> Iterator[pa.RecordBatch]:
    rows = limits.EXPORT_BLOB_BATCH_ROWS if blobs else limits.EXPORT_BATCH_ROWS
    scanner = handle.scanner(
        columns=list(columns), fragments=fragments, batch_size=rows, blob_handling=AS_BYTES, scan_in_order=True
    )
    yield from scanner.to_batches()


def _sorted_here(handle: Handle, columns: Sequence[str], fragments: list[Any]) -> Iterator[pa.RecordBatch]:
    table = (
        handle.scanner(columns=list(columns), fragments=fragments).to_table().combine_chunks()
    )  # taking from chunks is slow
    order = pc.sort_indices(table.column(ID))
    for start in range(0, len(order), limits.EXPORT_BATCH_ROWS):
        yield from _one_batch(table.take(order[start : start + limits.EXPORT_BATCH_ROWS]))


def _fetched(handle: Handle, columns: Sequence[str], ids: pa.Table, blobs: bool) -> Iterator[pa.RecordBatch]:
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
