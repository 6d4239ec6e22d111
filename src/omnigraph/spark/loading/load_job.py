"""The load as a job: read and stage on the executors, check the rules about rows together, commit once.

What the executors write is invisible until the driver puts its metadata into the one commit. A job that fails removes
its files; one that is killed leaves files that nothing refers to. `load_check.py` does the checking.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import ReadSetChanged, TypeNotFound
from omnigraph.progress import ProgressListener, Stage
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.key_lookup import is_small_against
from omnigraph.spark.load_check import Checked, LoadCheck, stored_pieces
from omnigraph.spark.loading.replace_rows import IdJoin, replace_rows, without_dropped
from omnigraph.spark.loading.splits import splits_of, tasks_of
from omnigraph.spark.loading.stage_task import StageConfig, stage_frame, stage_splits
from omnigraph.spark.loading.staged import Staging, most_violations
from omnigraph.spark.messages import ANSWER_DDL, answers_of
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, Pin
from omnigraph.storage.objects import user_files
from omnigraph.storage.tables.datasets import Handle, TableVersion
from omnigraph.storage.tables.task_staging import (
    StageTable,
    remove_staged,
    staged_append,
    staged_overwrite,
    staged_update,
)
from omnigraph.write.change import Mode, type_of
from omnigraph.write.load.gather import LoadRequest, OnError
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.tabular import parse_part


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where a job writes, and under which name it can be found again."""

    store: GraphStore
    schema: CompiledSchema
    branch: str
    actor: str | None
    job_id: str

    @property
    def catalog(self) -> Catalog:
        return self.schema.catalog


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
        self._written: dict[str, list[str]] = {}
        self._shown: dict[str, list[str]] = {}
        self._tables: dict[str, StageTable] = {}
        self._identity = ""
        self.timings: dict[str, float] = {}
        self.staging = Staging([part.name for part in parts])
        self.checked = Checked()

    def read(self) -> None:
        """Stage every row that is valid alone, or raise what is wrong with the input."""
        files = tuple(_portable(part) for part in self._parts)
        with Stage("read", self._report, self.timings) as stage:
            splits = splits_of([part for part in self._parts if part.table is None], self._cluster.cores)
            numbers = [number for number, part in enumerate(self._parts) if part.table is None]
            splits = [replace(split, part=numbers[split.part]) for split in splits]
            self._tables = self._stage_tables()
            self._config = StageConfig(
                self._target.catalog,
                files,
                tuple(splits),
                self._tables,
                most_violations(self._request),
                self._request.on_error is OnError.REJECT,
            )
            self._read_files(stage)
            for number, part in enumerate(self._parts):
                if part.table is not None:
                    self._read_frame(number, part, stage)
            self.staging.settle()
            self._number_violations(stage)
            stage.rows = self.staging.rows
        self.checked.found = self.staging.refuse(self._request)
        failpoints.reach("spark.after_staging")

    def commit(self) -> Commit | None:
        """Check the rows together and publish them as one commit; None when there was nothing to load."""
        target = self._target
        with Stage("commit", self._report, self.timings) as stage:
            write = Write(target.branch, WriterKind.LOAD, target.actor, self._prepare, schema=target.schema.hash)
            commit = run(target.store, write).commit
            stage.rows = self.staging.rows
            stage.elsewhere = self.timings.get("check", 0.0)
        self._remove_unused(commit)
        return commit

    def remove_files(self) -> None:
        """Remove what was staged. Not for a job whose commit may still come true."""
        for key, fragments in self._written.items():
            remove_staged(self._tables[key], fragments)

    @property
    def counts(self) -> dict[str, int]:
        """Records loaded by table key."""
        return {key: count - self.checked.refused.get(key, 0) for key, count in self.staging.counts.items()}

    def _stage_tables(self) -> dict[str, StageTable]:
        """Where rows of each type go. A branch gets its own lineage of every table that the input may hold."""
        store, catalog = self._target.store, self._target.catalog
        named = {part.type.table_key for part in self._parts if part.type is not None}
        if any(part.type is None for part in self._parts):
            named = {type_.table_key for type_ in catalog.nodes.values()}
            named |= {type_.table_key for type_ in catalog.edges.values()}
        snapshot = store.snapshot(self._target.branch)
        workspace = Workspace(store, snapshot)
        self._identity = snapshot.identity
        return {key: self._stage_table(*workspace.writable(key)) for key in sorted(named) if key in snapshot.pins}

    def _stage_table(self, pin: Pin, handle: Handle) -> StageTable:
        return StageTable(self._target.store.location, TableVersion(pin.location, pin.branch, handle.version))

    def _read_files(self, stage: Stage) -> None:
        tasks = tasks_of(self._config.splits)
        if not tasks:
            return
        frame = self._cluster.each(len(tasks), stage_splits(self._config, tasks), ANSWER_DDL)
        answers = answers_of(self._cluster.collect(frame, stage))
        self.staging.take(None, [split.part for split in self._config.splits], answers)
        self._note_written()

    def _read_frame(self, number: int, part: Part, stage: Stage) -> None:
        type_ = part.type
        if type_ is None:
            raise TypeNotFound(f"{part.name} does not say which type its rows have")
        columns = pa.schema([(name, pa.string()) for name in part.table.columns]).empty_table()
        list(parse_part(Part(part.name, Format.ARROW, type_, columns), 1))  # refuses unknown columns
        self.staging.counts.setdefault(type_.table_key, 0)
        plain = replace(part, table=None)
        frame = part.table.mapInArrow(stage_frame(self._config, plain), ANSWER_DDL)
        self.staging.take(number, (), answers_of(self._cluster.collect(frame, stage)))
        self._note_written()

    def _note_written(self) -> None:
        self._written = {key: [each.text for each in parts] for key, parts in self.staging.fragments.items()}

    def _number_violations(self, stage: Stage) -> None:
        """Violations were numbered from the beginning of their split. Those of files are read again, because their
        messages name lines too."""
        again: dict[int, int] = {}
        for split in sorted({*self.staging.found, *self.staging.fatal}):
            before = self.staging.lines_before(split)
            if not before:
                continue
            if self._parts[split[0]].table is None:
                again[split[1]] = before + 1
            else:
                rows = self.staging.found.get(split, [])
                self.staging.found[split] = [replace(each, line=each.line + before) for each in rows]
        if not again:
            return
        config = replace(self._config, tables={}, first_lines=again)
        tasks = [range(number, number + 1) for number in again]
        frame = self._cluster.each(len(tasks), stage_splits(config, tasks), ANSWER_DDL)
        repeated = Staging([])
        repeated.take(None, [split.part for split in config.splits], answers_of(self._cluster.collect(frame, stage)))
        self.staging.found |= repeated.found
        self.staging.fatal |= repeated.fatal

    def _prepare(self, workspace: Workspace) -> Prepared[None]:
        self._require_same_lineage(workspace)
        with Stage("check", self._report, self.timings) as stage:
            rules = LoadCheck(self._cluster, self._config, self.staging, self._request, workspace, self._tables)
            self.checked = rules.check(self.checked.found, stage)
            stage.rows = self.staging.rows
        tables = {}
        for key in self.staging.keys:
            table = self._prepare_table(workspace, key)
            if table is not None:
                tables[key] = table
        labels = {"job": self._target.job_id, "rows": json.dumps(self.counts, separators=(",", ":"))}
        return Prepared(None, tables, labels=labels)

    def _require_same_lineage(self, workspace: Workspace) -> None:
        snapshot = workspace.snapshot
        if snapshot.identity != self._identity:
            raise ReadSetChanged(f"branch '{snapshot.branch}'", self._identity, snapshot.identity)
        for key in self.staging.keys:
            if key not in snapshot.pins or key not in self._tables:
                name = type_of(self._target.catalog, key).name
                raise TypeNotFound(f"type '{name}' does not exist on branch '{snapshot.branch}'")
            if snapshot.pins[key].location != self._tables[key].version.location:
                raise ReadSetChanged(
                    f"the table of '{key}'", self._tables[key].version.location, snapshot.pins[key].location
                )

    def _prepare_table(self, workspace: Workspace, key: str) -> PreparedTable | None:
        pieces = self.staging.pieces(key, self.checked.dropped_of(key))
        rows = sum(piece.rows - len(piece.dropped) for piece in pieces)
        overwrites = self._request.mode is Mode.OVERWRITE
        if rows == 0 and (not overwrites or workspace.snapshot.pins[key].row_count == 0):
            return None
        pin, handle = workspace.writable(key)
        table = self._tables[key]
        stored = stored_pieces(key, handle) if self._request.mode is Mode.MERGE else []
        if stored and key not in self.staging.fresh:
            at = replace(table, version=replace(table.version, version=handle.version))
            looks_up = is_small_against(handle, "id", rows, stored)
            done = replace_rows(self._cluster, IdJoin(table, at, pieces, stored, looks_up))
            self._note(key, done.fragments)
            after = pin.row_count + rows - done.rows
            staged = staged_update(handle, done.fragments, done.changed, done.removed, after)
            if not done.rows:
                staged = staged_append(handle, done.fragments, after)
        else:
            fragments = without_dropped(self._cluster, table, pieces)
            self._note(key, fragments)
            staged = (
                staged_overwrite(handle, fragments, rows)
                if overwrites
                else staged_append(handle, fragments, pin.row_count + rows)
            )
        return PreparedTable(pin, handle, staged, reads_rows=overwrites)

    def _note(self, key: str, fragments: Sequence[str]) -> None:
        """Remember what was written, and what the commit will show of it."""
        known = self._written.setdefault(key, [])
        known += [each for each in fragments if each not in known]
        self._shown[key] = list(fragments)

    def _remove_unused(self, commit: Commit | None) -> None:
        """Remove files of the job that its commit does not show."""
        for key, fragments in self._written.items():
            remove_staged(self._tables[key], fragments, self._shown.get(key, ()) if commit is not None else ())


def _portable(part: Part) -> Part:
    """A part as tasks know it: of a frame only that it is one, of a remote file also how to open it."""
    if part.table is not None:
        return replace(part, table=True)
    return replace(part, options=user_files.options_of(part.name))
