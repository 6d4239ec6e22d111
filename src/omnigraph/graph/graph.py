"""An open graph: every verb a user has. Each one checks its arguments and hands them to the room that does the work.

A `Graph` may be shared between threads. It belongs to the process that opened it: after a fork it refuses to work (see
`storage/objects/native_libraries.py`). How a graph is made and opened is in `opening.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from omnigraph import ids
from omnigraph.engine.query_result import Result
from omnigraph.engine.query_runner import Explanation, QueryRunner, ReadRequest
from omnigraph.errors import ReadOnly
from omnigraph.graph.schema_control import SchemaControl
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.control import Branches, Commits
from omnigraph.history.state_at import At, Target, at_state, snapshot_at, snapshot_of
from omnigraph.ids import known_branch
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.locks import is_held
from omnigraph.storage.objects.native_libraries import use_storage
from omnigraph.storage.objects.user_files import text_of

if TYPE_CHECKING:
    from omnigraph.history.diff import Diff
    from omnigraph.history.export import ExportResult
    from omnigraph.history.export import Target as ExportTarget
    from omnigraph.history.feed.baseline import Baseline
    from omnigraph.history.feed.commit_changes import CommitChanges
    from omnigraph.history.feed.page import ChangePage
    from omnigraph.history.merge.engine import MergeEngines
    from omnigraph.progress import Progress
    from omnigraph.query.lint_queries import LintReport
    from omnigraph.storage.recovery.audit import Recovery
    from omnigraph.upkeep.indexes import IndexReport
    from omnigraph.upkeep.verify import VerifyReport
    from omnigraph.write.change import Change
    from omnigraph.write.load.load_result import LoadResult
    from omnigraph.write.load.load_source import Source
    from omnigraph.write.mutate import MutationResult
    from omnigraph.write.stage_changes import WriteResult


#: A state: the name of a branch, a commit id, a manifest version, a time, or a snapshot.
State: TypeAlias = At | Snapshot


class Graph:
    """An open graph. Get one from `omnigraph.open` or `omnigraph.init`; it is a context manager.

    Read:     `query`, `explain`, `lint`, `snapshot`, `export`
    Write:    `mutate`, `load`, `write`
    Changes:  `diff`, `changes`, `commit_changes`, `baseline`
    Control:  `branches`, `commits`, `schema`, `catalog`, `catalog_of`
    Upkeep:   `ensure_indices`, `verify`, `recover`, `recoveries`, `close`
    """

    def __init__(self, store: GraphStore, compiled: CompiledSchema, *, mode: str, actor: str | None) -> None:
        self._store = store
        self._schemas = SchemaRegistry(store, compiled)
        self._mode = mode
        self._actor = actor
        self._reads = QueryRunner(store, lambda snapshot: self._schemas.of(snapshot).catalog)

    @property
    def uri(self) -> str:
        """Where the graph is stored, in full."""
        return self._store.location.uri

    @property
    def catalog(self) -> Catalog:
        """The types of main, as its newest state has them."""
        self._reader()
        return self._schemas.newest().catalog

    def catalog_of(self, branch: str = ids.MAIN, at: At | None = None) -> Catalog:
        """The types of one state: of a branch now, or at a commit id, a manifest version or a time.

        Example:
            >>> graph.catalog_of("main")
            Catalog(nodes: Person; edges: Follows)
        """
        return self._schemas.of(snapshot_at(self._reader(), known_branch(branch), at)).catalog

    @property
    def schema(self) -> SchemaControl:
        """Show, plan and change the schema."""
        self._reader()
        return SchemaControl(self._schemas, self._writer, self._actor)

    @property
    def branches(self) -> Branches:
        """Make, list, merge and delete branches."""
        return Branches(self._reader, self._writer, self._schemas, self._actor, _merge_engine)

    @property
    def commits(self) -> Commits:
        """The history of the graph."""
        return Commits(self._reader)

    # --- reading

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

        Example:
            >>> text = "query q($h: String) { match { $p: Person { handle: $h } } return { $p.name as name } }"
            >>> graph.query(text, params={"h": "ana"}).rows()
            [{'name': 'Ana'}]
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
        """The plan of a read query, as text with ``str()``; with ``run`` also what each step did.

        Example:
            >>> graph.explain("query q() { match { $p: Person } return { $p.name } }")
            scan $p: Person by all rows  (about 2)
            return $p.name as p.name
            rules: ...
        """
        return self._reads.explain(self._read_request(source, name, params, branch, at), run=run)

    def lint(self, source: str | Path) -> LintReport:
        """Check every query of a text against the schema without running it.

        Example:
            >>> report = graph.lint("query q() { match { $p: Persn } return { $p.name } }")
            >>> report.ok, report.results[0].error
            (False, 'type error: T1: unknown node type `Persn`')
        """
        return self._reads.lint(source, self._reader().snapshot(ids.MAIN))

    def snapshot(self, branch: str = ids.MAIN, at: At | None = None) -> Snapshot:
        """One consistent state: of a branch now, or at a commit id, a manifest version or a time.

        Example:
            >>> graph.snapshot().count("Person")
            2
        """
        return Snapshot(self._reader(), snapshot_at(self._store, known_branch(branch), at))

    def export(
        self,
        target: ExportTarget = None,
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

        Example:
            >>> print(graph.export(types=["Follows"]).text, end="")
            {"edge":"Follows","from":"ana","to":"bo","data":{"id":"f1","since":null}}
        """
        from omnigraph.history.export import export

        store = self._reader()
        snapshot = snapshot_at(store, known_branch(branch), at)
        with at_state(snapshot):
            return export(store, snapshot, target, types, format)

    # --- writing

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

        Example:
            >>> graph.mutate("query add($h: String) { insert Person { handle: $h, name: $h } }", params={"h": "cy"})
            MutationResult('add' on main: 1 nodes, 0 edges; commit 0...)
        """
        from omnigraph.write.mutate import MutationRequest, mutate

        request = MutationRequest(source, name, params, known_branch(branch), self._actor, if_commit)
        return mutate(self._writer(), self._schemas, request)

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

        Example:
            >>> graph.load("more.jsonl", "append").nodes
            {'Person': 1}
            >>> import pyarrow as pa
            >>> graph.load({"Follows": pa.table({"src": ["cy"], "dst": ["ana"]})}, "append")
            LoadResult(append on main: 1 records of 0 node and 1 edge types; commit 0...)
        """
        from omnigraph.graph.engines import spark_load
        from omnigraph.history.branch_load import LoadDestination, load, with_indexes
        from omnigraph.progress import reporter
        from omnigraph.upkeep.indexes import ensure_indices
        from omnigraph.write.load.gather import request_of

        on_spark = spark_load(engine, source, format)
        if on_spark is not None:
            asked = {"branch": branch, "from_": from_, "on_error": on_error, "max_rejects": max_rejects}
            return on_spark(self, source, mode, format=format, type=type, progress=progress, **asked)
        request = request_of(source, mode, on_error, max_rejects, format=format, type=type)
        base = known_branch(from_) if from_ is not None else None
        destination = LoadDestination(known_branch(branch), base, self._actor)
        store = self._writer()
        schema = self._schemas.for_rows(destination.branch, base)
        with reporter(progress) as report:
            result = load(store, schema, request, destination, report)
            return with_indexes(result, lambda name: ensure_indices(store, self._schemas, name).commit, report)

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
            base: snapshot that the changes were computed from. When a table moved since, removals from it and changes
                with ``reads_rows`` are a conflict. Without it they mean the newest state.
            if_commit: refuse unless this is the branch's head.
        """
        from omnigraph.write.stage_changes import WriteRequest, write

        request = WriteRequest(
            branch=known_branch(branch),
            changes=changes,
            actor=self._actor,
            base=base._stored if base else None,
            if_commit=if_commit,
        )
        return write(self._writer(), self._schemas, request)

    # --- changes between states

    def diff(
        self,
        from_: State,
        to: State,
        *,
        branch: str = ids.MAIN,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> Diff:
        """The changes that lead from one state to another, entity by entity.

        Args:
            from_: a branch, a commit id, a manifest version, a time, or a snapshot.
            to: likewise.
            branch: whose versions and times are meant.
            kinds: ``node``, ``edge``; None for both.
            types: names of types; None for all.
            ops: ``insert``, ``update``, ``delete``; None for all.

        Raises:
            ChangeSchemaBoundary: the properties of a type with rows differ between the two.

        Example:
            >>> branch = graph.branches.create("x").name
            >>> done = graph.mutate('query q() { delete Person where handle = "bo" }', branch=branch)
            >>> [(change.op, change.type, change.id) for change in graph.diff("main", "x")]
            [('delete', 'Person', 'bo'), ('delete', 'Follows', 'f1')]
        """
        from omnigraph.history.diff import Diff
        from omnigraph.history.entity_changes import change_filter

        wanted = change_filter(kinds, types, ops)
        store = self._reader()
        before, after = (snapshot_of(store, _stored(each), known_branch(branch)) for each in (from_, to))
        wanted.require_known_types([*before.pins, *after.pins])
        return Diff(store, before, after, wanted)

    def changes(
        self,
        since: str | None = None,
        *,
        branch: str = ids.MAIN,
        page_token: str | None = None,
        limit: int | None = None,
        max_bytes: int | None = None,
        max_commits: int | None = None,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> ChangePage:
        """One page of the change feed of a branch: whole commits in order, each against its first parent.

        Args:
            since: ``now`` (the default), ``beginning``, ``after:<commit id>``, or the cursor of an earlier page.
            page_token: of a page that ended inside a block, to get the rest; then ``since`` is left out.
            limit: most changes on the page.
            max_bytes: most bytes of JSON on the page; a larger change comes alone.
            max_commits: most commits that one call walks.

        Raises:
            ChangeCursorRejected: the cursor or token is damaged or belongs to another graph, branch or filter.
            ChangeFeedGap: the history that is needed was cleaned up; begin again with `baseline`.

        Example:
            >>> page = graph.changes("beginning")
            >>> page
            ChangePage(1 commits, 3 changes, caught up)
            >>> graph.changes(page.cursor).blocks
            ()
        """
        from omnigraph.history.entity_changes import change_filter
        from omnigraph.history.feed.page import page_size
        from omnigraph.history.feed.poll import FeedRequest, poll

        size, wanted = page_size(limit, max_bytes, max_commits), change_filter(kinds, types, ops)
        return poll(self._reader(), FeedRequest(known_branch(branch), since, page_token, size, wanted))

    def commit_changes(
        self,
        commit_id: str,
        *,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> CommitChanges:
        """The changes of one commit against its first parent.

        Raises:
            CommitWithoutParent: it is the first commit of the graph.

        Example:
            >>> print(graph.commit_changes(graph.commits.head().id).stats)
            3 inserted, 0 updated, 0 deleted in Person, Follows
        """
        from omnigraph.history.entity_changes import change_filter
        from omnigraph.history.feed.commit_changes import commit_changes

        return commit_changes(self._reader(), commit_id, change_filter(kinds, types, ops))

    def baseline(
        self,
        target: ExportTarget = None,
        branch: str = ids.MAIN,
        *,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> Baseline:
        """Write the newest state of a branch and get the cursor with which `changes` goes on from there.

        Install the data first, then the cursor. The filters must be those of the later calls.

        Args:
            target: a path, an open file, or None for the text in the result.

        Example:
            >>> graph.changes(graph.baseline("state.jsonl").resume_cursor).caught_up
            True
        """
        from omnigraph.history.entity_changes import change_filter
        from omnigraph.history.feed.baseline import baseline

        store = self._reader()
        return baseline(store, store.snapshot(known_branch(branch)), target, change_filter(kinds, types, ops))

    # --- upkeep

    def ensure_indices(self, branch: str = ids.MAIN) -> IndexReport:
        """Build missing indexes and extend those that lag behind; on main also the topology files."""
        from omnigraph.upkeep.indexes import ensure_indices

        name = known_branch(branch)
        report = ensure_indices(self._writer(), self._schemas, name)
        if name == ids.MAIN:
            self._reads.keep_topologies(self._store.snapshot(ids.MAIN))
        return report

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Prove that the graph is whole: every branch, table, row rule, commit and control file. Writes nothing.

        Reads every id and endpoint once per branch that changed them. The report says what was checked, how much of
        it, and everything that is wrong.

        Args:
            deep: also read every value of every data file and compare it with the digest recorded by its commit.

        Example:
            >>> graph.verify().ok
            True
        """
        from omnigraph.upkeep.verify import verify

        return verify(self._reader(), look_deep=deep)

    def recover(self, *, discard: bool = False) -> int:
        """Finish or drop what dead writers left on any branch; returns how many there were.

        Also makes the copies of the commits complete, which a killed writer leaves a commit behind.

        Args:
            discard: also take back what other software wrote to the tables beside the graph, which refuses writes to
                them otherwise (`UncoveredDrift`). Counts such tables too.
        """
        from omnigraph.storage.recovery import repair_mirrors, sweep
        from omnigraph.storage.recovery.sweep import discard_drift

        resolved = sweep.sweep(self._writer(), strict=True)
        if discard:
            resolved += discard_drift(self._store)
        self._store.mirror.flush()
        repair_mirrors.mend_mirrors(self._store)
        return resolved

    @property
    def recoveries(self) -> list[Recovery]:
        """Interrupted writes that were finished or taken back, oldest first."""
        from omnigraph.storage.recovery import audit

        return audit.recoveries(self._reader().tables)

    @property
    def internals(self) -> GraphInternals:
        """Storage, schemas and actor, for engines of this package. Not for applications: it may change at any time."""
        return GraphInternals(self._store, self._schemas, self._mode, self._actor)

    @property
    def is_committing(self) -> bool:
        """Whether this process is inside a commit section: a matter of milliseconds that is better not interrupted."""
        return is_held()

    def close(self) -> None:
        """Wait for background copies; the handle can be thrown away without it, the next writer catches up."""
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
        return self.internals.reader()

    def _writer(self) -> GraphStore:
        return self.internals.writer()


def lint_with_schema(queries: Path, schema: Path) -> LintReport:
    """Check every query of a file against the schema in another one, without a stored graph.

    Raises:
        SourceError: the schema is wrong.
    """
    from omnigraph.query.lint_queries import SchemaSource, lint

    text, file = text_of(schema, ".pg")
    compiled = compile_schema(text, file=file)
    asked, asked_file = text_of(queries, ".gq")
    return lint(asked, compiled.catalog, asked_file, schema_source=SchemaSource("file", str(schema)))


def _stored(state: State) -> Target:
    return state._stored if isinstance(state, Snapshot) else state


def _merge_engine(engine: str) -> MergeEngines:
    from omnigraph.graph.engines import merge_engine

    return merge_engine(engine)


@dataclass(frozen=True, slots=True)
class GraphInternals:
    """An open graph as engines see it.

    Attributes:
        mode: ``rw`` or ``ro``.
        actor: author of the commits of this handle.
    """

    store: GraphStore
    schemas: SchemaRegistry
    mode: str
    actor: str | None

    def reader(self) -> GraphStore:
        """The storage, to read from it.

        Raises:
            ForkedProcess: this process was forked from one that had used the storage.
        """
        use_storage()
        return self.store

    def writer(self) -> GraphStore:
        """The storage, to write to it.

        Raises:
            ReadOnly: the graph is open read-only.
        """
        if self.mode != "rw":
            raise ReadOnly(f"{self.store.location.uri} is open read-only", hint="open it with mode='rw'")
        return self.reader()

    def snapshot(self, branch: str = ids.MAIN, at: At | None = None) -> ManifestSnapshot:
        """The state of a branch now, or at a commit id, a manifest version or a time."""
        return snapshot_at(self.reader(), known_branch(branch), at)

    def catalog_of(self, snapshot: ManifestSnapshot) -> Catalog:
        """The types of a state."""
        return self.schemas.of(snapshot).catalog

    def schema_for_rows(self, branch: str, from_: str | None = None) -> CompiledSchema:
        """The schema that new rows of a branch must have; of ``from_`` when the write will create the branch."""
        return self.schemas.for_rows(branch, from_)
