"""What tasks of a merge do with rows of pinned versions: compare them, check their values, stage them.

A task gets row ids and fetches the rows by itself, as many at a time as fit; only places, conflicts and metadata of
files go back. Functions of Arrow tables, for `applyInArrow` and for this process alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import failpoints, limits
from omnigraph.history.merge.validate import broken_values
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.spark.wire import Answer, batch_of
from omnigraph.storage.blobs import has_blobs
from omnigraph.storage.fragments import TableAt
from omnigraph.storage.images import RowIds, rows_at
from omnigraph.storage.pace import Pace
from omnigraph.storage.remote_stage import StageTable, rows_of, with_row_ids, write_rows
from omnigraph.storage.same_rows import differing_rows
from omnigraph.storage.tables import Handle

#: Number of the task, and the row's id in the version that it is read from.
CHUNK, ROW = "chunk", "row"

#: A row's place among those asked about, and its row id on the other side: of the row it is compared with, or of the
#: one that it takes the place of (`NEW` for none).
PLACE, OTHER = "place", "other"
NEW = -1

PLACE_DDL = "place long"
_PLACE = pa.schema([(PLACE, pa.int64())])

GroupTask: TypeAlias = Callable[[pa.Table], pa.Table]


def comparing(theirs: TableAt, ours: TableAt, columns: Sequence[str]) -> GroupTask:
    """Places of the rows that are not the same in both versions."""

    def run(group: pa.Table) -> pa.Table:
        one, other = theirs.open(), ours.open()
        rows, others = _row_ids(group, ROW), _row_ids(group, OTHER)
        mask = np.zeros(len(rows), np.bool_)
        pace = _pace(one)
        for start, stop in pace.steps(0, len(rows)):
            left = rows_at(one, rows[start:stop], columns, len(rows))
            right = rows_at(other, others[start:stop], columns, len(rows))
            mask[start:stop] = differing_rows(left, right)
            pace.took(stop - start, max(left.nbytes, right.nbytes))
        return pa.table([group.column(PLACE).to_numpy()[mask]], schema=_PLACE)

    return run


def checking(type_: NodeType | EdgeType, theirs: TableAt, columns: Sequence[str]) -> GroupTask:
    """Rows that break a rule about a row alone, as answers."""

    def run(group: pa.Table) -> pa.Table:
        number = group.column(CHUNK)[0].as_py()
        found = [
            Answer(number, "conflict", [each.row_id, each.kind, each.message])
            for rows in _batches(theirs, group, columns)
            for each in broken_values(type_, rows)
        ]
        return pa.Table.from_batches([batch_of(found)])

    return run


def staging(theirs: TableAt, target: StageTable, columns: Sequence[str]) -> GroupTask:
    """Write rows of the source as fragments of the target. All of a group are new, or all keep a row id."""

    def run(group: pa.Table) -> pa.Table:
        failpoints.reach("spark.before_fragment")
        others = group.column(OTHER).to_numpy()
        handle = target.open()
        fragments: list[str] = []
        done = 0
        for rows in _gathered(_batches(theirs, group, columns)):
            kept = others[done : done + rows.num_rows]
            fragments += write_put(target, handle, rows, kept)
            done += rows.num_rows
        answer = Answer(group.column(CHUNK)[0].as_py(), "new", fragments)
        return pa.Table.from_batches([batch_of([answer])])

    return run


def write_put(target: StageTable, handle: Handle, rows: pa.Table, kept: npt.NDArray[np.int64]) -> list[str]:
    """Stage rows, either all new or each with the row id of the row that it replaces."""
    written = write_rows(target, handle, rows.select(handle.schema.names))
    if kept[0] == NEW:
        return written
    fragments, start = [], 0
    for fragment in written:
        stop = start + rows_of(fragment)
        fragments.append(with_row_ids(fragment, kept[start:stop].astype(np.uint64)))
        start = stop
    return fragments


def _batches(table: TableAt, group: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a group, some at a time, in its order."""
    handle, wanted = table.open(), _row_ids(group, ROW)
    pace = _pace(handle)
    for start, stop in pace.steps(0, len(wanted)):
        rows = rows_at(handle, wanted[start:stop], columns, len(wanted))
        pace.took(stop - start, rows.nbytes)
        yield rows


def _gathered(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Batches together, until they are worth a file."""
    waiting: list[pa.Table] = []
    size = 0
    for rows in batches:
        waiting.append(rows)
        size += rows.nbytes
        if size >= limits.STAGE_BYTES:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _pace(handle: Handle) -> Pace:
    most = limits.DELTA_BLOB_BATCH_ROWS if has_blobs(handle.schema) else limits.DELTA_BATCH_ROWS
    return Pace(most, limits.DELTA_BATCH_BYTES)


def _row_ids(group: pa.Table, name: str) -> RowIds:
    values: Any = group.column(name).to_numpy()
    return np.asarray(values, np.uint64)
