"""Writing one type through the format ``omnigraph``: executors stage, and one process of Spark commits.

It goes the way of `ogs.load`: `stage_task.py` on the executors, `load_commit.py` for the rules and the commit. Spark
asks a process without a session to commit, so the tasks of the check run there one after another: they read the key
columns of the staged files a fragment at a time and keep a number for each key. `limits.SINK_ROWS` bounds that; more
rows are refused, and `ogs.load` takes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph import ids, limits
from omnigraph.errors import ConflictError, LimitError, OutcomeUnknown, RecoveryRequired, StorageError
from omnigraph.graph import open_graph
from omnigraph.ids import commit_message, known_branch
from omnigraph.progress import silent
from omnigraph.spark.cluster import LocalCluster
from omnigraph.spark.frames import pinned
from omnigraph.spark.loading.load_commit import LoadCommit, LoadTarget, StageTables
from omnigraph.spark.loading.stage_task import StageConfig, stage_partition
from omnigraph.spark.loading.staged import Staging
from omnigraph.spark.messages import StagingMessage
from omnigraph.storage.objects.object_store import Location
from omnigraph.upkeep.indexes import ensure_indices
from omnigraph.write.change import Mode, type_of
from omnigraph.write.load.gather import LoadRequest, Times
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.tabular import parse_part
from omnigraph.write.load.valid_rows import Reading

_NAME = "DataFrame"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a user asks for."""

    location: Location
    type_name: str
    mode: Mode
    branch: str = ids.MAIN
    actor: str | None = None
    times: Times = Times.EXACT
    message: str | None = None


@dataclass
class StagedPartition(WriterCommitMessage):
    """What one task tells."""

    messages: list[StagingMessage]


class Sink(DataSourceArrowWriter):
    """One write of one type. Made where Spark plans, copied to the tasks, and asked to commit where it was made."""

    def __init__(self, options: WriteOptions, columns: list[str]) -> None:
        self._options = options
        self._branch = known_branch(options.branch)
        self._message = commit_message(options.message)
        self._request = LoadRequest(_NAME, options.mode, times=options.times)
        with open_graph(options.location, actor=options.actor) as graph:
            key = pinned(graph, self._branch).table(options.type_name).pin.table_key
            store = graph.internals.writer("change", self._branch)
            self._rows = graph.internals.schema_for_rows(store, self._branch)
            self._part = Part(_NAME, Format.ARROW, type_of(self._rows.named, key))
            empty = pa.schema([(name, pa.string()) for name in columns]).empty_table()
            list(parse_part(Part(_NAME, Format.ARROW, self._part.type, empty), Reading()))  # refuses unknown columns
            self._tables = StageTables.of(store, self._branch, [key])
            reading = self._tables.reading(store, self._rows.whole, self._request)
        frame = Part(_NAME, Format.ARROW, self._part.type, True)
        self._config = StageConfig(self._rows.named, (frame,), (), self._tables.tables, reading, keeps=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPartition:
        told = StagedPartition([])
        try:
            with self._tables.claimed(self._options.location):
                for message in stage_partition(self._config, self._part, iterator):
                    told.messages.append(message)
        except BaseException:
            self.abort([told])  # the driver does not learn what a task did that failed
            raise
        return told

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = self._staging(messages)
        location, actor = self._options.location, self._options.actor
        with self._tables.claimed(location, last=True), open_graph(location, actor=actor) as graph:
            internals = graph.internals
            author = (internals.actor, ids.new_ulid(), self._message)
            store = internals.writer("change", self._branch)
            target = LoadTarget(store, self._rows, self._branch, *author)
            commit = LoadCommit(LocalCluster(), target, self._tables, self._config, staging, self._request, silent)
            try:
                commit.run(staging.refuse(self._request))
            except (OutcomeUnknown, RecoveryRequired):
                raise  # the commit may still come true
            except BaseException:
                commit.remove_files()
                raise
            if staging.rows > limits.LOAD_INDEX_ROWS:
                with contextlib.suppress(ConflictError, LimitError, StorageError):
                    ensure_indices(store, internals.schemas, self._branch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._tables.remove(self._staging(messages))

    def _staging(self, messages: list[WriterCommitMessage | None]) -> Staging:
        staging = Staging([_NAME], counts=dict.fromkeys(self._tables.tables, 0))
        for message in messages:
            if isinstance(message, StagedPartition):
                staging.take(0, (), message.messages)
        staging.settle()
        staging.number_rows(0)
        return staging
