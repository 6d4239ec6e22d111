"""`ogs.merge`: a merge with the rows on executors, which `Graph.branches.merge` uses for many rows.

The same code as in an embedded merge decides about ids, conflicts and rules. Tasks only compare, check and stage whole
rows: each gets row ids and reads the rows by itself. The driver holds ids, row ids and the columns that rules about
sets of rows look at. Nothing is staged before it is certain that there is no conflict; what an attempt staged in vain
is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import failpoints, ids, limits
from omnigraph.errors import Conflict, CorruptGraph, ResourceLimitExceeded
from omnigraph.graph import Graph
from omnigraph.history.merge.engine import MergeEngine, with_given
from omnigraph.history.merge.merge_result import MergeResult
from omnigraph.history.merge.merge_source import MergeSource, require_unchanged
from omnigraph.history.merge.resolution import DecidedRows, Resolve
from omnigraph.history.merge.table_plan import TablePlan
from omnigraph.history.merge.three_way import MergeSide
from omnigraph.history.merge.validate import broken_values
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.messages import MESSAGE_DDL, ConflictFound, FragmentsWritten, decode, encode_group
from omnigraph.spark.session import active_session, require_spark
from omnigraph.storage.commit.preparation import PreparedTable, Workspace
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.tables.datasets import TableVersion, has_blobs
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_equality import differing_rows
from omnigraph.storage.tables.row_lookup import RowIds, RowLocations, locate, rows_at
from omnigraph.storage.tables.table_scan import AdaptiveBatches, TableAt
from omnigraph.storage.tables.task_staging import (
    StageTable,
    remove_staged,
    rows_of,
    staged_replacement,
    with_row_ids,
    write_rows,
)
from omnigraph.write.change import Resolved
from omnigraph.write.stage_changes import found_rows

ENGINE: Literal["spark"] = "spark"

_Numbers = npt.NDArray[np.int64]


def merge(
    graph: Graph,
    source: str,
    into: str = ids.MAIN,
    *,
    dry_run: bool = False,
    resolve: Resolve | None = None,
    delete_branch: bool = False,
    message: str | None = None,
) -> MergeResult:
    """Merge what a branch changed into another one on Spark; arguments, result and errors as `Branches.merge`.

    Raises:
        MergeConflict: there are conflicts; nothing was written.
    """
    return graph.branches.merge(
        source, into, dry_run=dry_run, resolve=resolve, delete_branch=delete_branch, engine=ENGINE, message=message
    )


def spark_merge(workspace: Workspace, source: MergeSource) -> MergeEngine:
    """The engine of one attempt of a merge, on the session of this process.

    Raises:
        MissingExtra: pyspark or Java is not installed.
    """
    require_spark()
    return SparkMerge(Cluster(active_session(), "merge"), workspace.store, source)


@dataclass(frozen=True, slots=True)
class _Put:
    """Rows that one table gets.

    Attributes:
        rows: row ids in the source's version, in the order of ``ids``.
        order: places in stored order.
        given: rows that the caller gave.
    """

    source: TableAt
    columns: tuple[str, ...]
    ids: pa.Array
    rows: _Numbers
    order: _Numbers
    given: pa.Table


class SparkMerge:
    """One attempt of a merge on Spark. Few rows are looked at in this process."""

    engine = ENGINE

    def __init__(self, cluster: Cluster, store: GraphStore, source: MergeSource) -> None:
        self._cluster = cluster
        self._store = store
        self._source = source
        self._puts: dict[str, _Put] = {}
        self._written: list[tuple[StageTable, list[str]]] = []

    def different(self, plan: TablePlan, source: MergeSide, target: MergeSide, ids: pa.Array) -> pa.Array:
        if len(ids) == 0:
            return ids
        theirs, ours = TableAt(self._store.location, plan.source), TableAt(self._store.location, plan.target)
        found = _in_order(locate(theirs.open(), ids), ids)
        others = _in_order(locate(ours.open(), ids), ids).row_ids.astype(np.int64)
        order = np.argsort(found.addresses)
        chunks = _chunks(found.row_ids.astype(np.int64)[order], others[order], order)
        differing = self._run(chunks, comparing(theirs, ours, theirs.schema.names), PLACE_DDL)
        places = np.sort(np.array([row[PLACE] for row in differing], np.int64))
        return ids.take(pa.array(places))

    def put(
        self, type_: NodeType | EdgeType, plan: TablePlan, settled: DecidedRows, source: MergeSide, *, checked: bool
    ) -> pa.Table:
        theirs = TableAt(self._store.location, plan.source)
        handle = theirs.open()
        found = _in_order(locate(handle, settled.put), settled.put)
        rows = found.row_ids.astype(np.int64)
        order = np.argsort(found.addresses)
        names = tuple(handle.schema.names)
        self._puts[plan.table_key] = _Put(theirs, names, settled.put, rows, order, settled.given)
        if not checked:
            return with_given(pa.table({"id": settled.put}), settled.given.select(["id"]))
        keys = _key_rows(handle, found.row_ids, [name for name in names if name in _key_columns(type_)])
        return with_given(keys, settled.given.select(keys.column_names))

    def values(self, change: Resolved) -> Iterable[Conflict]:
        key = change.type.table_key
        put = self._puts[key]
        rows = put.rows[put.order]
        found = self._run(
            _chunks(rows, np.full(len(rows), NEW), put.order),
            checking(change.type, put.source, put.columns),
            MESSAGE_DDL,
        )
        yield from (Conflict(key, each.row_id, each.kind, each.message) for each in decode(found, ConflictFound))
        yield from broken_values(change.type, put.given)

    def stage(self, workspace: Workspace, changes: Sequence[Resolved]) -> dict[str, PreparedTable]:
        try:
            tables = {change.type.table_key: self._stage(workspace, change) for change in changes}
            require_unchanged(self._store, self._source.snapshot)  # its rows were read again
        except BaseException:
            self.discard()  # nothing of it can have been committed
            raise
        return tables

    def discard(self) -> None:
        for table, fragments in self._written:
            remove_staged(table, fragments)
        self._written.clear()

    def _stage(self, workspace: Workspace, change: Resolved) -> PreparedTable:
        key = change.type.table_key
        pin, handle = workspace.writable(key)
        table = StageTable(self._store.location, TableVersion(pin.location, pin.branch, handle.version))
        put, replaced, removed = self._puts[key], found_rows(change.replaced), found_rows(change.removed)
        fragments: list[str] = []
        self._written.append((table, fragments))
        others = _kept(put.ids, replaced)[put.order]
        task = staging(put.source, table, put.columns)
        told = self._run(_chunks(put.rows[put.order], others, put.order), task, MESSAGE_DDL)
        for written in sorted(decode(told, FragmentsWritten), key=lambda each: each.number):
            fragments += written.fragments
        fragments += _write_given(table, handle, put.given, replaced)
        gone = np.concatenate([replaced.addresses, removed.addresses])
        after = pin.row_count + change.rows.num_rows - len(gone)
        staged = staged_replacement(table, handle, fragments, gone, after)
        staged = replace(staged, updated=len(replaced.addresses), deleted=len(removed.addresses))
        # Not `reads_rows`: when the target moves, the whole merge is computed again on what it became.
        return PreparedTable(pin, handle, staged, reads_rows=False)

    def _run(self, chunks: pa.Table, task: GroupTask, ddl: str) -> list[Any]:
        """What a task answers for each chunk; few rows are not worth a job."""
        if chunks.num_rows <= limits.DRIVER_ROWS:
            return [row for group in _by_chunk(chunks) for row in task(group).to_pylist()]
        tasks = pc.max(chunks.column(CHUNK)).as_py() + 1
        # Partitions by number of chunks: Spark would bring so few bytes together in one task.
        frame = self._cluster.spark.createDataFrame(chunks).repartition(tasks, CHUNK)
        return self._cluster.collect(frame.groupBy(CHUNK).applyInArrow(task, ddl))


def _key_columns(type_: NodeType | EdgeType) -> set[str]:
    """What rules about rows together look at."""
    ends = {"src", "dst"} if isinstance(type_, EdgeType) else set()
    return {"id", *ends, *(name for columns in type_.uniques for name in columns)}


def _key_rows(handle: LanceTable, row_ids: npt.NDArray[np.uint64], columns: Sequence[str]) -> pa.Table:
    """Columns of rows, as long as each of them fits into one array of this process."""
    sizes, parts = dict.fromkeys(columns, 0), [rows_at(handle, row_ids[:0], columns)]
    for start in range(0, len(row_ids), limits.KEY_TASK_ROWS):
        parts.append(rows_at(handle, row_ids[start : start + limits.KEY_TASK_ROWS], columns, len(row_ids)))
        for name in columns:
            sizes[name] += parts[-1].column(name).nbytes
            if sizes[name] > limits.MERGE_KEY_BYTES:
                hint = "make a branch of an earlier commit of the source and merge that first"
                raise ResourceLimitExceeded(
                    f"bytes of '{name}' in one merge", sizes[name], limits.MERGE_KEY_BYTES, hint=hint
                )
    return pa.concat_tables(parts)


def _in_order(found: RowLocations, wanted: pa.Array) -> RowLocations:
    """Where rows lie, in the order of their ids; each is there."""
    places = pc.index_in(wanted, value_set=found.ids)
    if places.null_count:
        raise CorruptGraph(f"a table lost {places.null_count} rows while it was read")
    at = places.to_numpy()
    return RowLocations(wanted, found.row_ids[at], found.addresses[at])


def _kept(put: pa.Array, replaced: RowLocations) -> _Numbers:
    """For each id the row id of the row that it replaces, or `NEW`."""
    places = pc.index_in(put, value_set=replaced.ids)
    known = places.is_valid().to_numpy(zero_copy_only=False)
    kept = np.full(len(put), NEW, np.int64)
    kept[known] = replaced.row_ids[places.drop_null().to_numpy()].astype(np.int64)
    return kept


def _chunks(rows: _Numbers, others: _Numbers, places: _Numbers) -> pa.Table:
    """Rows for tasks, each chunk either of new rows only or of none, in the order given."""
    numbers = np.empty(len(rows), np.int64)
    first = 0
    for among in (others != NEW, others == NEW):
        count = int(among.sum())
        numbers[among] = first + np.arange(count) // limits.FRAGMENT_ROWS
        first += -(-count // limits.FRAGMENT_ROWS)
    return pa.table({CHUNK: numbers, ROW: rows, OTHER: others, PLACE: places})


def _by_chunk(chunks: pa.Table) -> Iterator[pa.Table]:
    for number in pc.unique(chunks.column(CHUNK)).to_pylist():
        yield chunks.filter(pc.equal(chunks.column(CHUNK), number))


def _write_given(table: StageTable, handle: LanceTable, given: pa.Table, replaced: RowLocations) -> list[str]:
    if given.num_rows == 0:
        return []
    others = _kept(given.column("id").combine_chunks(), replaced)
    fragments: list[str] = []
    for among in (others != NEW, others == NEW):
        if among.any():
            fragments += write_put(table, handle, given.filter(pa.array(among)), others[among])
    return fragments


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
    """Rows that break a rule about a row alone."""

    def run(group: pa.Table) -> pa.Table:
        found = [
            ConflictFound(each.row_id, each.kind, each.message)
            for rows in _batches(theirs, group, columns)
            for each in broken_values(type_, rows)
        ]
        return encode_group(found)

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
        return encode_group([FragmentsWritten(group.column(CHUNK)[0].as_py(), tuple(fragments))])

    return run


def write_put(target: StageTable, handle: LanceTable, rows: pa.Table, kept: npt.NDArray[np.int64]) -> list[str]:
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


def _pace(handle: LanceTable) -> AdaptiveBatches:
    most = limits.DELTA_BLOB_BATCH_ROWS if has_blobs(handle.schema) else limits.DELTA_BATCH_ROWS
    return AdaptiveBatches(most, limits.DELTA_BATCH_BYTES)


def _row_ids(group: pa.Table, name: str) -> RowIds:
    values: Any = group.column(name).to_numpy()
    return np.asarray(values, np.uint64)
