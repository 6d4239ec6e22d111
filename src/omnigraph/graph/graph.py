"""An open graph: every verb a user has. Each one checks its arguments and hands them to the room that does the work.

A `Graph` may be shared between threads. It belongs to the process that opened it: after a fork it refuses to work (see
`storage/objects/native_libraries.py`). How a graph is made and opened is in `opening.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

from omnigraph import given, ids
from omnigraph.errors import CorruptGraph, GraphClosed, HistoricalVersionReclaimed, InputError, ReadOnly
from omnigraph.graph.recent_looks import ASKED, RecentLooks
from omnigraph.graph.schema_control import SchemaControl
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.control import Branches, Commits
from omnigraph.history.state_at import At, Target, asked_state, at_state, get_commit, moment_of, snapshot_of
from omnigraph.ids import commit_message, known_branch
from omnigraph.read_budget import ReadBudget, read_budget
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema_registry import RowSchema, SchemaRegistry
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.holds import holding
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.locks import is_held
from omnigraph.storage.objects.native_libraries import use_storage
from omnigraph.storage.objects.user_text import text_of

if TYPE_CHECKING:
    from datetime import timedelta

    from omnigraph.choices import (
        AbsentColumns,
        Engine,
        ExportFormat,
        LoadFormat,
        LoadMode,
        OnBadRow,
        OpenMode,
        TooFineTimes,
    )
    from omnigraph.embed.managed.embed_result import EmbedResult
    from omnigraph.embed.query_texts import QueryTexts
    from omnigraph.engine.explanation import Explanation
    from omnigraph.engine.query_result import Result
    from omnigraph.engine.query_runner import QueryRunner, ReadRequest
    from omnigraph.engine.search.search_result import SearchResult
    from omnigraph.graph.blob_value import Blob
    from omnigraph.graph.guard import Guard
    from omnigraph.graph.transaction import Transaction
    from omnigraph.history.diff import Diff
    from omnigraph.history.export import ExportResult
    from omnigraph.history.export import Target as ExportTarget
    from omnigraph.history.feed.baseline import Baseline
    from omnigraph.history.feed.commit_changes import CommitChanges
    from omnigraph.history.feed.page import ChangePage
    from omnigraph.history.merge.engine import MergeEngines
    from omnigraph.history.merge.resolution import Resolve
    from omnigraph.history.tags import Tags
    from omnigraph.history.undo import UndoResult
    from omnigraph.policy.access_policy import Policy
    from omnigraph.policy.audit_log import AuditLog
    from omnigraph.progress import Progress
    from omnigraph.query.lint_queries import LintReport
    from omnigraph.query.parameters import TextEmbedder
    from omnigraph.query.typed import TextVector
    from omnigraph.storage.recovery.audit import Recovery
    from omnigraph.upkeep.cleanup.cleanup_result import CleanupResult
    from omnigraph.upkeep.indexes import IndexReport
    from omnigraph.upkeep.optimize.optimize_report import OptimizeReport
    from omnigraph.upkeep.repair import RepairReport
    from omnigraph.upkeep.retention import Retention
    from omnigraph.upkeep.stats.graph_stats import GraphStats
    from omnigraph.upkeep.upkeep_runs import Upkeep
    from omnigraph.upkeep.verify import VerifyReport
    from omnigraph.write.change import Change, Mode
    from omnigraph.write.load.load_result import LoadResult
    from omnigraph.write.load.load_source import Source
    from omnigraph.write.mutation_result import MutationResult
    from omnigraph.write.stage_changes import WriteResult


_Read = TypeVar("_Read")

#: A state: the name of a branch, a commit id, ``tag:NAME``, a manifest version, a time, or a snapshot.
State: TypeAlias = At | Snapshot


class Graph:
    """An open graph. Get one from `omnigraph.open` or `omnigraph.init`; it is a context manager.

    Read:     `query`, `search`, `explain`, `lint`, `snapshot`, `blob`, `export`
    Write:    `mutate`, `transaction`, `load`, `write`, `revert`, `restore`
    Changes:  `diff`, `changes`, `commit_changes`, `baseline`
    Control:  `branches`, `commits`, `tags`, `schema`, `catalog`, `catalog_of`
    Upkeep:   `embed`, `optimize`, `ensure_indices`, `cleanup`, `retention`, `upkeep`, `stats`, `verify`, `recover`,
              `repair`, `recoveries`, `close`
    """

    def __init__(
        self,
        store: GraphStore,
        compiled: CompiledSchema,
        *,
        mode: OpenMode,
        actor: str | None,
        policy: Policy | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._store = store
        self._schemas = SchemaRegistry(store, compiled)
        self._mode = mode
        self._actor = actor
        self._policy, self._audit = policy, audit
        self._guard = self._guard_of(policy, audit) if policy is not None or audit is not None else None
        self._looks = RecentLooks()
        self._is_closed = False
        self._transacting: set[int] = set()

    def acting_as(self, actor: str | None) -> Graph:
        """The same open graph in the hands of somebody else: policy and audit log decide about and record the actor.

        Costs nothing: storage, caches and compiled queries are shared. Closing one of the handles closes that one only.

        Example:
            >>> graph.acting_as("act-bo").mutate('query q() { insert Person { handle: "di", name: "Di" } }').actor
            'act-bo'
        """
        self.internals  # noqa: B018  refuses a closed handle
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._actor = ids.actor_id(actor)
        other._transacting = set()
        if self._guard is not None:
            other._guard = other._guard_of(self._policy, self._audit)
        other._reads = self._reads
        return other

    def _guard_of(self, policy: Policy | None, audit: AuditLog | None) -> Guard:
        from omnigraph.graph.guard import Guard

        return Guard(self._store, self._schemas, self._actor, policy, audit)

    @cached_property
    def _reads(self) -> QueryRunner:
        """Runs the reads of this handle; a process that only writes mostly does without the engine."""
        from omnigraph.engine.query_runner import QueryRunner

        return QueryRunner(self._store, lambda snapshot: self._schemas.of(snapshot).catalog, self._vectors_of)

    @cached_property
    def _texts(self) -> QueryTexts:
        """Embeds texts of queries; a graph that never embeds needs no provider."""
        from omnigraph.embed.query_texts import QueryTexts

        return QueryTexts()

    def _vectors_of(self, asked: list[tuple[TextVector, str]]) -> list[tuple[float, ...]]:
        return self._texts.vectors(asked)

    @property
    def uri(self) -> str:
        """Where the graph is stored, in full."""
        return self._store.location.uri

    @property
    def catalog(self) -> Catalog:
        """The types of main, as its newest state has them."""
        return self._schemas.of(self._reader("read").snapshot(ids.MAIN)).catalog

    def catalog_of(self, branch: str | None = None, at: At | None = None) -> Catalog:
        """The types of one state: of a branch now, or at a commit, a tag, a manifest version or a time; see `query`.

        Example:
            >>> graph.catalog_of("main")
            Catalog(nodes: Person; edges: Follows)
        """
        return self._schemas.of(self.internals.snapshot(branch, at)).catalog

    @property
    def schema(self) -> SchemaControl:
        """Show, plan and change the schema."""
        self.internals  # noqa: B018  refuses a closed handle
        return SchemaControl(self._schemas, self._reader, self._writer, self._actor)

    @property
    def branches(self) -> Branches:
        """Make, list, merge and delete branches."""
        return Branches(self._reader, self._writer, self._schemas, self._actor, _merge_engine)

    @property
    def commits(self) -> Commits:
        """The history of the graph."""
        return Commits(self._reader)

    @property
    def tags(self) -> Tags:
        """Names for states that stay readable."""
        from omnigraph.history.tags import Tags

        return Tags(self._reader, self._writer, self._actor)

    # --- reading

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        at: At | None = None,
        timeout: float | timedelta | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> Result:
        """Run a read query on one consistent state.

        Args:
            source: the `.gq` text, or the path of a file that holds it.
            name: the query to run; may be left out when there is only one. Then ``params`` may stand here.
            params: values by name without ``$``.
            branch: the branch to read; None means main. A commit must be in the history of a branch that is named.
            at: a commit id, ``tag:NAME``, a manifest version or a time; None reads the newest state.
            timeout: seconds, or a ``timedelta``, after which it is stopped.
            max_rows: the most rows that it may return.
            max_bytes: the most bytes that its rows may take, and what is held on the way to them; by default a quarter
                of the memory (``OMNIGRAPH_QUERY_BYTES``).
            is_cancelled: asked many times a second; the query is stopped when it says True.

        Raises:
            CommitNotFound: there is no such commit, or it is not in the history of the branch that was named.
            QueryTimeout, QueryCancelled: it was stopped.
            ResourceLimitExceeded: it would return, or hold, more than it may.

        Example:
            >>> text = "query q($h: String) { match { $p: Person { handle: $h } } return { $p.name as name } }"
            >>> graph.query(text, {"h": "ana"}).rows()
            [{'name': 'Ana'}]
        """
        budget = read_budget(timeout, max_rows, max_bytes, is_cancelled)
        request = self._read_request(source, *given.named_query(name, params), branch, at, budget)
        asked = request.snapshot

        def read(snapshot: ManifestSnapshot) -> Result:
            return self._reads.run(request if snapshot is asked else replace(request, snapshot=snapshot))

        return self._read(asked, branch, at, read)

    def search(
        self,
        words: str,
        types: str | Sequence[str] | None = None,
        *,
        hops: int = 0,
        limit: int = 10,
        branch: str | None = None,
        at: At | None = None,
        timeout: float | timedelta | None = None,
        max_bytes: int | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> SearchResult:
        """Find nodes of any type by words, in all texts that have an index.

        Every property ranks its rows by ``bm25``; a node's score is the sum of ``1 / (60 + rank + 1)`` over the first
        1,000 places of these rankings. Equal scores go by the better ``bm25``, then by type and id.

        Args:
            words: what to look for; each property reads it as its own queries do.
            types: names of node types; None for all that have a text with an index.
            hops: edges to follow from each hit, in both directions; the nearest nodes are told.
            limit: the most hits.
            branch: the branch to read; None means main.
            at: a commit id, ``tag:NAME``, a manifest version or a time; None reads the newest state.
            timeout, max_bytes, is_cancelled: as in `query`.

        Raises:
            TypeNotFound: there is no such node type.
            InputError: no type has a text with an index, or there are no words.

        Example:
            >>> graph.search("ana", hops=1)
            SearchResult('ana': 1 hits, best Person 'ana')
        """
        from omnigraph.engine.search.graph_search import SearchRequest, search_graph
        from omnigraph.engine.search.search_result import SearchResult

        request = SearchRequest.of(words, types, hops, limit)
        budget = read_budget(timeout, None, max_bytes, is_cancelled)

        def searched(snapshot: ManifestSnapshot) -> SearchResult:
            hits = search_graph(self._reads.view(snapshot, budget), request, budget)
            return SearchResult(request.words, tuple(hits), snapshot.branch, self._store.head_id(snapshot))

        return self._read(self.internals.snapshot(branch, at), branch, at, searched)

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        at: At | None = None,
        run: bool = False,
        timeout: float | timedelta | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> Explanation:
        """The plan of a read query, as text with ``str()``; with ``run`` also what each step did.

        Args:
            timeout, max_rows, max_bytes, is_cancelled: bounds of the run, as in `query`.

        Example:
            >>> graph.explain("query q() { match { $p: Person } return { $p.name } }")
            scan $p: Person by all rows  (about 2)
            return $p.name as p.name
            rules: ...
        """
        budget = read_budget(timeout, max_rows, max_bytes, is_cancelled)
        request = self._read_request(source, *given.named_query(name, params), branch, at, budget)
        return self._reads.explain(request, run=run)

    def lint(self, source: str | Path) -> LintReport:
        """Check every query of a text against the schema without running it.

        Example:
            >>> report = graph.lint("query q() { match { $p: Persn } return { $p.name } }")
            >>> report.ok, report.results[0].error
            (False, 'type error: T1: unknown node type `Persn`')
        """
        return self._reads.lint(source, self._reader("read", ids.MAIN).snapshot(ids.MAIN))

    def snapshot(self, branch: str | None = None, at: At | None = None) -> Snapshot:
        """One consistent state: of a branch now, or at a commit, a tag, a manifest version or a time; see `query`.

        Example:
            >>> graph.snapshot().count("Person")
            2
        """
        store, stored = self._store, self.internals.snapshot(branch, at)
        return Snapshot(store, stored, store.lease(stored, "snapshot") if at is not None else None)

    def blob(
        self, type_name: str, id: str | int, property: str, *, branch: str | None = None, at: At | None = None
    ) -> Blob:
        """The bytes of a `Blob` property of one row, of one state. They are read when they are asked for.

        Args:
            type_name: a node or edge type; ``node:Name`` or ``edge:Name`` if it could be both.
            id: its id, which is the key of a node whose key is one text or one whole number.
            branch, at: which state; see `query`.

        Raises:
            TypeNotFound, NotABlob, RowNotFound: there is no such type, no such blob in it, no such row.
            BlobNotFound: it is null.

        Example:
            >>> photo = graph.blob("Person", "ana", "photo")
            >>> photo.size, photo.read(0, 3)
            (6, b'pix')
        """
        return self.snapshot(branch, at).blob(type_name, id, property)

    def export(
        self,
        target: ExportTarget = None,
        types: Sequence[str] | None = None,
        *,
        branch: str | None = None,
        at: At | None = None,
        format: ExportFormat | None = None,
    ) -> ExportResult:
        """Write one state of the graph as JSONL that `load` reads, or as one Parquet or CSV file per type.

        Args:
            target: a path, an open file, or None for the text in the result. A path that ends in ``.parquet`` or
                ``.csv`` is a file of one type, any other one a directory for Parquet and CSV.
            types: names of types; None for all.
            format: None takes what the suffix of the path or of the open file's name says, JSONL when it says nothing.

        Example:
            >>> print(graph.export(types=["Follows"]).text, end="")
            {"edge":"Follows","from":"ana","to":"bo","data":{"id":"f1","since":null}}
        """
        from omnigraph.history.export import export

        store, snapshot = self._store, self.internals.snapshot(branch, at, "export")
        with at_state(snapshot), holding(store.lease(snapshot, "export")):
            return export(store, snapshot, target, types, format)

    # --- writing

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = ids.MAIN,
        if_commit: str | None = None,
        message: str | None = None,
        commit_id: str | None = None,
        timeout: float | timedelta | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> MutationResult:
        """Run a write query as one commit: all its statements or none.

        An update or delete means the rows at the time of its commit: when another writer was faster, the whole query
        is run again on the new state.

        Args:
            source: the `.gq` text, or the path of a file that holds it.
            name: the query to run; may be left out when there is only one, also with ``params`` in its place.
            params: values by name without ``$``. Of instants the digits behind the milliseconds are cut off.
            if_commit: refuse unless this is the branch's head.
            message: what to say about it in the history.
            commit_id: a new ULID (`omnigraph.new_commit_id`) that the commit shall have. If the branch has it already,
                nothing is done, and the answer is that of the first time: so a write whose answer was lost can be sent
                again.
            timeout, is_cancelled: stop it while it waits for others or looks for rows, as in `query`. Once the commit
                has begun, it is finished.

        Raises:
            PreconditionFailed: ``if_commit`` is not the head.
            QueryTimeout, QueryCancelled: it was stopped; nothing was written.

        Example:
            >>> graph.mutate("query add($h: String) { insert Person { handle: $h, name: $h } }", {"h": "cy"})
            MutationResult('add' on main: 1 nodes, 0 edges; commit 0...)
        """
        from omnigraph.write.group_commit import mutate
        from omnigraph.write.mutation_result import MutationRequest

        if not isinstance(name, str | None):
            name, params = given.named_query(name, params)
        said, known = commit_message(message), ids.given_commit_id(commit_id)
        budget = read_budget(timeout, None, None, is_cancelled)
        to = known_branch(branch)
        request = MutationRequest(source, name, params, to, self._actor, if_commit, said, known, budget)
        return mutate(self._writer("change", request.branch), self._schemas, request)

    def load(
        self,
        source: Source,
        mode: LoadMode | Mode,
        *,
        branch: str = ids.MAIN,
        from_: str | None = None,
        on_error: OnBadRow = "fail",
        max_rejects: int | None = None,
        format: LoadFormat | None = None,
        type: str | None = None,
        columns: AbsentColumns = "replace",
        times: TooFineTimes = "exact",
        engine: Engine = "auto",
        message: str | None = None,
        commit_id: str | None = None,
        progress: bool | Callable[[Progress], None] | None = None,
    ) -> LoadResult:
        """Load files or rows in memory as one commit: all of it or nothing.

        A load that put many rows into a table is followed by a commit of the system that builds the indexes.

        Args:
            source: JSONL of the graph's dialect (gzip too), as a path, an open file, a directory, a glob or several of
                these; or rows of one type: Parquet, CSV or JSON files, pandas and Polars frames, lists of dicts, Arrow
                tables, readers and datasets, whatever has ``__arrow_c_stream__``; or a mapping from types to such rows.
            mode: ``append`` refuses ids that exist, ``merge`` replaces their rows as a whole, ``overwrite`` replaces
                every row of the types that occur. Of several rows with one id a ``merge`` takes the last, as a whole.
            from_: branch to fork from when ``branch`` does not exist.
            on_error: ``fail`` refuses the load for one bad row, ``reject`` leaves bad rows out and reports them.
            max_rejects: more rejected rows than this refuse the load after all.
            format: ``jsonl``, ``json``, ``parquet`` or ``csv`` for files whose suffix does not say it.
            type: type of the rows when the source does not name one.
            columns: of a ``merge``: ``replace`` makes null what the input does not have, ``keep`` leaves it as it is.
            times: ``exact`` refuses times finer than a millisecond, ``round`` rounds them.
            engine: ``embedded`` loads in this process, ``spark`` on Spark. By default files that are large together
                and Spark's DataFrames go to Spark where pyspark and Java are installed.
            message: what to say about it in the history.
            commit_id: as in `mutate`; a load with one is done in this process.
            progress: True or False to show progress or not, or a function that is told; by default a bar on a terminal.

        Example:
            >>> graph.load("more.jsonl", "append").nodes
            {'Person': 1}
            >>> graph.load({"Follows": [{"from": "cy", "to": "ana"}]}, "append")
            LoadResult(append on main: 1 records of 0 node and 1 edge types; commit 0...)
        """
        from omnigraph.graph.engines import spark_load
        from omnigraph.history.branch_load import LoadDestination, load, with_indexes
        from omnigraph.progress import reporter
        from omnigraph.upkeep.indexes import ensure_indices
        from omnigraph.write.load.gather import request_of

        request = request_of(source, mode, on_error, max_rejects, times, columns, format=format, type=type)
        known = ids.given_commit_id(commit_id)
        if known is not None and engine == "spark":
            raise InputError("a load with a commit_id is done in this process", hint="leave engine out")
        on_spark = spark_load(engine if known is None else "embedded", request.source)
        if on_spark is not None:
            asked = {"branch": branch, "from_": from_, "on_error": on_error, "max_rejects": max_rejects}
            how = {
                "format": format,
                "type": type,
                "columns": columns,
                "times": times,
                "progress": progress,
                "message": message,
            }
            return on_spark(self, request.source, mode, **asked, **how)
        base = known_branch(from_) if from_ is not None else None
        destination = LoadDestination(known_branch(branch), base, self._actor, commit_message(message), known)
        store = self._writer("change", destination.branch)
        schema = self._schemas.for_rows(store, destination.branch, base)
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
        message: str | None = None,
    ) -> WriteResult:
        """Commit changes of any number of types as one commit: all of them or none.

        Args:
            changes: one per type. The rows to put may be held in any way that `load` takes rows in memory.
            base: snapshot that the changes were computed from. When a table moved since, removals from it and changes
                with ``reads_rows`` are a conflict. Without it they mean the newest state.
            if_commit: refuse unless this is the branch's head.
            message: what to say about it in the history.

        Example:
            >>> import pyarrow as pa
            >>> put = og.Change("node:Person", pa.table({"handle": ["cy"], "name": ["Cy"]}))
            >>> dict(graph.write([put, og.Change("edge:Follows", remove=pa.array(["f1"]))]).removed)
            {'edge:Follows': 1}
            >>> renamed = pa.table({"handle": ["cy"], "name": ["Cy D."]})
            >>> dict(graph.write([og.Change("node:Person", renamed, og.Mode.MERGE)], base=graph.snapshot()).put)
            {'node:Person': 1}
        """
        from omnigraph.write.stage_changes import WriteRequest, write

        request = WriteRequest(
            branch=known_branch(branch),
            changes=changes,
            actor=self._actor,
            base=base._stored.whole if base else None,
            if_commit=if_commit,
            message=commit_message(message),
        )
        return write(self._writer("change", request.branch), self._schemas, request)

    def transaction(self, branch: str = ids.MAIN, *, message: str | None = None) -> Transaction:
        """Several reads and writes as one commit, or none: to be used in a ``with`` block.

        Inside the block each step sees what the steps before it did, over the state that the branch had when the block
        was entered. The end of the block commits; an error that leaves it, or `rollback`, drops everything.

        Args:
            message: what to say about it in the history.

        Raises:
            ReadOnly: the graph is open read-only.

        Example:
            >>> with graph.transaction() as tx:
            ...     done = tx.insert("Person", [{"handle": "cy", "name": "Cy"}, {"handle": "di", "name": "Di"}])
            ...     done = tx.insert("Follows", [{"from": "cy", "to": "di"}])
            ...     tx.query("query q() { match { $p: Person } return { count($p) as people } }").rows()
            [{'people': 4}]
            >>> tx.result
            WriteResult(commit=Commit(...), put={'node:Person': 2, 'edge:Follows': 1}, removed={})
        """
        from omnigraph.graph.transaction import Transaction

        name = known_branch(branch)
        self._writer("change", name)
        said = commit_message(message)
        return Transaction(lambda: self.internals, self._reads, name, said, self._transacting)

    def revert(
        self,
        commit: str,
        *,
        branch: str = ids.MAIN,
        resolve: Resolve | None = None,
        message: str | None = None,
    ) -> UndoResult:
        """Undo what one commit did, as a new commit. What was written since stays.

        Args:
            commit: id of a commit in the history of the branch, or its ``tag:NAME``; a merge is undone against its
                first parent.
            resolve: what to do with rows that were changed again since, as for `Branches.merge`: ``"ours"`` keeps them
                as they are now, ``"theirs"`` takes them back to what they were before the commit.
            message: what to say about it in the history.

        Raises:
            MergeConflict: rows were changed again since, or undoing the commit breaks a rule; nothing was written.
            MergeSchemaMismatch: the commit changed the schema, or the schema changed since.

        Example:
            >>> done = graph.mutate('query q() { update Person set { name: "B." } where handle = "bo" }')
            >>> graph.revert(done.commit.id).tables["node:Person"].updated
            1
        """
        from omnigraph.history.undo import UndoRequest, revert

        request = UndoRequest(known_branch(branch), commit, self._actor, resolve, commit_message(message))
        return revert(self._writer("change", request.branch), self._schemas, request, _merge_engine("auto"))

    def restore(self, at: At, *, branch: str = ids.MAIN, message: str | None = None) -> UndoResult:
        """Give a branch the rows of an older state, as a new commit. History stays, and what did not change is not
        written again.

        Args:
            at: a commit id, ``tag:NAME``, a manifest version or a time.
            message: what to say about it in the history.

        Raises:
            MergeSchemaMismatch: the graph had another schema then.

        Example:
            >>> before = graph.commits.head().id
            >>> done = graph.mutate('query q() { delete Person where handle = "bo" }')
            >>> graph.restore(before).tables["node:Person"].inserted
            1
        """
        from omnigraph.history.undo import UndoRequest, restore

        request = UndoRequest(known_branch(branch), at, self._actor, message=commit_message(message))
        store = self._writer("change", request.branch)
        if self._guard is not None:  # its rows can be read afterwards
            self.internals.snapshot(None if isinstance(moment_of(at), str) else request.branch, at)
        return restore(store, self._schemas, request, _merge_engine("auto"))

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
            from_: a branch, a commit id, ``tag:NAME``, a manifest version, a time, or a snapshot.
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
        before, after = (self.internals.target(_stored(each), known_branch(branch)) for each in (from_, to))
        wanted.require_known_types([*before.pins, *after.pins])
        return Diff(self._store, before, after, wanted)

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
            since: ``now`` (the default), ``beginning``, ``after:<commit id>``, ``after:tag:<name>``, or the cursor of
                an earlier page.
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
        name = known_branch(branch)
        return poll(self._reader("read", name), FeedRequest(name, since, page_token, size, wanted))

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

        return commit_changes(self.internals.reader_of_commit(commit_id), commit_id, change_filter(kinds, types, ops))

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

        wanted = change_filter(kinds, types, ops)
        store, snapshot = self._store, self.internals.snapshot(known_branch(branch), None, "export")
        with holding(store.lease(snapshot, "baseline")):
            return baseline(store, snapshot, target, wanted)

    # --- upkeep

    def ensure_indices(self, branch: str = ids.MAIN, *, engine: Engine = "auto") -> IndexReport:
        """Build missing indexes and extend those that lag behind; on main also the topology files.

        Args:
            engine: ``"embedded"`` builds in this process, ``"spark"`` on Spark; ``"auto"`` gives much work to Spark, if
                there is one.
        """
        from omnigraph.graph.engines import upkeep_engine
        from omnigraph.upkeep.indexes import ensure_indices

        name = known_branch(branch)
        report = ensure_indices(self._writer("admin", name), self._schemas, name, upkeep_engine(engine))
        if name == ids.MAIN:
            self._reads.keep_topologies(self._store.snapshot(ids.MAIN))
        return report

    def optimize(
        self,
        branch: str | None = None,
        *,
        types: Sequence[str] | None = None,
        engine: Engine = "auto",
        message: str | None = None,
    ) -> OptimizeReport:
        """Make a graph that was written to often as fast as a fresh one: small fragments are joined, deleted rows leave
        the files, indexes are built, extended and joined, and on main the topology files are made anew, unless Spark
        does the work: then there are more edges than one process should read.

        No answer changes and no history goes. Writers and readers go on meanwhile; what they change is planned again.
        All tables of a branch become one commit for their fragments and one for their indexes, or none.

        Args:
            branch: None for all branches. Of a branch only tables that it changed are optimized; it shares the others.
            types: names of types, None for all.
            engine: ``"embedded"`` works in this process, ``"spark"`` on Spark; ``"auto"`` gives much work to Spark, if
                there is one.
            message: what to say about it in the history.

        Raises:
            RecoveryRequired: an interrupted write can be neither finished nor dropped; nothing was done.

        Example:
            >>> report = graph.optimize()
            >>> [(table.table_key, table.indexes_built) for table in report.tables]
            [('edge:Follows', ('id', 'src', 'dst')), ('node:Person', ('id', 'handle'))]
            >>> graph.optimize().commits
            ()
        """
        from omnigraph.given import texts
        from omnigraph.graph.engines import upkeep_engine
        from omnigraph.upkeep.optimize import OptimizeRequest, optimize

        chosen = frozenset(texts(types, "types")) if types is not None else None
        request = OptimizeRequest(upkeep_engine(engine), chosen, commit_message(message))
        name = known_branch(branch) if branch is not None else None
        report = optimize(self._writer("admin", name), self._schemas, name, request)
        if report.engine == "embedded" and any(commit.branch == ids.MAIN for commit in report.commits):
            self._reads.keep_topologies(self._store.snapshot(ids.MAIN))
        return report

    def embed(
        self,
        types: Sequence[str] | str | None = None,
        *,
        branch: str = ids.MAIN,
        limit: int | None = None,
        budget: int | None = None,
        rows: int | None = None,
        reembed: bool = False,
        retry_failed: bool = False,
        engine: Engine = "auto",
        progress: bool | Callable[[Progress], None] | None = None,
    ) -> EmbedResult:
        """Make the vectors that properties with ``@embed`` lack, by the provider of the environment: of rows without
        one, and of rows whose text changed since theirs was made. In commits of some rows each; a run that was
        interrupted is continued by the next one, without asking again for what was answered.

        Args:
            types: names of node types; None for all that have such a property.
            limit: most rows that are embedded.
            budget: most characters that are sent to the provider.
            rows: rows of one commit.
            reembed: also rows whose vector came with the data or was made by another model.
            retry_failed: also rows whose text the provider refused before.
            engine: ``embedded`` asks the provider from this process, ``spark`` from the executors of Spark, ``auto``
                from there when more than 65,536 rows may need a vector and Spark is installed.
            progress: as for `load`.

        Raises:
            EmbeddingModelMismatch: a property declares another model, or holds vectors of another one.
            EmbeddingError: the provider failed; what it answered before is committed.

        Example:
            >>> graph.embed()
            EmbedResult(0 rows embedded in 0 commits on main, 0 failed)
        """
        from omnigraph.embed.managed.start_run import embed_request, run_embedding
        from omnigraph.graph.engines import embed_engine

        wanted = embed_request(known_branch(branch), types, limit, budget, rows, self._actor)
        wanted = replace(wanted, reembed=reembed, retry_failed=retry_failed)
        return run_embedding(
            self._writer("change", wanted.branch), self._schemas, wanted, embed_engine(engine), progress
        )

    def stats(self, branch: str = ids.MAIN, *, embeddings: bool = False) -> GraphStats:
        """How big the graph is and how it lies in its files: rows, fragments, bytes and index coverage of the tables of
        a branch; history, manifest, interrupted writes and all files of the whole graph. Reads no data file.

        Args:
            embeddings: also how many vectors are pending, ready, stale, failed and given, which reads their columns.

        Example:
            >>> found = graph.stats()
            >>> found.totals["rows"], found.commits, [table.table_key for table in found.tables]
            (3, 2, ['edge:Follows', 'node:Person'])
        """
        from omnigraph.upkeep.stats import stats

        name = known_branch(branch)
        return stats(self._reader("read", name), self._schemas, name, embeddings=embeddings)

    def cleanup(
        self,
        keep: int | None = None,
        older_than: str | int | timedelta | None = None,
        *,
        confirm: bool = False,
        grace: str | int | timedelta | None = None,
    ) -> CleanupResult:
        """Remove old states, and files that nobody needs; without ``confirm`` only tell what would be removed.

        What a branch, a tag, a reader with a lease or a merge of two branches needs stays. A state that was removed
        answers `HistoricalVersionReclaimed`; its commit stays in the history.

        Args:
            keep: the newest so many commits of each branch stay.
            older_than: so do commits that are younger: seconds, a `timedelta`, or a text like ``24h`` or ``7d``.
            confirm: remove.
            grace: and states that were the newest of their branch within this time, 10 minutes by default, because
                somebody may be reading them.

        Raises:
            InputError: neither ``keep`` nor ``older_than`` is given.
            CleanupRefused: something that has to stay cannot be read; nothing was removed.

        Example:
            >>> graph.cleanup(keep=10)
            CleanupResult(would remove 0 states, 0 files, 0 bytes; 3 states stay)
        """
        from omnigraph.upkeep import cleanup as room
        from omnigraph.upkeep.cleanup.policy import policy_of

        request = room.CleanupRequest(policy_of(keep, older_than, grace), self._actor)
        return room.cleanup(self._writer("admin"), request) if confirm else room.preview(self._reader("admin"), request)

    @property
    def retention(self) -> Retention:
        """The rule by which `upkeep` keeps the graph small."""
        from omnigraph.upkeep.retention import Retention

        return Retention(self._reader, self._writer)

    @property
    def upkeep(self) -> Upkeep:
        """Do what is due by the retention rule: call it from a timer. It lists what was done."""
        from omnigraph.upkeep.upkeep_runs import Upkeep

        return Upkeep(self._reader, self._writer, self._actor, self._put_in_order)

    def _put_in_order(self) -> str:
        """Put the tables of all branches in order; says what was done."""
        return self.optimize().summary

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

        return verify(self._reader("admin"), look_deep=deep)

    def recover(self, *, discard: bool = False) -> int:
        """Finish or drop what dead writers left on any branch; returns how many there were.

        Also makes the copies of the commits complete, which a killed writer leaves a commit behind.

        Args:
            discard: also take back rows that other software wrote to the tables beside the graph, which refuses writes
                to them otherwise (`UncoveredDrift`); see also `repair`. Counts such tables too.
        """
        from omnigraph.storage.recovery import repair_mirrors, sweep
        from omnigraph.storage.recovery.sweep import discard_drift

        resolved = sweep.sweep(self._writer("admin"), strict=True)
        if discard:
            resolved += discard_drift(self._store)
        self._store.mirror.flush()
        repair_mirrors.mend_mirrors(self._store)
        return resolved

    def repair(
        self, *, branch: str | None = None, confirm: bool = False, force: bool = False, discard: bool = False
    ) -> RepairReport:
        """Tell what other software did to the tables beside the graph, and adopt it or take it back.

        Args:
            branch: only the tables of this branch; None means those of every branch.
            confirm: do it; without it only tell. Versions that hold the very rows of what is shown are adopted, one
                commit for each branch, by ``omnigraph:repair``; anything else is refused.
            force: adopt versions with other rows or options too, by ``omnigraph:repair:force``. The report says which
                rules their rows break.
            discard: take everything back instead: the tables get the content that the graph shows.

        Raises:
            InputError: ``force`` without ``confirm``, or with ``discard``.
            RecoveryRequired: an interrupted write has to be resolved first.

        Example:
            >>> graph.repair()
            RepairReport(no drift)
        """
        from omnigraph.upkeep.repair import RepairRequest, repair

        name = known_branch(branch) if branch is not None else None
        store = self._writer("admin", name) if confirm else self._reader("admin", name)
        return repair(store, self._schemas, RepairRequest(name, confirm, force, discard))

    @property
    def recoveries(self) -> list[Recovery]:
        """Interrupted writes that were finished or taken back, oldest first."""
        from omnigraph.storage.recovery import audit

        return audit.recoveries(self._reader("admin").tables)

    @property
    def internals(self) -> GraphInternals:
        """Storage, schemas and actor, for engines of this package. Not for applications: it may change at any time.

        Raises:
            GraphClosed: the handle was closed.
        """
        if self._is_closed:
            raise GraphClosed(f"{self.uri} was closed", hint="open it again with omnigraph.open")
        return GraphInternals(
            self._store, self._schemas, self._mode, self._actor, self._vectors_of, self._looks, self._guard
        )

    @property
    def is_committing(self) -> bool:
        """Whether this process is inside a commit section: a matter of milliseconds that is better not interrupted."""
        return is_held()

    def close(self) -> None:
        """Wait for background copies. From then on the handle refuses everything; closing it again does nothing.

        A handle can be thrown away without it: the next writer catches up.
        """
        self._is_closed = True
        self._store.mirror.stop()

    def __enter__(self) -> Self:
        self.internals  # noqa: B018  refuses a closed handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self._mode!r}{', closed' if self._is_closed else ''})"

    def _read_request(
        self,
        source: str | Path,
        name: str | None,
        params: Mapping[str, object] | None,
        branch: str | None,
        at: At | None,
        budget: ReadBudget,
    ) -> ReadRequest:
        from omnigraph.engine.query_runner import ReadRequest

        moment = moment_of(at) if at is not None else None
        snapshot = self.internals.snapshot(branch, moment, since=ASKED.get())
        return ReadRequest(source, name, params, snapshot, moment, budget)

    def _read(
        self, asked: ManifestSnapshot, branch: str | None, at: At | None, read: Callable[[ManifestSnapshot], _Read]
    ) -> _Read:
        end = self._store.begin_read(asked, "query")
        try:
            return read(asked)
        except (HistoricalVersionReclaimed, CorruptGraph):
            with at_state(asked):
                newest = self.internals.snapshot(branch, at)
                if (newest.identity, newest.version) == (asked.identity, asked.version):
                    raise
        finally:
            if end is not None:
                end()
        # A cleanup removed what was being read, which is not the newest state any more.
        with at_state(newest), self._store.lasting(newest, "query"):
            return read(newest)

    def _reader(self, action: str, branch: str | None = None, target: str | None = None) -> GraphStore:
        return self.internals.reader(action, branch, target)

    def _writer(self, action: str, branch: str | None = None, target: str | None = None) -> GraphStore:
        return self.internals.writer(action, branch, target)


def lint_with_schema(queries: Path, schema: Path, *, allow_unknown_annotations: bool = False) -> LintReport:
    """Check every query of a file against the schema in another one, without a stored graph.

    Raises:
        SourceError: the schema is wrong.
    """
    from omnigraph.query.lint_queries import SchemaSource, lint, with_schema_findings

    text, file = text_of(schema, ".pg")
    compiled = compile_schema(text, file=file, allow_unknown_annotations=allow_unknown_annotations)
    asked, asked_file = text_of(queries, ".gq")
    report = lint(asked, compiled.catalog, asked_file, schema_source=SchemaSource("file", str(schema)))
    return with_schema_findings(report, compiled.warnings)


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
        embedder: makes the vectors of texts that queries compare with vectors.
        looks: what was found in the storage for other reads.
        guard: what the actor may see and do; None for everything.
    """

    store: GraphStore
    schemas: SchemaRegistry
    mode: OpenMode
    actor: str | None
    embedder: TextEmbedder
    looks: RecentLooks
    guard: Guard | None = None

    def reader(self, action: str = "admin", branch: str | None = None, target: str | None = None) -> GraphStore:
        """The storage, to read from it for one action.

        Args:
            action: what a policy has to allow; by default what no other action stands for.
            branch, target: the branches that it is done to.

        Raises:
            ForkedProcess: this process was forked from one that had used the storage.
            PolicyDenied: the actor may not do it.
        """
        use_storage()
        if self.guard is None:
            return self.store
        self.guard.require(action, branch, target)
        return self.guard.store_for(action, branch, target)

    def writer(self, action: str = "admin", branch: str | None = None, target: str | None = None) -> GraphStore:
        """The storage, to write to it for one action.

        Raises:
            ReadOnly: the graph is open read-only.
            PolicyDenied: the actor may not do it.
        """
        if self.mode != "rw":
            raise ReadOnly(f"{self.store.location.uri} is open read-only", hint="open it with mode='rw'")
        return self.reader(action, branch, target)

    def snapshot(
        self, branch: str | None = None, at: At | None = None, action: str = "read", since: float | None = None
    ) -> ManifestSnapshot:
        """The state of a branch now, or at a commit, a tag, a manifest version or a time; see `Graph.query`. It lacks
        what the actor may not see.

        Args:
            since: when the state of now was asked for; see `RecentLooks`.
        """
        use_storage()
        guard = self.guard
        if guard is None:
            return self._found(branch, at, since)
        name = known_branch(branch) if branch is not None else None
        if name is None and (at is None or not isinstance(moment_of(at), str)):
            name = ids.MAIN
        if name is not None:
            guard.require(action, name)
        with guard.finding(at):
            found = self._found(branch, at, since)
        if found.branch != name:
            guard.require_found(action, found.branch, at)
        return guard.store_for(action).seen(found)

    def _found(self, branch: str | None, at: At | None, since: float | None) -> ManifestSnapshot:
        if at is not None or since is None:
            return asked_state(self.store, branch, at)
        name = ids.MAIN if branch is None else branch
        return self.looks.newest(name, since, lambda: asked_state(self.store, branch, None))

    def target(self, target: Target, branch: str) -> ManifestSnapshot:
        """The state that a target names, see `snapshot_of`. It lacks what the actor may not see."""
        use_storage()
        guard = self.guard
        if guard is None:
            return snapshot_of(self.store, target, branch)
        name = branch
        if isinstance(target, str):
            name = target.strip()
        if not isinstance(target, ManifestSnapshot) and ids.moment_in(name) is None:
            guard.require("read", name)
        with guard.finding(target):
            found = snapshot_of(self.store, target, branch).whole
        if found.branch != name or ids.moment_in(name) is not None:
            guard.require_found("read", found.branch, target)
        return guard.store_for("read").seen(found)

    def reader_of_commit(self, commit_id: str) -> GraphStore:
        """The storage, to read what one commit did."""
        if self.guard is None:
            use_storage()
            return self.store
        with self.guard.finding(commit_id):
            commit = get_commit(self.store, given.text(commit_id, "the id of a commit"))
        self.guard.require_found("read", commit.branch, commit_id)
        return self.guard.store_for("read")

    def catalog_of(self, snapshot: ManifestSnapshot) -> Catalog:
        """The types of a state."""
        return self.schemas.of(snapshot).catalog

    def schema_for_rows(self, store: GraphStore, branch: str, from_: str | None = None) -> RowSchema:
        """The schema that new rows of a branch must have; of ``from_`` when the write will create the branch.

        Args:
            store: as `writer` gave it.
        """
        return self.schemas.for_rows(store, branch, from_)
