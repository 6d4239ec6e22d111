"""One version of a table, read in pieces by several processes.

The driver of a job decides which fragments belong together; each task opens the same version by itself and scans its
share. Only this small description travels, never an open table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from lance.dataset import ScannerBuilder

from omnigraph import limits
from omnigraph.storage.blobs import AS_BYTES, has_blobs
from omnigraph.storage.faults import store_errors
from omnigraph.storage.filters import Filter
from omnigraph.storage.location import Location
from omnigraph.storage.manifest import Pin
from omnigraph.storage.select import is_understood, serialized
from omnigraph.storage.tables import Handle, Tables


@dataclass(frozen=True, slots=True)
class TableAt:
    """Where one version of a table lies, with what it takes to open it from another machine."""

    location: Location
    pin: Pin

    def open(self) -> Handle:
        pin = self.pin
        return _tables(self.location.uri, tuple(sorted(self.location.options.items()))).at(
            pin.location, pin.branch, pin.version, pin.origin
        )

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
    table: TableAt, fragments: Sequence[int], columns: Sequence[str], filters: Sequence[Filter] = ()
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of some fragments that pass all filters, in stored order; blobs come as bytes."""
    handle = table.open()
    with store_errors("read a table", handle):
        pushed: list[Filter] = []
        late: list[Filter] = []
        for each in filters:
            (pushed if is_understood(handle.schema.field(each.column).type) else late).append(each)
        scanned = [*columns, *{each.column for each in late if each.column not in columns}]
        batches = _scanner(handle, fragments, scanned, pushed).to_batches()
        for batch in batches:
            found = pa.Table.from_batches([batch])
            for each in late:
                found = found.filter(each.expression)
            yield from found.select(list(columns)).to_batches()


def _scanner(handle: Handle, fragments: Sequence[int], columns: list[str], filters: list[Filter]) -> Any:
    blobs = has_blobs(pa.schema([handle.schema.field(name) for name in columns]))
    builder: Any = ScannerBuilder(handle).columns(columns).scan_in_order(True)
    builder.with_fragments([handle.get_fragment(number) for number in fragments])
    builder.blob_handling(AS_BYTES)
    builder.batch_size(limits.EXPORT_BLOB_BATCH_ROWS if blobs else limits.SCAN_BATCH_ROWS)
    if filters:
        builder._substrait_filter = serialized(filters, handle.schema)
    return builder.to_scanner()
