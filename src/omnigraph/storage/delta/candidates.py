"""Rows that may differ between two states of a table, and what became of them.

A method only has to name every row that may have changed, on the side where it lies. Joining the two sides by id and
comparing the images happens here, once for all methods, so an equal row is never reported whatever the storage did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import ResourceLimitExceeded
from omnigraph.storage.delta.columns import Side
from omnigraph.storage.images import ROW_ID, RowIds
from omnigraph.storage.pace import Pace
from omnigraph.storage.same_rows import Mask, differing_rows

ID = "id"


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one side: their ids, and their row ids there."""

    ids: pa.Array
    row_ids: RowIds

    def at(self, positions: Mask | RowIds) -> Rows:
        places = np.flatnonzero(positions) if positions.dtype == np.bool_ else positions
        return Rows(self.ids.take(pa.array(places)), self.row_ids[places])

    def by_id(self) -> Rows:
        order = pc.sort_indices(self.ids).to_numpy()
        return Rows(self.ids.take(pa.array(order)), self.row_ids[order])


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every row that may have changed. A row that did is here on each side that has it."""

    before: Rows
    after: Rows

    def reversed(self) -> Candidates:
        return Candidates(self.after, self.before)


@dataclass(frozen=True, slots=True)
class Settled:
    """What changed for certain, each part in the order of its ids; the rows of ``updated`` lie side by side."""

    inserted: Rows
    deleted: Rows
    updated_before: Rows
    updated_after: Rows


def no_rows() -> Rows:
    return Rows(pa.array([], pa.string()), np.array([], np.uint64))


def rows_of(table: pa.Table) -> Rows:
    """Rows from a scan of ``id`` with row ids."""
    size = table.column(ID).nbytes
    if size > limits.LOAD_COLUMN_BYTES:
        raise ResourceLimitExceeded("bytes of ids in one comparison", size, limits.LOAD_COLUMN_BYTES)
    return Rows(table.column(ID).combine_chunks(), np.asarray(table.column(ROW_ID).to_numpy(), np.uint64))


def settle(candidates: Candidates, before: Side, after: Side) -> Settled:
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
    return Settled(new.at(~known).by_id(), old.at(left).by_id(), replaced.at(order), kept.at(order))


def _differing(old: RowIds, new: RowIds, before: Side, after: Side) -> Mask:
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
    pace = Pace(most, limits.DELTA_BATCH_BYTES)
    for start, stop in pace.steps(0, len(places)):
        part = places[start:stop]
        one, other = left(old[part]), right(new[part])
        mask[part] = differing_rows(one, other)
        pace.took(len(part), max(one.nbytes, other.nbytes))
