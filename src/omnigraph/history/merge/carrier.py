"""Who looks at the rows of a merge. Ids are joined by `compute.py`; whatever needs whole rows is asked here.

One carrier serves one attempt against one state of the target. The one of this module holds the rows in this process
up to a limit; a cluster may carry the same merge without bringing them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import Conflict, ResourceLimitExceeded
from omnigraph.history.merge.plan import TablePlan
from omnigraph.history.merge.resolve import Settled
from omnigraph.history.merge.rows import Side, different
from omnigraph.history.merge.source import MergeSource
from omnigraph.history.merge.validate import broken_values
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.commit.prepared import PreparedTable
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.stage import stage_change
from omnigraph.write.commit import found_rows, side_by_side
from omnigraph.write.sets import Resolved


class Carrier(Protocol):
    """The work on rows that a merge needs done."""

    def different(self, plan: TablePlan, source: Side, target: Side, ids: pa.Array) -> pa.Array:
        """Those ids, which both sides put, whose rows are not the same on both sides."""

    def put(self, type_: NodeType | EdgeType, plan: TablePlan, settled: Settled, source: Side) -> pa.Table:
        """The rows that the target gets: those of ``settled.put``, then those given. At least the columns that rules
        about rows together look at."""

    def values(self, change: Resolved) -> Iterable[Conflict]:
        """Rows of a change that break a rule about a row alone."""

    def stage(self, workspace: Workspace, changes: Sequence[Resolved]) -> dict[str, PreparedTable]:
        """Write the files of changes, by table key. Only asked once there is no conflict."""


#: Makes the carrier of an attempt.
Carriers: TypeAlias = Callable[[Workspace, MergeSource], Carrier]


class InProcess:
    """Everything in the memory of this process."""

    def __init__(self) -> None:
        self._bytes = 0

    def different(self, plan: TablePlan, source: Side, target: Side, ids: pa.Array) -> pa.Array:
        return different(source, target, ids)

    def put(self, type_: NodeType | EdgeType, plan: TablePlan, settled: Settled, source: Side) -> pa.Table:
        rows = with_given(source.rows(settled.put), settled.given)
        self._bytes += rows.nbytes
        if self._bytes > limits.MERGE_BYTES:
            hint = "merge on Spark with omnigraph.spark.merge"
            raise ResourceLimitExceeded("bytes of rows in one merge", self._bytes, limits.MERGE_BYTES, hint=hint)
        return rows

    def values(self, change: Resolved) -> Iterable[Conflict]:
        return broken_values(change.type, change.rows)

    def stage(self, workspace: Workspace, changes: Sequence[Resolved]) -> dict[str, PreparedTable]:
        def stage_one(change: Resolved) -> tuple[str, PreparedTable] | None:
            key = change.type.table_key
            pin, handle = workspace.writable(key)
            rows = change.rows.select(handle.schema.names)
            staged = stage_change(handle, pin.row_count, rows, found_rows(change.replaced), found_rows(change.removed))
            # Not `reads_rows`: when the target moves, the whole merge is computed again on what it became.
            return (key, PreparedTable(pin, handle, staged, reads_rows=False)) if staged is not None else None

        return dict(table for table in side_by_side(stage_one, list(changes)) if table is not None)


def in_process(workspace: Workspace, source: MergeSource) -> Carrier:
    return InProcess()


def with_given(rows: pa.Table, given: pa.Table) -> pa.Table:
    """Rows of the source, then those that the caller gave."""
    if given.num_rows == 0:
        return rows
    return pa.concat_tables([rows.select(given.column_names), given], promote_options="default")
