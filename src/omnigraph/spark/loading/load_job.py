"""A load on Spark: read and stage on the executors, then commit once.

What the executors write is invisible until the commit, which `load_commit.py` makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import TypeNotFound
from omnigraph.progress import ProgressListener, Stage
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.loading.load_commit import LoadCommit, LoadTarget, StageTables
from omnigraph.spark.loading.splits import splits_of, tasks_of
from omnigraph.spark.loading.stage_task import StageConfig, stage_frame, stage_splits
from omnigraph.spark.loading.staged import Staging
from omnigraph.spark.messages import MESSAGE_DDL, StagingMessage, decode
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.objects import user_files
from omnigraph.write.load.gather import LoadRequest, OnError
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.tabular import parse_part
from omnigraph.write.load.valid_rows import Reading
from omnigraph.write.load.violations import Violation


class LoadJob:
    """One load. `read` first, then `commit`; `remove_files` when either fails."""

    def __init__(
        self,
        cluster: Cluster,
        target: LoadTarget,
        request: LoadRequest,
        parts: Sequence[Part],
        report: ProgressListener,
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._request = request
        self._parts = tuple(parts)
        self._report = report
        self._timings: dict[str, float] = {}
        self._tables = StageTables({}, "")
        self._staging = Staging([part.name for part in parts])
        self._found: list[Violation] = []
        self._commit: LoadCommit | None = None
        self._claims = contextlib.ExitStack()

    def end(self) -> None:
        """Nobody needs what was staged any more, or it is published."""
        self._claims.close()

    def read(self) -> None:
        """Stage every row that is valid alone, or raise what is wrong with the input."""
        with Stage("read", self._report, self._timings) as stage:
            splits = splits_of([part for part in self._parts if part.table is None], self._cluster.cores)
            numbers = [number for number, part in enumerate(self._parts) if part.table is None]
            target = self._target
            self._tables = StageTables.of(target.store, target.branch, _table_keys(target.rows.named, self._parts))
            self._claims.enter_context(self._tables.claimed(target.store.location, last=True))
            self._config = StageConfig(
                target.rows.named,
                tuple(_portable(part) for part in self._parts),
                tuple(replace(split, part=numbers[split.part]) for split in splits),
                self._tables.tables,
                self._tables.reading(target.store, target.schema, self._request),
                self._request.on_error is OnError.REJECT,
            )
            for part in self._parts:
                if part.type is not None:
                    self._staging.counts.setdefault(part.type.table_key, 0)
            self._read_files(stage)
            for number, part in enumerate(self._parts):
                if part.table is not None:
                    self._read_frame(number, part, stage)
            self._staging.settle()
            self._number_violations(stage)
            stage.rows = self._staging.rows
        self._found = self._staging.refuse(self._request)
        failpoints.reach("spark.after_staging")

    def commit(self) -> Commit | None:
        """Check the rows together and publish them as one commit; None when there was nothing to load."""
        self._commit = LoadCommit(
            self._cluster, self._target, self._tables, self._config, self._staging, self._request, self._report
        )
        return self._commit.run(self._found)

    def remove_files(self) -> None:
        """Remove what was staged. Not for a job whose commit may still come true."""
        if self._commit is not None:
            self._commit.remove_files()
        else:
            self._tables.remove(self._staging)

    @property
    def counts(self) -> dict[str, int]:
        """Records loaded by table key."""
        return self._commit.counts if self._commit is not None else {}

    @property
    def rejected(self) -> list[Violation]:
        """Rows that were left out, in the order of the input."""
        return self._commit.checked.rejected if self._commit is not None else self._found

    @property
    def timings(self) -> dict[str, float]:
        """Seconds by stage."""
        return self._timings | (self._commit.timings if self._commit is not None else {})

    def _read_files(self, stage: Stage) -> None:
        tasks = tasks_of(self._config.splits)
        if tasks:
            self._take_splits(self._staging, self._config, tasks, stage)

    def _take_splits(self, staging: Staging, config: StageConfig, tasks: list[range], stage: Stage) -> None:
        frame = self._cluster.each(len(tasks), stage_splits(config, tasks), MESSAGE_DDL)
        told = decode(self._cluster.collect(frame, stage), StagingMessage)
        staging.take(None, [split.part for split in config.splits], told)

    def _read_frame(self, number: int, part: Part, stage: Stage) -> None:
        type_ = part.type
        if type_ is None:
            raise TypeNotFound(f"{part.name} does not say which type its rows have")
        columns = pa.schema([(name, pa.string()) for name in part.table.columns]).empty_table()
        list(parse_part(Part(part.name, Format.ARROW, type_, columns), Reading()))  # refuses unknown columns
        plain = replace(part, table=None)
        frame = part.table.mapInArrow(stage_frame(self._config, plain), MESSAGE_DDL)
        self._staging.take(number, (), decode(self._cluster.collect(frame, stage), StagingMessage))

    def _number_violations(self, stage: Stage) -> None:
        """Violations were numbered from the beginning of their split. Those of files are read again, because their
        messages name lines too."""
        for number, part in enumerate(self._parts):
            if part.table is not None:
                self._staging.number_rows(number)
        again = {
            split[1]: self._staging.lines_before(split) + 1
            for split in sorted({*self._staging.found, *self._staging.fatal})
            if self._parts[split[0]].table is None and self._staging.lines_before(split)
        }
        if not again:
            return
        config = replace(self._config, tables={}, first_lines=again)
        repeated = Staging([])
        self._take_splits(repeated, config, [range(number, number + 1) for number in again], stage)
        self._staging.found |= repeated.found
        self._staging.fatal |= repeated.fatal


def _table_keys(catalog: Catalog, parts: Sequence[Part]) -> set[str]:
    """Tables that the input may hold rows of."""
    if any(part.type is None for part in parts):
        types: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
        return {type_.table_key for type_ in types}
    return {part.type.table_key for part in parts if part.type is not None}


def _portable(part: Part) -> Part:
    """A part as tasks know it: of a frame only that it is one, of a remote file also how to open it."""
    if part.table is not None:
        return replace(part, table=True)
    return replace(part, options=user_files.options_of(part.name))
