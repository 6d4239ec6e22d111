"""The rows that differ between two states of one table.

A method only has to name every row that may have changed, on the side where it lies. Joining the two sides by id and
comparing the values happens here, once for all methods, so an equal row is never reported whatever the storage did.
The result holds ids and row ids only. Rows are fetched when they are asked for, so memory follows the number of
changes, not their size.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import ResourceLimitExceeded
from omnigraph.storage.delta.matched_columns import TableSide
from omnigraph.storage.tables.row_equality import Mask, differing_rows
from omnigraph.storage.tables.row_lookup import ROW_ID, RowIds
from omnigraph.storage.tables.table_scan import AdaptiveBatches

ID = "id"


@dataclass(frozen=True, slots=True)
class RowSet:
    """Some rows of one side: their ids, and their row ids there."""

    ids: pa.Array
    row_ids: RowIds

    def at(self, positions: Mask | RowIds) -> RowSet:
        places = np.flatnonzero(positions) if positions.dtype == np.bool_ else positions
        return RowSet(self.ids.take(pa.array(places)), self.row_ids[places])

    def by_id(self) -> RowSet:
        order = pc.sort_indices(self.ids).to_numpy()
        return RowSet(self.ids.take(pa.array(order)), self.row_ids[order])


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every row that may have changed. A row that did is here on each side that has it."""

    before: RowSet
    after: RowSet

    def reversed(self) -> Candidates:
        return Candidates(self.after, self.before)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What changed for certain, each part in the order of its ids; the rows of ``updated`` lie side by side."""

    inserted: RowSet
    deleted: RowSet
    updated_before: RowSet
    updated_after: RowSet


def no_rows() -> RowSet:
    return RowSet(pa.array([], pa.string()), np.array([], np.uint64))


def rows_of(table: pa.Table) -> RowSet:
    """Rows from a scan of ``id`` with row ids."""
    size = table.column(ID).nbytes
    if size > limits.LOAD_COLUMN_BYTES:
        raise ResourceLimitExceeded("bytes of ids in one comparison", size, limits.LOAD_COLUMN_BYTES)
    return RowSet(table.column(ID).combine_chunks(), np.asarray(table.column(ROW_ID).to_numpy(), np.uint64))


def compare_candidates(candidates: Candidates, before: TableSide, after: TableSide) -> RowChanges:
    """Join by id, then compare the images of the rows that are on both sides."""
    old, new = candidates.before, candidates.after
    positions = pc.index_in(new.ids, value_set=old.ids)
    known = positions.is_valid().to_numpy(zero_copy_only=False)
    partners = positions.drop_null().to_numpy(zero_copy_only=False).astype(np.uint64)
    left = np.ones(len(old.ids), np.bool_)
    left[partners] = False
    kept, replaced = new.at(known), old.at(partners)
    changed = _differing(replaced.row_ids, kept.row_ids, before, after)
    replaced, kept = replaced.at(changed), kept.at(changed)
    order = pc.sort_indices(kept.ids).to_numpy()
    return RowChanges(new.at(~known).by_id(), old.at(left).by_id(), replaced.at(order), kept.at(order))


def _differing(old: RowIds, new: RowIds, before: TableSide, after: TableSide) -> Mask:
    """Compare images batch by batch in stored order; blobs only of rows that are equal otherwise."""
    mask = np.zeros(len(old), np.bool_)
    order = np.argsort(new, kind="stable")
    _compare(mask, order, before.plain(old), after.plain(new), old, new)
    if before.blob_columns:
        _compare(mask, np.flatnonzero(~mask), before.blobs, after.blobs, old, new, most=limits.DELTA_BLOB_BATCH_ROWS)
    return mask


def _compare(
    mask: Mask,
    places: npt.NDArray[np.int64],
    left: Callable[[RowIds], pa.Table],
    right: Callable[[RowIds], pa.Table],
    old: RowIds,
    new: RowIds,
    *,
    most: int = limits.DELTA_BATCH_ROWS,
) -> None:
    pace = AdaptiveBatches(most, limits.DELTA_BATCH_BYTES)
    for start, stop in pace.steps(0, len(places)):
        part = places[start:stop]
        one, other = left(old[part]), right(new[part])
        mask[part] = differing_rows(one, other)
        pace.took(len(part), max(one.nbytes, other.nbytes))


class Method(StrEnum):
    """How a difference was found."""

    VERSIONS = "versions"  # D1: row-version columns, for one lineage
    FRAGMENTS = "fragments"  # D2: files and deletions, for any two states of one dataset
    FULL = "full"  # D3: every row of both states


_ID_ALONE = pa.schema([pa.field(ID, pa.string(), nullable=False)])

INSERT, UPDATE, DELETE = "insert", "update", "delete"

#: Operations in their order.
OPS = (INSERT, UPDATE, DELETE)


@dataclass(frozen=True, slots=True)
class ChangeSlice:
    """Some changes in order, with their images.

    Attributes:
        ops: positions in `OPS`.
        before: earlier rows of those that are no insert, in the same order.
        after: later rows of those that are no delete, in the same order.
    """

    ids: pa.Array
    ops: npt.NDArray[np.uint8]
    before: pa.Table
    after: pa.Table


@dataclass(frozen=True, slots=True)
class OrderedChanges:
    """The changes of a table ascending by id; images are read slice by slice."""

    ids: pa.Array
    ops: npt.NDArray[np.uint8]
    _before_rows: RowIds
    _after_rows: RowIds
    _before: TableSide | None
    _after: TableSide | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def has_blobs(self) -> bool:
        return any(side is not None and side.blob_columns for side in (self._before, self._after))

    def slice(self, start: int, stop: int) -> ChangeSlice:
        ops = self.ops[start:stop]
        old = self._before_rows[start:stop][ops != OPS.index(INSERT)]
        new = self._after_rows[start:stop][ops != OPS.index(DELETE)]
        before, after = _rows_of(self._before, old, len(self)), _rows_of(self._after, new, len(self))
        return ChangeSlice(self.ids[start:stop], ops, before, after)


@dataclass(frozen=True, slots=True)
class TableDelta:
    """Rows that differ between two states of one table. A row with equal values on both sides is never among them.

    Attributes:
        method: how the difference was found.
    """

    method: Method
    _settled: RowChanges
    _before: TableSide | None
    _after: TableSide | None

    @property
    def inserted(self) -> pa.Array:
        """Ids that only the later state has, ascending by their bytes."""
        return self._settled.inserted.ids

    @property
    def updated(self) -> pa.Array:
        """Ids that both states have with different values, ascending."""
        return self._settled.updated_after.ids

    @property
    def deleted(self) -> pa.Array:
        """Ids that only the earlier state has, ascending."""
        return self._settled.deleted.ids

    def __len__(self) -> int:
        return len(self.inserted) + len(self.updated) + len(self.deleted)

    def before(self, ids: pa.Array) -> pa.Table:
        """Earlier rows of updated or deleted ids, in the order given; other ids are left out."""
        return _images(self._before, [self._settled.deleted, self._settled.updated_before], ids)

    def after(self, ids: pa.Array) -> pa.Table:
        """Later rows of inserted or updated ids, in the order given; other ids are left out."""
        return _images(self._after, [self._settled.inserted, self._settled.updated_after], ids)

    def places_before(self, ids: pa.Array, columns: Sequence[str] = ()) -> pa.Table | None:
        """Where earlier rows of updated or deleted ids lie, as a look-up by id would tell, with further columns.

        None when the comparison did not come by it; then look them up.
        """
        rows, known = _row_ids([self._settled.deleted, self._settled.updated_before], ids)
        return self._before.places(rows, [ID, *columns]) if self._before is not None and known.all() else None

    def ordered(self, ops: Container[str] = (INSERT, UPDATE, DELETE)) -> OrderedChanges:
        """All changes of some kinds, ascending by id."""
        found, none = self._settled, np.array([], np.uint64)
        parts = [
            (INSERT, found.inserted.ids, np.zeros(len(found.inserted.ids), np.uint64), found.inserted.row_ids),
            (UPDATE, found.updated_after.ids, found.updated_before.row_ids, found.updated_after.row_ids),
            (DELETE, found.deleted.ids, found.deleted.row_ids, np.zeros(len(found.deleted.ids), np.uint64)),
        ]
        chosen = [part for part in parts if part[0] in ops]
        ids = pa.concat_arrays([pa.array([], pa.string()), *(part[1] for part in chosen)])
        order = pc.sort_indices(ids)
        places = order.to_numpy()
        codes = np.concatenate([none, *(np.full(len(part[1]), OPS.index(part[0])) for part in chosen)]).astype(np.uint8)
        old = np.concatenate([none, *(part[2] for part in chosen)])
        new = np.concatenate([none, *(part[3] for part in chosen)])
        return OrderedChanges(ids.take(order), codes[places], old[places], new[places], self._before, self._after)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the images, under the names of the later state."""
        side = self._after or self._before
        return side.schema if side else _ID_ALONE


def _images(side: TableSide | None, parts: list[RowSet], ids: pa.Array) -> pa.Table:
    rows, known = _row_ids(parts, ids)
    return _rows_of(side, rows[known])


def _row_ids(parts: list[RowSet], ids: pa.Array) -> tuple[RowIds, Mask]:
    """Row ids of some ids, and which of them are known."""
    wanted = ids.cast(pa.string())
    rows = np.zeros(len(wanted), np.uint64)
    known = np.zeros(len(wanted), np.bool_)
    for part in parts:
        positions = pc.index_in(wanted, value_set=part.ids)
        here = positions.is_valid().to_numpy(zero_copy_only=False)
        rows[here] = part.row_ids[positions.drop_null().to_numpy(zero_copy_only=False)]
        known |= here
    return rows, known


def _rows_of(side: TableSide | None, row_ids: RowIds, total: int | None = None) -> pa.Table:
    return side.images(row_ids, total) if side is not None else _ID_ALONE.empty_table()
