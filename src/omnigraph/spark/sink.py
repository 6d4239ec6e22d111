"""Writing one type through the format ``omnigraph``: executors stage, the driver's process commits once.

Rows go through the same rules as every load. What an executor wrote is invisible; the commit checks the keys of all of
it against the graph, in memory that follows the keys, and shows everything or nothing. A write that fails removes its
files; a task that is killed leaves files that nothing refers to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph import ids, limits
from omnigraph.errors import ConflictError, LimitError, OutcomeUnknown, ReadSetChanged, RecoveryRequired, StorageError
from omnigraph.graph import Graph, open_graph
from omnigraph.ids import known_branch
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.spark.frames import pinned
from omnigraph.spark.loading.stage_task import StageConfig, stage_frame
from omnigraph.spark.loading.staged import Staging
from omnigraph.spark.messages import answers_of
from omnigraph.spark.sink_rows import prepared_table
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.objects.location import Location
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.task_staging import StageTable, remove_staged
from omnigraph.upkeep.indexes import ensure_indices
from omnigraph.write.change import Mode, type_of
from omnigraph.write.load.gather import LoadRequest
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.tabular import parse_part

_NAME = "DataFrame"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a user asks for."""

    location: Location
    type_name: str
    mode: Mode
    branch: str = ids.MAIN
    actor: str | None = None


@dataclass
class StagedPartition(WriterCommitMessage):
    """What one task tells: its answers, as text."""

    answers: list[tuple[int, str, str]]


class Sink(DataSourceArrowWriter):
    """One write of one type. Made where Spark plans, copied to the tasks, and asked to commit where it was made."""

    def __init__(self, options: WriteOptions, columns: list[str]) -> None:
        self._options = options
        with open_graph(options.location, actor=options.actor) as graph:
            self._key = pinned(graph, options.branch).table(options.type_name).pin.table_key
            schema = graph.internals.schema_for_rows(known_branch(options.branch))
            self._catalog: Catalog = schema.catalog
            part = self._part(pa.schema([(name, pa.string()) for name in columns]).empty_table())
            list(parse_part(part, 1))  # refuses unknown columns before any task runs
            self._table, self._identity = _stage_table(graph.internals.reader(), options.branch, self._key)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPartition:
        config = StageConfig(
            self._catalog, (), (), {self._key: self._table}, limits.LOAD_COUNTED_VIOLATIONS, keeps=False
        )
        told = StagedPartition([])
        try:
            for batch in stage_frame(config, self._part(None))(iterator):
                told.answers += [(row["number"], row["word"], row["body"]) for row in batch.to_pylist()]
        except BaseException:
            self.abort([told])  # the driver does not learn what a task did that failed
            raise
        return told

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = self._staging(messages)
        with open_graph(self._options.location, actor=self._options.actor) as graph:
            written = [each.text for each in staging.fragments.get(self._key, [])]
            try:
                staging.refuse(LoadRequest(_NAME, self._options.mode))
                self._commit(graph, staging, written)
            except (OutcomeUnknown, RecoveryRequired):
                raise  # the commit may still come true
            except BaseException:
                remove_staged(self._table, written)
                raise
            if staging.rows > limits.LOAD_INDEX_ROWS:
                with contextlib.suppress(ConflictError, LimitError, StorageError):
                    ensure_indices(
                        graph.internals.writer(), graph.internals.schemas, known_branch(self._options.branch)
                    )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = self._staging(messages)
        remove_staged(self._table, [each.text for each in staging.fragments.get(self._key, [])])

    def _commit(self, graph: Graph, staging: Staging, written: list[str]) -> None:
        """Publish what was staged. ``written`` grows by what has to be written anew."""
        options = self._options
        schema: CompiledSchema = graph.internals.schema_for_rows(known_branch(options.branch))

        def prepare(workspace: Workspace) -> Prepared[list[str]]:
            self._require_same_lineage(workspace)
            made = prepared_table(workspace, schema.catalog, self._key, options.mode, self._table, staging, written)
            if made is None:
                return Prepared([])
            return Prepared(list(made.fragments), {self._key: made.table})

        write = Write(options.branch, WriterKind.LOAD, graph.internals.actor, prepare, schema=schema.hash)
        done = run(graph.internals.writer(), write)
        remove_staged(self._table, written, done.report if done.commit is not None else ())

    def _require_same_lineage(self, workspace: Workspace) -> None:
        snapshot = workspace.snapshot
        if snapshot.identity != self._identity:
            raise ReadSetChanged(f"branch '{snapshot.branch}'", self._identity, snapshot.identity)
        pin = snapshot.pins.get(self._key)
        if pin is None or pin.location != self._table.version.location:
            raise ReadSetChanged(
                f"the table of '{self._key}'", self._table.version.location, pin.location if pin else "none"
            )

    def _part(self, table: pa.Table | None) -> Part:
        return Part(_NAME, Format.ARROW, type_of(self._catalog, self._key), table)

    def _staging(self, messages: list[WriterCommitMessage | None]) -> Staging:
        staging = Staging([_NAME])
        for message in messages:
            if isinstance(message, StagedPartition):
                rows: list[Any] = [{"number": n, "word": word, "body": body} for n, word, body in message.answers]
                staging.take(0, (), answers_of(rows))
        staging.settle()
        return staging


def _stage_table(store: GraphStore, branch: str, key: str) -> tuple[StageTable, str]:
    """Where the rows go, and which branch of this name it is. A branch gets its own lineage of the table."""
    snapshot = store.snapshot(known_branch(branch))
    pin, handle = Workspace(store, snapshot).writable(key)
    return StageTable(store.location, TableVersion(pin.location, pin.branch, handle.version)), snapshot.identity
