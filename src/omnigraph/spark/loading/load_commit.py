"""The second half of a load: check the staged rows together, and publish them as one commit.

`ogs.load` and a DataFrame write both end here; only where the tasks run differs. What was staged is invisible until the
commit shows it. A load that fails removes its files; one that is killed leaves files that nothing refers to.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.errors import ReadSetChanged, TypeNotFound
from omnigraph.history.branch_load import stored_matches
from omnigraph.progress import ProgressListener, Stage
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema_registry import RowSchema
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.loading.key_scan import is_small_against
from omnigraph.spark.loading.load_check import Checked, LoadCheck, stored_pieces
from omnigraph.spark.loading.replace_rows import IdJoin, replace_rows, without_dropped
from omnigraph.spark.loading.stage_task import StageConfig
from omnigraph.spark.loading.staged import Staging
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.holds import claim, kept, require_claim
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.task_staging import (
    StageTable,
    remove_staged,
    staged_append,
    staged_overwrite,
    staged_update,
)
from omnigraph.write.change import Mode, type_of
from omnigraph.write.load.gather import LoadRequest
from omnigraph.write.load.valid_rows import Reading
from omnigraph.write.load.violations import Violation


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where a load writes, under which name it can be found again, and what its author says about it."""

    store: GraphStore
    rows: RowSchema
    branch: str
    actor: str | None
    job_id: str
    message: str | None = None

    @property
    def schema(self) -> CompiledSchema:
        return self.rows.whole

    @property
    def catalog(self) -> Catalog:
        return self.schema.catalog


@dataclass(frozen=True, slots=True)
class StageTables:
    """Where the executors write: a table for each table key.

    Attributes:
        identity: of the branch; another branch may have its name by the time of the commit.
        base: the state that the load began with.
        claim: the object that keeps cleanups from the files that are staged, and from that state.
    """

    tables: Mapping[str, StageTable]
    identity: str
    base: ManifestSnapshot | None = None
    claim: str | None = None

    @classmethod
    def of(cls, store: GraphStore, branch: str, keys: Iterable[str]) -> StageTables:
        """The tables of those keys that the branch has. It gets its own lineage of each."""
        snapshot = store.snapshot(branch)
        claimed = claim(store.location, store.objects, snapshot)
        workspace = Workspace(store, snapshot)
        tables = {}
        for key in sorted(keys):
            if key in snapshot.pins:
                pin, handle = workspace.writable(key)
                version = TableVersion(pin.location, pin.branch, handle.version)
                tables[key] = StageTable(store.location, version)
        return cls(tables, snapshot.identity, snapshot, claimed)

    def reading(self, store: GraphStore, schema: CompiledSchema, request: LoadRequest) -> Reading:
        """How tasks read rows: those of a merge may mean rows of the state that the load began with."""
        base = self.base if request.mode is Mode.MERGE else None
        return replace(request.reading, stored=stored_matches(store, schema, request, base))

    @contextlib.contextmanager
    def claimed(self, location: Location, *, last: bool = False) -> Iterator[None]:
        """Inside, the claim is renewed; nobody needs it after the last such block."""
        hold = kept(location, ObjectStore(location), self.claim) if self.claim is not None else None
        try:
            yield
        finally:
            if hold is not None:
                (hold.release if last else hold.leave)()

    def remove(self, staging: Staging) -> None:
        """Remove everything that was staged."""
        for key, fragments in staging.fragments.items():
            remove_staged(self.tables[key], [each.text for each in fragments])


class LoadCommit:
    """The commit of one load: `run`, and `remove_files` when that fails."""

    def __init__(
        self,
        cluster: Cluster,
        target: LoadTarget,
        tables: StageTables,
        config: StageConfig,
        staging: Staging,
        request: LoadRequest,
        report: ProgressListener,
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._tables = tables
        self._config = config
        self._staging = staging
        self._request = request
        self._report = report
        self._written = {key: [each.text for each in parts] for key, parts in staging.fragments.items()}
        self._shown: dict[str, list[str]] = {}
        self.timings: dict[str, float] = {}
        self.checked = Checked()

    def run(self, found: list[Violation]) -> Commit | None:
        """Publish the rows; None when there are none.

        Args:
            found: violations of rows by themselves, which are left out.
        """
        target = self._target
        self.checked.found = found
        with Stage("commit", self._report, self.timings) as stage:
            write = Write(
                target.branch,
                WriterKind.LOAD,
                target.actor,
                self._prepare,
                base=self._tables.base if self._request.keeps else None,
                schema=target.schema.hash,
                message=target.message,
            )
            commit = run(target.store, write).commit
            stage.rows = self._staging.rows
            stage.elsewhere = self.timings.get("check", 0.0)
        self._remove_unused(commit)
        return commit

    def remove_files(self) -> None:
        """Remove what was staged. Not for a load whose commit may still come true."""
        for key, fragments in self._written.items():
            remove_staged(self._tables.tables[key], fragments)

    @property
    def counts(self) -> dict[str, int]:
        """Records loaded by table key."""
        return {key: count - self.checked.refused.get(key, 0) for key, count in self._staging.counts.items()}

    def _prepare(self, workspace: Workspace) -> Prepared[None]:
        self._require_same_lineage(workspace)
        if self._tables.claim is not None:  # whoever took it away has moved the head since
            require_claim(workspace.store.objects, self._tables.claim)
        with Stage("check", self._report, self.timings) as stage:
            rules = LoadCheck(
                self._cluster,
                self._config,
                self._staging,
                self._request,
                workspace,
                self._target.catalog,
                self._tables.tables,
            )
            self.checked = rules.check(self.checked.found, stage)
            stage.rows = self._staging.rows
        tables = {}
        for key in self._staging.keys:
            table = self._prepare_table(workspace, key)
            if table is not None:
                tables[key] = table
        labels = {"job": self._target.job_id, "rows": json.dumps(self.counts, separators=(",", ":"))}
        return Prepared(None, tables, labels=labels)

    def _require_same_lineage(self, workspace: Workspace) -> None:
        snapshot = workspace.snapshot
        if snapshot.identity != self._tables.identity:
            raise ReadSetChanged(f"branch '{snapshot.branch}'", self._tables.identity, snapshot.identity)
        for key in self._staging.keys:
            if key not in snapshot.pins or key not in self._tables.tables:
                name = type_of(self._target.catalog, key).name
                raise TypeNotFound(f"type '{name}' does not exist on branch '{snapshot.branch}'")
            before, now = self._tables.tables[key].version.location, snapshot.pins[key].location
            if before != now:
                raise ReadSetChanged(f"the table of '{key}'", before, now)

    def _prepare_table(self, workspace: Workspace, key: str) -> PreparedTable | None:
        pieces = self._staging.pieces(key, self.checked.dropped_of(key))
        rows = sum(piece.rows - len(piece.dropped) for piece in pieces)
        overwrites = self._request.mode is Mode.OVERWRITE
        if rows == 0 and (not overwrites or workspace.snapshot.pins[key].row_count == 0):
            return None
        pin, handle = workspace.writable(key)
        table = self._tables.tables[key]
        stored = stored_pieces(key, handle) if self._request.mode is Mode.MERGE else []
        if stored and key not in self._staging.fresh:
            at = replace(table, version=replace(table.version, version=handle.version))
            looks_up = is_small_against(handle, "id", rows, stored)
            done = replace_rows(self._cluster, IdJoin(table, at, pieces, stored, looks_up))
            self._note(key, done.fragments)
            after = pin.row_count + rows - done.rows
            staged = staged_update(handle, done.fragments, done.changed, done.removed, after)
            staged = replace(staged, updated=done.rows)
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
        return PreparedTable(pin, handle, staged, reads_rows=overwrites or self._request.keeps)

    def _note(self, key: str, fragments: Sequence[str]) -> None:
        """Remember what was written, and what the commit will show of it."""
        known = self._written.setdefault(key, [])
        known += [each for each in fragments if each not in known]
        self._shown[key] = list(fragments)

    def _remove_unused(self, commit: Commit | None) -> None:
        """Remove files of the job that its commit does not show."""
        for key, fragments in self._written.items():
            remove_staged(self._tables.tables[key], fragments, self._shown.get(key, ()) if commit is not None else ())
