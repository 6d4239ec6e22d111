"""Which columns of two versions of a table are the same property.

Columns are matched by the number that Lance gives a column for life, so that a renamed one stays itself. Where the
numbers differ but the names agree (a column was widened, or dropped and made again), names match and only a comparison
of all rows can tell what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from omnigraph import limits
from omnigraph.errors import ChangeSchemaBoundary
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.datasets import is_blob
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import ROW_ADDRESS, ROW_ID, RowIds, places_of, plain_field, rows_at

#: Rows of a comparison that are kept for whoever asks for their images next.
_DELTA_KEPT_BYTES = 1024**2

#: Tables whose rows take at most this many bytes are read as a whole when a comparison needs at least the share below
#: of them; of larger ones the rows are fetched in batches.
_DELTA_SCAN_BYTES = 128 * 1024**2
_DELTA_SCAN_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class _CachedRows:
    """Some complete images, and where their rows lie if that is known."""

    row_ids: RowIds
    rows: pa.Table
    addresses: RowIds | None = None


@dataclass(frozen=True, slots=True)
class TableSide:
    """One state of a table, read under common names and types.

    Attributes:
        columns: stored names.
        schema: what images of this side look like; as many fields as ``columns``.
        blob_columns: positions of columns whose values may be large.
    """

    handle: LanceTable
    columns: tuple[str, ...]
    schema: pa.Schema
    blob_columns: tuple[int, ...]
    _kept: list[_CachedRows] = field(default_factory=list, repr=False, compare=False)

    def images(self, row_ids: RowIds, total: int | None = None) -> pa.Table:
        """Complete rows; ``total`` is how many of them will be asked for in several calls."""
        kept = self._recalled(row_ids)
        return kept if kept is not None else self._read(row_ids, range(len(self.columns)), total)

    def plain(self, row_ids: RowIds) -> Callable[[RowIds], pa.Table]:
        """A reader of images without blobs that will be asked for these rows in all.

        When that is much of a table which fits into memory, the table is read once instead of row by row.
        """
        if self._recalled(row_ids) is not None:
            return self.images
        positions = [each for each in range(len(self.columns)) if each not in self.blob_columns]
        if not self._is_best_read_whole(row_ids, positions):
            total = len(row_ids)
            return lambda row_ids: self._remembered(row_ids, self._read(row_ids, positions, total))
        names = [self.columns[each] for each in positions]
        with store_errors("read a table", self.handle):
            table = self.handle.scanner(columns=names, with_row_id=True).to_table().combine_chunks()
        known = np.asarray(table.column("_rowid").to_numpy(), np.uint64)
        order = np.argsort(known)
        whole = self._shown(table.select(names), positions)
        return lambda row_ids: whole.take(pa.array(order[np.searchsorted(known, row_ids, sorter=order)]))

    def _is_best_read_whole(self, row_ids: RowIds, positions: Sequence[int]) -> bool:
        rows = self.handle.count_rows()
        if len(row_ids) < max(rows * _DELTA_SCAN_SHARE, limits.DELTA_SAMPLE_ROWS):
            return False
        sample = row_ids[:: len(row_ids) // limits.DELTA_SAMPLE_ROWS]
        return bool(self._read(sample, positions).nbytes / len(sample) * rows <= _DELTA_SCAN_BYTES)

    def blobs(self, row_ids: RowIds) -> pa.Table:
        return self._read(row_ids, self.blob_columns)

    def _read(self, row_ids: RowIds, positions: Sequence[int], total: int | None = None) -> pa.Table:
        names = [self.columns[each] for each in positions]
        return self._shown(rows_at(self.handle, row_ids, names, total), positions)

    def would_keep(self, rows: int, row_bytes: float) -> bool:
        """Whether so many rows of this size are few enough to be read with all columns, and kept, when looked for."""
        return not self.blob_columns and rows <= limits.FILTERED_ROWS and rows * row_bytes <= _DELTA_KEPT_BYTES

    def keep(self, rows: pa.Table) -> None:
        """Take complete rows as stored, with row ids and addresses; whoever asks for some gets them from here."""
        row_ids, addresses = (np.asarray(rows.column(name).to_numpy(), np.uint64) for name in (ROW_ID, ROW_ADDRESS))
        shown = self._shown(rows.select(list(self.columns)), range(len(self.columns)))
        self._remembered(row_ids, shown, addresses)

    def places(self, row_ids: RowIds, columns: Sequence[str]) -> pa.Table | None:
        """Columns, row ids and addresses of some rows in their order; None when they were not kept."""
        for kept in self._kept:
            at = places_of(row_ids, kept.row_ids)
            if kept.addresses is not None and (at >= 0).all():
                found = kept.rows.select(list(columns)).take(pa.array(at))
                found = found.append_column(ROW_ID, pa.array(row_ids, pa.uint64()))
                return found.append_column(ROW_ADDRESS, pa.array(kept.addresses[at]))
        return None

    def _remembered(self, row_ids: RowIds, rows: pa.Table, addresses: RowIds | None = None) -> pa.Table:
        """Few rows that were compared are most likely asked for next."""
        if not self.blob_columns and len(row_ids) and rows.nbytes <= _DELTA_KEPT_BYTES:
            self._kept[:] = [_CachedRows(row_ids, rows, addresses)]
        return rows

    def _recalled(self, row_ids: RowIds) -> pa.Table | None:
        for kept in self._kept:
            at = places_of(row_ids, kept.row_ids)
            if (at >= 0).all():
                return kept.rows.take(pa.array(at))
        return None

    def _shown(self, rows: pa.Table, positions: Sequence[int]) -> pa.Table:
        wanted = pa.schema([self.schema.field(each) for each in positions])
        return rows.rename_columns(wanted.names).cast(wanted)


@dataclass(frozen=True, slots=True)
class Matched:
    """Two states of a table under the column names of the later one.

    Attributes:
        same_columns: both read their rows from the same columns, so equal files mean equal rows.
    """

    before: TableSide
    after: TableSide
    same_columns: bool


def side_of(handle: LanceTable) -> TableSide:
    """A state on its own."""
    fields = [plain_field(field) for field in handle.schema]
    names = tuple(field.name for field in fields)
    return TableSide(handle, names, pa.schema(fields), _blob_positions(handle, names))


def match(table_key: str, before: LanceTable, after: LanceTable) -> Matched:
    """Bring two states under common names.

    Raises:
        ChangeSchemaBoundary: they do not hold the same properties.
    """
    numbers_before, numbers_after = _numbers(before), _numbers(after)
    if set(numbers_before) == set(numbers_after):
        pairs = [(numbers_before[number], name) for number, name in numbers_after.items()]
    elif set(before.schema.names) == set(after.schema.names):
        pairs = [(name, name) for name in after.schema.names]
    else:
        raise _boundary(table_key, before, after)
    schema = pa.schema([plain_field(after.schema.field(name)) for _, name in pairs])
    old_names = tuple(name for name, _ in pairs)
    for old, new in zip(old_names, schema, strict=True):
        if not _becomes(plain_field(before.schema.field(old)).type, new.type):
            raise _boundary(table_key, before, after)
    return Matched(
        TableSide(before, old_names, schema, _blob_positions(before, old_names)),
        TableSide(after, tuple(schema.names), schema, _blob_positions(after, tuple(schema.names))),
        set(numbers_before) == set(numbers_after),
    )


def _numbers(handle: LanceTable) -> dict[int, str]:
    return {field.id(): field.name() for field in handle.lance_schema.fields()}


def _blob_positions(handle: LanceTable, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(position for position, name in enumerate(names) if is_blob(handle.schema.field(name)))


def _becomes(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of a type is the same value of another one."""
    if old == new:
        return True
    if pt.is_list(old) and pt.is_list(new):
        return _becomes(old.value_type, new.value_type)
    kinds = (pt.is_signed_integer, pt.is_unsigned_integer, pt.is_floating)
    return any(kind(old) and kind(new) and old.bit_width < new.bit_width for kind in kinds)


def _boundary(table_key: str, before: LanceTable, after: LanceTable) -> ChangeSchemaBoundary:
    old, new = set(before.schema.names), set(after.schema.names)
    changed = sorted(old ^ new) or sorted(old & new)
    return ChangeSchemaBoundary(
        f"the properties of '{table_key}' changed between the two states ({', '.join(changed)}): "
        "its rows cannot be compared",
        hint="compare states before or after the schema change",
        table_key=table_key,
        columns=changed,
    )
