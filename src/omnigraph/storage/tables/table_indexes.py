"""Indexes of one table: what is covered, and staging what is not.

An index consists of segments, each over some fragments. Extending one adds a segment for the fragments that are not
covered, so the cost follows the new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance

from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.stage_rows import StagedTransaction

#: Columns of a table whose indexes are built at once. Sorting a column uses about one core.
_INDEX_THREADS = 4


_TYPES = {"BTREE": "BTREE", "INVERTED": "INVERTED", "VECTOR": "IVF_FLAT"}
_DETAILS = {"BTREE": "btree", "INVERTED": "inverted", "VECTOR": "ivf"}


def missing_parts(handle: LanceTable, column: str, kind: str) -> tuple[list[int], str | None]:
    """Fragments that the index of a column does not cover, or why it cannot be built yet."""
    with store_errors("read the indexes of a table"):
        fragments = {fragment.fragment_id for fragment in handle.get_fragments()}
        covered: set[int] = set()
        for index in handle.describe_indices():
            if list(index.field_names) == [column] and _DETAILS[kind] in str(index.index_type).lower():
                covered |= {number for segment in index.segments for number in segment.fragment_ids}
        missing = sorted(fragments - covered)
        if missing and kind == "VECTOR" and not _has_vector(handle, column):
            return [], "no row has a vector yet"
        return missing, None


def _has_vector(handle: LanceTable, column: str) -> bool:
    scanner = handle.scanner(columns=[column], batch_size=1024)
    return any(batch.column(column).null_count < batch.num_rows for batch in scanner.to_batches())


def stage_index(handle: LanceTable, rows: int, work: Sequence[tuple[str, str, list[int]]]) -> StagedTransaction:
    """Build index segments (column, kind, fragments) as one transaction, several columns at a time."""
    with store_errors("build an index"), ThreadPoolExecutor(min(_INDEX_THREADS, len(work))) as threads:
        segments = list(threads.map(lambda each: _segment(handle, *each), work))
        return StagedTransaction(lance.LanceOperation.CreateIndex(segments, []), handle.version, rows)


def _segment(shared: LanceTable, column: str, kind: str, fragments: list[int]) -> Any:
    handle = shared.checkout_version(shared.version)  # building blocks a handle, and readers share theirs
    options = {"num_partitions": 1, "metric": "l2"} if kind == "VECTOR" else {}
    segment = handle.create_index_uncommitted(
        column, _TYPES[kind], name=_name(handle, column), fragment_ids=fragments, replace=True, **options
    )
    if kind == "INVERTED":  # until it is merged, even alone, its files cannot be searched
        segment = handle.merge_existing_index_segments([segment])
    return segment


def _name(handle: LanceTable, column: str) -> str:
    """An index keeps its name when its column is renamed; a new column of the old name must not take it over."""
    taken = {index.name for index in handle.describe_indices() if list(index.field_names) != [column]}
    name = f"{column}_idx"
    return (
        name
        if name not in taken
        else next(f"{name}_{number}" for number in range(2, len(taken) + 3) if f"{name}_{number}" not in taken)
    )
