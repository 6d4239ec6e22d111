"""Reads one table at one version: scans, takes, look-ups, and what changed since another version.

The seam between the engine and Lance. Everything comes out as Arrow; filters are expressions made of values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.read_budget import PIECE_ROWS, UNBOUNDED, ReadBudget
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.filters import one_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.recent_changes import TableChange as TableChange
from omnigraph.storage.tables.row_lookup import row_ids_in_metadata, rows_at, select_rows
from omnigraph.storage.tables.version_steps import are_upkeep

#: Fetching a row by its row id costs about as much as scanning this many.
_TAKE_COST = 64


_NO_ROWS = np.array([], np.uint64)

#: What upkeep does to rows.
_NOTHING = TableChange(_NO_ROWS, pa.table({}), _NO_ROWS, (), 0, 0)


class TableReader:
    """A table at its pin."""

    def __init__(self, store: GraphStore, pin: Pin) -> None:
        self._store = store
        self.pin = pin

    @property
    def handle(self) -> LanceTable:
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
        budget: ReadBudget = UNBOUNDED,
    ) -> pa.Table:
        """Whole columns in storage order, of some fragments only if given."""
        handle = self.handle
        with store_errors("read a table", handle):
            chosen = None if fragments is None else [handle.get_fragment(number) for number in fragments]
            if chosen is not None and not chosen:
                return self._empty(columns, with_row_id)
            scanner = handle.scanner(columns=list(columns), fragments=chosen, with_row_id=with_row_id)
            if not budget.can_stop or self.row_count <= PIECE_ROWS:
                return scanner.to_table()
            batches = []
            for batch in scanner.to_batches():
                budget.check()
                batches.append(batch)
            return pa.Table.from_batches(batches, scanner.projected_schema)

    def take(self, row_ids: npt.NDArray[np.uint64], column: str) -> pa.Array:
        """One column of some rows, in the given order."""
        handle = self.handle
        with store_errors("read rows", handle):
            if _is_as_written(handle):
                return handle._take_rows(row_ids.tolist(), columns=[column]).column(column).combine_chunks()
        return rows_at(handle, row_ids, [column]).column(column).combine_chunks()

    def row_ids_of(self, ids: Sequence[str]) -> npt.NDArray[np.uint64]:
        """Row ids of the rows with these ids, through the index if there is one."""
        wanted = one_of("id", pa.array(list(ids), pa.string()))
        return np.asarray(select_rows(self.handle, ["id"], wanted).column("_rowid").to_numpy(), np.uint64)

    def prefers_take(self, wanted: int, rows: int) -> bool:
        """Whether fetching single rows beats reading the whole column."""
        return wanted * _TAKE_COST < rows

    def changes_since(self, older: TableReader, columns: Sequence[str], most: int) -> list[TableChange] | None:
        """What changed since another version of the same lineage, oldest first.

        Args:
            columns: read with the rows; others can be read later.
            most: rows to look at; None is the answer when there are more, or when it cannot be told at all.
        """
        if (older.pin.location, older.pin.branch) != (self.pin.location, self.pin.branch):
            return None
        kept = self._store.recent_changes.between(older.pin, self.pin)
        if kept is not None:
            return kept if sum(len(change.added_row_ids) for change in kept) <= most else None
        try:
            past, now = older.handle, self.handle
        except HistoricalVersionReclaimed:
            return None
        with store_errors("compare two versions of a table", past, now):
            return self._compared(older, past, now, columns, most) if _columns(past) == _columns(now) else None

    def _compared(
        self, older: TableReader, past: LanceTable, now: LanceTable, columns: Sequence[str], most: int
    ) -> list[TableChange] | None:
        # A process that asks once never compares, and does not pay for what compares.
        from omnigraph.storage.delta.fragment_diff import OpenedTable, moved_rows, plan

        different = plan(past, now)
        if different.before_only and past.version < now.version and are_upkeep(now, above=past.version):
            return [_NOTHING]
        if different.rewritten_rows > most:
            return None
        tables = self._store.tables
        lost, regained = moved_rows(
            OpenedTable(tables, table_version_of(older.pin), past),
            OpenedTable(tables, table_version_of(self.pin), now),
            different.thinned,
        )
        if len(regained):
            return None  # an older state was restored
        rows, added = self._fragment_rows(different.after_only, columns)
        if different.before_only:
            lost = np.concatenate([lost, older.row_ids(different.before_only)])
        gone = np.setdiff1d(lost, added)
        return [TableChange(added, rows, gone, different.after_only, len(added), rows.nbytes)]

    def row_ids(self, fragments: Sequence[int]) -> npt.NDArray[np.uint64]:
        table = self.scan([], fragments=fragments, with_row_id=True)
        return np.asarray(table.column("_rowid").to_numpy(), np.uint64)

    def _fragment_rows(
        self, fragments: tuple[int, ...], columns: Sequence[str]
    ) -> tuple[pa.Table, npt.NDArray[np.uint64]]:
        """Columns and row ids of the rows of whole fragments. A small one is fetched: planning a scan takes longer."""
        chosen = [self.handle.get_fragment(number) for number in fragments]
        if len(chosen) == 1 and columns:
            meta = chosen[0].metadata
            row_ids = row_ids_in_metadata(meta) if meta.deletion_file is None else None
            if row_ids is not None and len(row_ids) <= limits.KEPT_EFFECT_ROWS:
                return chosen[0].take(list(range(len(row_ids))), columns=list(columns)), row_ids
        rows = self.scan(columns, fragments=fragments, with_row_id=True)
        return rows, np.asarray(rows.column("_rowid").to_numpy(), np.uint64)

    def _empty(self, columns: Sequence[str], with_row_id: bool) -> pa.Table:
        fields = [self.handle.schema.field(name) for name in columns]
        if with_row_id:
            fields.append(pa.field("_rowid", pa.uint64()))
        return pa.schema(fields).empty_table()


def _is_as_written(handle: LanceTable) -> bool:
    """Whether no row was ever replaced or removed. Then Lance finds a row id by arithmetic; otherwise its first take of
    a version learns where every row id lies, and a filter on row ids is cheaper."""
    fragments = handle.get_fragments()
    return len(fragments) <= limits.SMALL_FRAGMENTS and not any(each.metadata.deletion_file for each in fragments)


def _columns(handle: LanceTable) -> list[tuple[str, int]]:
    """Columns by name and field id: a column that was dropped and added again has its name but none of its values."""
    return [(field.name(), field.id()) for field in handle.lance_schema.fields()]
