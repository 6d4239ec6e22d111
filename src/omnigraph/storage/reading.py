"""Reads one table at one version: scans, takes, look-ups, and what changed since another version.

The seam between the engine and Lance. Everything comes out as Arrow; filters are expressions made of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.storage.faults import store_errors
from omnigraph.storage.filters import one_of
from omnigraph.storage.manifest import Pin
from omnigraph.storage.select import select_rows
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle

#: Fetching a row by address costs about as much as scanning this many.
_TAKE_COST = 64


@dataclass(frozen=True, slots=True)
class TableChange:
    """Rows that differ between two versions of a table, by stable row id.

    Attributes:
        added_row_ids: rows in fragments that the older version does not have: new or rewritten.
        added: columns of those rows that were asked for.
        lost_row_ids: rows of the older version that are gone.
        fragments: ids of those fragments, in the order of ``added_row_ids``.
        rows: how many rows had to be looked at.
    """

    added_row_ids: npt.NDArray[np.uint64]
    added: pa.Table
    lost_row_ids: npt.NDArray[np.uint64]
    fragments: tuple[int, ...]
    rows: int


class TableReader:
    """A table at its pin."""

    def __init__(self, store: GraphStore, pin: Pin) -> None:
        self._store = store
        self.pin = pin

    @property
    def handle(self) -> Handle:
        return self._store.table(self.pin)

    @property
    def row_count(self) -> int:
        return self.pin.row_count

    def scan(
        self,
        columns: Sequence[str],
        *,
        fragments: Sequence[int] | None = None,
        with_row_id: bool = False,
    ) -> pa.Table:
        """Whole columns in storage order, of some fragments only if given."""
        with store_errors("read a table"):
            chosen = None if fragments is None else [self.handle.get_fragment(number) for number in fragments]
            if chosen is not None and not chosen:
                return self._empty(columns, with_row_id)
            return self.handle.scanner(columns=list(columns), fragments=chosen, with_row_id=with_row_id).to_table()

    def take(self, row_ids: npt.NDArray[np.uint64], column: str) -> pa.Array:
        """One column of some rows, in the given order."""
        with store_errors("read rows"):
            table = self.handle._take_rows(row_ids.tolist(), columns=[column])
            return table.column(column).combine_chunks()

    def row_ids_of(self, ids: Sequence[str]) -> npt.NDArray[np.uint64]:
        """Row ids of the rows with these ids, through the index if there is one."""
        wanted = one_of("id", pa.array(list(ids), pa.string()))
        return np.asarray(select_rows(self.handle, ["id"], wanted).column("_rowid").to_numpy(), np.uint64)

    def prefers_take(self, wanted: int, rows: int) -> bool:
        """Whether fetching single rows beats reading the whole column."""
        return wanted * _TAKE_COST < rows

    def changes_since(self, older: TableReader, columns: Sequence[str]) -> TableChange | None:
        """What changed since another version of the same lineage; None when that cannot be told cheaply."""
        if (older.pin.location, older.pin.branch) != (self.pin.location, self.pin.branch):
            return None
        try:
            past = older.handle
        except HistoricalVersionReclaimed:
            return None
        with store_errors("compare two versions of a table"):
            if _columns(past) != _columns(self.handle):
                return None
            before, after = _fragments(past), _fragments(self.handle)
            gone = [number for number, shape in before.items() if after.get(number) != shape]
            added = [number for number in after if number not in before]
            kept = [number for number in gone if number in after]
            old_ids = older.row_ids(gone)
            rows = self.scan(columns, fragments=added, with_row_id=True)
            added_ids = np.asarray(rows.column("_rowid").to_numpy(), np.uint64)
            lost = np.setdiff1d(old_ids, np.concatenate([self.row_ids(kept), added_ids]))
        return TableChange(added_ids, rows, lost, tuple(added), len(old_ids) + len(added_ids))

    def row_ids(self, fragments: Sequence[int]) -> npt.NDArray[np.uint64]:
        table = self.scan([], fragments=fragments, with_row_id=True)
        return np.asarray(table.column("_rowid").to_numpy(), np.uint64)

    def _empty(self, columns: Sequence[str], with_row_id: bool) -> pa.Table:
        fields = [self.handle.schema.field(name) for name in columns]
        if with_row_id:
            fields.append(pa.field("_rowid", pa.uint64()))
        return pa.schema(fields).empty_table()


def _columns(handle: Handle) -> list[tuple[str, int]]:
    """Columns by name and field id: a column that was dropped and added again has its name but none of its values."""
    return [(field.name(), field.id()) for field in handle.lance_schema.fields()]


def _fragments(handle: Handle) -> dict[int, Any]:
    """Per fragment what its rows depend on: data files and deletions."""
    shapes = {}
    for fragment in handle.get_fragments():
        meta = fragment.metadata
        deletion = meta.deletion_file
        shapes[fragment.fragment_id] = (
            tuple(file.path for file in meta.files),
            (deletion.read_version, deletion.id) if deletion else None,
        )
    return shapes
