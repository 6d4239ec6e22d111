"""The rows that differ between two states of one table.

The answer holds ids and places only. Images are fetched when they are asked for, so memory follows the number of
changes, not their size.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.delta.candidates import ID, Rows, Settled
from omnigraph.storage.delta.columns import Side
from omnigraph.storage.images import RowIds
from omnigraph.storage.same_rows import Mask


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
    _before: Side | None
    _after: Side | None

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
    _settled: Settled
    _before: Side | None
    _after: Side | None

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


def _images(side: Side | None, parts: list[Rows], ids: pa.Array) -> pa.Table:
    rows, known = _row_ids(parts, ids)
    return _rows_of(side, rows[known])


def _row_ids(parts: list[Rows], ids: pa.Array) -> tuple[RowIds, Mask]:
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


def _rows_of(side: Side | None, row_ids: RowIds, total: int | None = None) -> pa.Table:
    return side.images(row_ids, total) if side is not None else _ID_ALONE.empty_table()
