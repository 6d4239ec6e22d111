"""An open graph: every verb a user has, each one handed to the room that does it.

A `Graph` may be shared between threads. It belongs to the process that opened it: after a fork it refuses to work,
because the threads behind the storage libraries do not survive one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from omnigraph import ids
from omnigraph.engine.reads import ReadRequest, Reads
from omnigraph.engine.result import Result
from omnigraph.engine.run import Explanation
from omnigraph.errors import InternalError, ReadOnly
from omnigraph.graph.changes import ChangeVerbs
from omnigraph.graph.schema_control import SchemaControl
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.control import Branches, Commits, known_branch
from omnigraph.history.resolve import At, at_state, snapshot_at
from omnigraph.history.schemas import Schemas
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compile import CompiledSchema
from omnigraph.storage.section import is_held
from omnigraph.storage.store import GraphStore

# A process that only reads never pays for the rooms that write: each verb below imports its own.
if TYPE_CHECKING:
    from omnigraph.history.export import ExportResult, Target
    from omnigraph.progress import Progress
    from omnigraph.query.lint import Report
    from omnigraph.storage.recovery.audit import Recovery
    from omnigraph.upkeep.indexes import IndexReport
    from omnigraph.upkeep.verify import VerifyReport
    from omnigraph.write.change import Change
    from omnigraph.write.commit import WriteResult
    from omnigraph.write.load.result import LoadResult
    from omnigraph.write.load.source import Source
    from omnigraph.write.mutate import MutationResult


class Graph(ChangeVerbs):
    """An open graph. Get one from `omnigraph.open` or `omnigraph.init`; it is a context manager."""

    def __init__(self, store: GraphStore, compiled: CompiledSchema, *, mode: str, actor: str | None) -> None:
        self._store = store
        self._schemas = Schemas(store, compiled)
        self._mode = mode
        self._actor = actor
        self._process = os.getpid()
        self._reads = Reads(store, lambda snapshot: self._schemas.of(snapshot).catalog)

    @property
    def uri(self) -> str:
        return self._store.location.uri

    @property
    def catalog(self) -> Catalog:
        """The types of main, as its newest state has them."""
        self._reader()
        return self._schemas.newest().catalog

    def catalog_of(self, branch: str = ids.MAIN, at: At | None = None) -> Catalog:
        """The types of one state: of a branch now, or at a commit id, a manifest version or a time."""
        return self._schemas.of(snapshot_at(self._reader(), known_branch(branch), at)).catalog

    @property
    def schema(self) -> SchemaControl:
        """Show, plan and change the schema."""
        self._reader()
        return SchemaControl(self._schemas, self._writer, self._actor)

    @property
    def branches(self) -> Branches:
        """Make, list, merge and delete branches."""
        return Branches(self._reader, self._writer, self.catalog_of, self._actor)

    @property
    def commits(self) -> Commits:
        """The history of the graph."""
        return Commits(self._reader)

    @property
    def recoveries(self) -> list[Recovery]:
        """Interrupted writes that were finished or taken back, oldest first."""
        from omnigraph.storage.recovery import audit

        return audit.recoveries(self._reader().tables)

    @property
    def is_committing(self) -> bool:
        """Whether this process is inside a commit section: a matter of milliseconds that is better not interrupted."""
        return is_held()

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
        from omnigraph.write.commit import WriteRequest, write

        request = WriteRequest(
            branch=known_branch(branch),
            changes=changes,
            actor=self._actor,
            base=base._stored if base else None,
            if_commit=if_commit,
        )
        store = self._writer()
        return self._schemas.write(request.branch, lambda catalog: write(store, catalog, request))

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
        request = self._read_request(source, name, params, branch, at)
        with at_state(request.snapshot):
            return self._reads.run(request)

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
        return self._reads.lint(source, self._reader().snapshot(ids.MAIN))

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
        from omnigraph.write.mutate import MutationRequest, mutate

        request = MutationRequest(source, name, params, known_branch(branch), self._actor, if_commit)
        store = self._writer()
        return self._schemas.write(request.branch, lambda catalog: mutate(store, catalog, request))

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
        engine: str = "auto",
        progress: bool | Callable[[Progress], None] | None = None,
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
            engine: ``embedded`` loads in this process, ``spark`` on Spark. By default directories, patterns, Parquet,
                CSV, DataFrames and large JSONL go to Spark where pyspark and Java are installed.
            progress: True or False to show progress or not, or a function that is told; by default a bar on a terminal.
        """
        from omnigraph.graph.carriers import Carrier, carried
        from omnigraph.history.load import Destination, load, with_indexes
        from omnigraph.progress import reporter
        from omnigraph.upkeep.indexes import ensure_indices
        from omnigraph.write.load.gather import request_of

        def embedded() -> LoadResult:
            request = request_of(source, mode, on_error, max_rejects, format=format, type=type)
            base = known_branch(from_) if from_ is not None else None
            destination = Destination(known_branch(branch), base, self._actor)
            store = self._writer()
            catalog = self._schemas.for_write(destination.branch, base).catalog
            with reporter(progress) as report:
                result = load(store, catalog, request, destination, report)
                return with_indexes(result, lambda name: ensure_indices(store, catalog, name).commit, report)

        def bulk(carrier: Carrier) -> LoadResult:
            asked = {"branch": branch, "from_": from_, "on_error": on_error, "max_rejects": max_rejects}
            return carrier(self, source, mode, format=format, type=type, progress=progress, **asked)

        return carried(engine, source, format, embedded, bulk)

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
        from omnigraph.history.export import export

        snapshot = snapshot_at(self._reader(), known_branch(branch), at)
        with at_state(snapshot):
            return export(self._store, snapshot, target, types, format)

    def ensure_indices(self, branch: str = ids.MAIN) -> IndexReport:
        """Build missing indexes and extend those that lag behind; on main also the topology files."""
        from omnigraph.upkeep.indexes import ensure_indices

        store, name = self._writer(), known_branch(branch)
        report = self._schemas.write(name, lambda catalog: ensure_indices(store, catalog, name))
        if name == ids.MAIN:
            self._reads.keep_topologies(self._store.snapshot(ids.MAIN))
        return report

    def verify(self) -> VerifyReport:
        """Prove that the graph is whole: every branch, table, row rule, commit and control file. Writes nothing.

        Reads every id and endpoint once per branch that changed them. The report says what was checked, how much of
        it, and everything that is wrong.
        """
        from omnigraph.upkeep.verify import verify

        return verify(self._reader())

    def recover(self) -> int:
        """Finish or drop what dead writers left on any branch; returns how many there were."""
        from omnigraph.storage.recovery import sweep

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
