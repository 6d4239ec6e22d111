"""An open graph: every verb a user has, each one handed to the room that does it.

A `Graph` may be shared between threads. It belongs to the process that opened it: after a fork it refuses to work,
because the threads behind the storage libraries do not survive one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from omnigraph import ids
from omnigraph.engine.reads import ReadRequest, Reads
from omnigraph.engine.result import Result
from omnigraph.engine.run import Explanation
from omnigraph.errors import InternalError, ReadOnly
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.control import Branches, Commits, known_branch
from omnigraph.history.export import ExportResult, Target, export
from omnigraph.history.load import Destination, load, with_indexes
from omnigraph.history.resolve import At, snapshot_at
from omnigraph.query.lint import Report
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compile import CompiledSchema
from omnigraph.storage.recovery import audit, sweep
from omnigraph.storage.recovery.audit import Recovery
from omnigraph.storage.store import GraphStore
from omnigraph.upkeep.indexes import IndexReport, ensure_indices
from omnigraph.write.change import Change
from omnigraph.write.commit import WriteRequest, WriteResult, write
from omnigraph.write.load.gather import request_of
from omnigraph.write.load.result import LoadResult
from omnigraph.write.load.source import Source
from omnigraph.write.mutate import MutationRequest, MutationResult, mutate


class Graph:
    """An open graph. Get one from `omnigraph.open` or `omnigraph.init`; it is a context manager."""

    def __init__(self, store: GraphStore, compiled: CompiledSchema, *, mode: str, actor: str | None) -> None:
        self._store = store
        self._compiled = compiled
        self._mode = mode
        self._actor = actor
        self._process = os.getpid()
        self._reads = Reads(store, compiled.catalog)

    @property
    def uri(self) -> str:
        return self._store.location.uri

    @property
    def catalog(self) -> Catalog:
        return self._compiled.catalog

    @property
    def branches(self) -> Branches:
        """Make, list and delete branches."""
        return Branches(self._reader, self._writer)

    @property
    def commits(self) -> Commits:
        """The history of the graph."""
        return Commits(self._reader)

    @property
    def recoveries(self) -> list[Recovery]:
        """Interrupted writes that were finished or taken back, oldest first."""
        return audit.recoveries(self._reader().tables)

    def snapshot(self, branch: str = ids.MAIN, at: At | None = None) -> Snapshot:
        """One consistent state: of a branch now, or at a commit id, a manifest version or a time."""
        return Snapshot(self._reader(), snapshot_at(self._store, known_branch(branch), at))

    def write(
        self,
        changes: Sequence[Change],
        *,
        branch: str = ids.MAIN,
        base: Snapshot | None = None,
        if_commit: str | None = None,
    ) -> WriteResult:
        """Commit changes of any number of types as one commit: all of them or none.

        Args:
            base: snapshot that changes with ``reads_rows`` were computed from.
            if_commit: refuse unless this is the branch's head.
        """
        request = WriteRequest(
            branch=known_branch(branch),
            changes=changes,
            actor=self._actor,
            base=base._stored if base else None,
            if_commit=if_commit,
        )
        return write(self._writer(), self.catalog, request)

    def query(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = ids.MAIN,
        at: At | None = None,
    ) -> Result:
        """Run a read query on one consistent state.

        Args:
            source: the `.gq` text, or the path of a file that holds it.
            name: the query to run; may be left out when there is only one.
            params: values by name without ``$``.
            at: a commit id, a manifest version or a time; None reads the newest state.
        """
        return self._reads.run(self._read_request(source, name, params, branch, at))

    def explain(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = ids.MAIN,
        at: At | None = None,
        run: bool = False,
    ) -> Explanation:
        """The plan of a read query, as text with ``str()``; with ``run`` also what each step did."""
        return self._reads.explain(self._read_request(source, name, params, branch, at), run=run)

    def lint(self, source: str | Path) -> Report:
        """Check every query of a text against the schema without running it."""
        return self._reads.lint(source)

    def mutate(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = ids.MAIN,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Run a write query as one commit: all its statements or none.

        An update or delete means the rows at the time of its commit: when another writer was faster, the whole query
        is run again on the new state.

        Args:
            source: the `.gq` text, or the path of a file that holds it.
            name: the query to run; may be left out when there is only one.
            params: values by name without ``$``.
            if_commit: refuse unless this is the branch's head.

        Raises:
            PreconditionFailed: ``if_commit`` is not the head.
        """
        request = MutationRequest(source, name, params, known_branch(branch), self._actor, if_commit)
        return mutate(self._writer(), self.catalog, request)

    def load(
        self,
        source: Source,
        mode: str,
        *,
        branch: str = ids.MAIN,
        from_: str | None = None,
        on_error: Literal["fail", "reject"] = "fail",
        max_rejects: int | None = None,
        format: str | None = None,
        type: str | None = None,
    ) -> LoadResult:
        """Load files or tables as one commit: all of it or nothing.

        A load that put many rows into a table is followed by a commit of the system that builds the indexes.

        Args:
            source: JSONL of the graph's dialect (gzip too), a directory or a glob of it, several of these, or a mapping
                from type names to Arrow tables or to Parquet, CSV or JSON files.
            mode: ``append`` refuses ids that exist, ``merge`` replaces their rows as a whole, ``overwrite`` replaces
                every row of the types that occur.
            from_: branch to fork from when ``branch`` does not exist.
            on_error: ``fail`` refuses the load for one bad row, ``reject`` leaves bad rows out and reports them.
            max_rejects: more rejected rows than this refuse the load after all.
            format: ``jsonl``, ``json``, ``parquet`` or ``csv`` for files whose suffix does not say it.
            type: type of the rows when the source does not name one.
        """
        request = request_of(source, mode, on_error, max_rejects, format=format, type=type)
        base = known_branch(from_) if from_ is not None else None
        destination = Destination(known_branch(branch), base, self._actor)
        store = self._writer()
        result = load(store, self.catalog, request, destination)
        return with_indexes(result, lambda name: ensure_indices(store, self.catalog, name).commit)

    def export(
        self,
        target: Target = None,
        types: Sequence[str] | None = None,
        *,
        branch: str = ids.MAIN,
        at: At | None = None,
        format: Literal["jsonl", "parquet"] = "jsonl",
    ) -> ExportResult:
        """Write one state of the graph as JSONL that `load` reads, or as one Parquet file per type.

        Args:
            target: a path, an open file, or None for the text in the result; a directory for Parquet.
            types: names of types; None for all.
        """
        return export(self._reader(), snapshot_at(self._store, known_branch(branch), at), target, types, format)

    def ensure_indices(self, branch: str = ids.MAIN) -> IndexReport:
        """Build missing indexes and extend those that lag behind; on main also the topology files."""
        report = ensure_indices(self._writer(), self.catalog, known_branch(branch))
        if known_branch(branch) == ids.MAIN:
            self._reads.keep_topologies(self._store.snapshot(ids.MAIN))
        return report

    def recover(self) -> int:
        """Finish or drop what dead writers left on any branch; returns how many there were."""
        return sweep.sweep(self._writer(), strict=True)

    def close(self) -> None:
        """Wait for background copies; the handle can be thrown away without it, the next writer catches up."""
        if self._process == os.getpid():
            self._store.mirror.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self._mode!r})"

    def _read_request(
        self,
        source: str | Path,
        name: str | None,
        params: Mapping[str, object] | None,
        branch: str,
        at: At | None,
    ) -> ReadRequest:
        return ReadRequest(source, name, params, snapshot_at(self._reader(), known_branch(branch), at), at)

    def _reader(self) -> GraphStore:
        if os.getpid() != self._process:
            raise InternalError("this graph was opened before a fork", hint="open it again in the child process")
        return self._store

    def _writer(self) -> GraphStore:
        if self._mode != "rw":
            raise ReadOnly(f"{self.uri} is open read-only", hint="open it with mode='rw'")
        return self._reader()
