"""The engines of a merge. Ids are joined by `compute.py`; whatever needs whole rows is done by an engine.

An engine serves one attempt against one state of the target. `EmbeddedMerge` holds the rows in this process up to a
limit; Spark merges without bringing them here; `AdaptiveMerge` begins in this process and hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import Conflict, ResourceLimitExceeded
from omnigraph.history.merge.merge_source import MergeSource
from omnigraph.history.merge.resolution import DecidedRows
from omnigraph.history.merge.table_plan import TablePlan
from omnigraph.history.merge.three_way import MergeSide, different
from omnigraph.history.merge.validate import broken_values
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.commit.preparation import PreparedTable, Workspace
from omnigraph.storage.tables.stage_rows import stage_change
from omnigraph.write.change import Resolved
from omnigraph.write.stage_changes import found_rows, side_by_side


class MergeEngine(Protocol):
    """The work on rows that a merge needs done."""

    @property
    def engine(self) -> str:
        """Its name, as a caller asks for it."""

    def different(self, plan: TablePlan, source: MergeSide, target: MergeSide, ids: pa.Array) -> pa.Array:
        """Those ids, which both sides put, whose rows are not the same on both sides."""

    def put(
        self, type_: NodeType | EdgeType, plan: TablePlan, decided: DecidedRows, source: MergeSide, *, checked: bool
    ) -> pa.Table:
        """The rows that the target gets: those of ``decided.put``, then those given. At least their ids, and when
        they are to be ``checked`` the columns that rules about rows together look at."""

    def values(self, change: Resolved) -> Iterable[Conflict]:
        """Rows of a change that break a rule about a row alone."""

    def stage(self, workspace: Workspace, changes: Sequence[Resolved]) -> dict[str, PreparedTable]:
        """Write the files of changes, by table key. Only asked once there is no conflict."""

    def discard(self) -> None:
        """Remove what was staged: it will never be committed."""


#: Makes the engine of an attempt.
MergeEngines: TypeAlias = Callable[[Workspace, MergeSource], MergeEngine]


class EmbeddedMerge:
    """Everything in the memory of this process."""

    engine = "embedded"

    def __init__(self) -> None:
        self._bytes = 0

    def different(self, plan: TablePlan, source: MergeSide, target: MergeSide, ids: pa.Array) -> pa.Array:
        found = [different(source, target, part) for part in _parts(source, ids)]
        return pa.concat_arrays(found) if found else ids

    def put(
        self, type_: NodeType | EdgeType, plan: TablePlan, decided: DecidedRows, source: MergeSide, *, checked: bool
    ) -> pa.Table:
        parts = []
        for ids in _parts(source, decided.put) or [decided.put]:
            parts.append(source.rows(ids))
            self._count(parts[-1])
        self._count(decided.given)
        return with_given(pa.concat_tables(parts), decided.given)

    def _count(self, rows: pa.Table) -> None:
        self._bytes += rows.nbytes
        if self._bytes > limits.MERGE_BYTES:
            hint = "merge on Spark with engine='spark'"
            raise ResourceLimitExceeded("bytes of rows in one merge", self._bytes, limits.MERGE_BYTES, hint=hint)

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

    def discard(self) -> None:
        """Files of this process are few; `cleanup` finds them."""


class AdaptiveMerge:
    """In this process while the rows are few, then on the engine for bulk data where there is one.

    Args:
        bulk: makes that engine, or None where there is none; asked at most once.
    """

    def __init__(self, bulk: Callable[[], MergeEngine | None]) -> None:
        self._ask_for_bulk: Callable[[], MergeEngine | None] | None = bulk
        self._bulk: MergeEngine | None = None
        self._here = EmbeddedMerge()
        self._engine_of: dict[str, MergeEngine] = {}
        self._bytes = 0

    @property
    def engine(self) -> str:
        return self._now.engine

    def different(self, plan: TablePlan, source: MergeSide, target: MergeSide, ids: pa.Array) -> pa.Array:
        if about_bytes(source, ids) > limits.SPARK_MERGE_BYTES:
            self._hand_over()
        return self._now.different(plan, source, target, ids)

    def put(
        self, type_: NodeType | EdgeType, plan: TablePlan, decided: DecidedRows, source: MergeSide, *, checked: bool
    ) -> pa.Table:
        self._bytes += about_bytes(source, decided.put)
        if self._bytes > limits.SPARK_MERGE_BYTES:
            self._hand_over()
        try:
            rows = self._now.put(type_, plan, decided, source, checked=checked)
        except ResourceLimitExceeded:  # rows of very different sizes are more than the few that were looked at said
            if not self._hand_over():
                raise
            rows = self._now.put(type_, plan, decided, source, checked=checked)
        self._engine_of[plan.table_key] = self._now
        return rows

    def values(self, change: Resolved) -> Iterable[Conflict]:
        return self._engine_of[change.type.table_key].values(change)

    def stage(self, workspace: Workspace, changes: Sequence[Resolved]) -> dict[str, PreparedTable]:
        staged: dict[str, PreparedTable] = {}
        for engine in (self._here, self._bulk):
            own = [change for change in changes if self._engine_of[change.type.table_key] is engine]
            if engine is not None and own:
                staged |= engine.stage(workspace, own)
        return staged

    def discard(self) -> None:
        for engine in (self._here, self._bulk):
            if engine is not None:
                engine.discard()

    @property
    def _now(self) -> MergeEngine:
        return self._bulk or self._here

    def _hand_over(self) -> bool:
        """Switch to the engine for bulk data; False when that is not possible any more."""
        if self._ask_for_bulk is None:
            return False
        self._bulk, self._ask_for_bulk = self._ask_for_bulk(), None
        return self._bulk is not None


def embedded(workspace: Workspace, source: MergeSource) -> MergeEngine:
    return EmbeddedMerge()


def with_given(rows: pa.Table, given: pa.Table) -> pa.Table:
    """Rows of the source, then those that the caller gave."""
    if given.num_rows == 0:
        return rows
    return pa.concat_tables([rows.select(given.column_names), given], promote_options="default")


def about_bytes(side: MergeSide, ids: pa.Array) -> int:
    """Size of the rows of some ids, told by a few of them; few rows are taken for nothing."""
    if len(ids) <= limits.FILTERED_ROWS:
        return 0
    sample = ids.take(pa.array(range(0, len(ids), -(-len(ids) // limits.DELTA_SAMPLE_ROWS))))
    return int(side.rows(sample).nbytes / len(sample) * len(ids))


def _parts(side: MergeSide, ids: pa.Array) -> list[pa.Array]:
    """Ids in parts whose rows are of bounded size, about."""
    count = -(-about_bytes(side, ids) // limits.SPARK_MERGE_BYTES) or 1
    step = max(1, -(-len(ids) // count))
    return [ids.slice(start, step) for start in range(0, len(ids), step)]
