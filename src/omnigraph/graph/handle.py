"""An open graph: every verb a user has, each one handed to the room that does it.

A `Graph` may be shared between threads. It belongs to the process that opened it: after a fork it refuses to work (see
`storage/process.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from omnigraph import ids
from omnigraph.engine.reads import ReadRequest, Reads
from omnigraph.engine.result import Result
from omnigraph.engine.run import Explanation
from omnigraph.errors import ReadOnly
from omnigraph.graph.changes import ChangeVerbs
from omnigraph.graph.files import FileVerbs
from omnigraph.graph.schema_control import SchemaControl
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.control import Branches, Commits, known_branch
from omnigraph.history.resolve import At, at_state, snapshot_at
from omnigraph.history.schemas import Schemas
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compile import CompiledSchema
from omnigraph.storage.process import use_storage
from omnigraph.storage.section import is_held
from omnigraph.storage.store import GraphStore

# A process that only reads never pays for the rooms that write: each verb below imports its own.
if TYPE_CHECKING:
    from omnigraph.history.merge.carrier import Carriers
    from omnigraph.query.lint import Report
    from omnigraph.storage.recovery.audit import Recovery
    from omnigraph.upkeep.indexes import IndexReport
    from omnigraph.upkeep.verify import VerifyReport
    from omnigraph.write.change import Change
    from omnigraph.write.commit import WriteResult
    from omnigraph.write.mutate import MutationResult


class Graph(ChangeVerbs, FileVerbs):
    """An open graph. Get one from `omnigraph.open` or `omnigraph.init`; it is a context manager.

    Read with `query`, `snapshot`, `export`, `diff` and `changes`; write with `mutate` and `load`. `branches`, `commits`
    and `schema` hold what is about these. `lint`, `explain` and `verify` look without changing anything.
    """

    def __init__(self, store: GraphStore, compiled: CompiledSchema, *, mode: str, actor: str | None) -> None:
        self._store = store
        self._schemas = Schemas(store, compiled)
        self._mode = mode
        self._actor = actor
        self._reads = Reads(store, lambda snapshot: self._schemas.of(snapshot).catalog)

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
        return Branches(self._reader, self._writer, self.catalog_of, self._actor, _merge_carriers)

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
        """One consistent state: of a branch now, or at a commit id, a manifest version or a time.

        Example:
            >>> graph.snapshot().count("Person")
            2
        """
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
            base: snapshot that the changes were computed from. When a table moved since, removals from it and changes
                with ``reads_rows`` are a conflict. Without it they mean the newest state.
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

    def lint(self, source: str | Path) -> Report:
        """Check every query of a text against the schema without running it.

        Example:
            >>> report = graph.lint("query q() { match { $p: Persn } return { $p.name } }")
            >>> report.ok, report.results[0].error
            (False, 'type error: T1: unknown node type `Persn`')
        """
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

        Example:
            >>> graph.mutate("query add($h: String) { insert Person { handle: $h, name: $h } }", params={"h": "cy"})
            MutationResult('add' on main: 1 nodes, 0 edges; commit 0...)
        """
        from omnigraph.write.mutate import MutationRequest, mutate

        request = MutationRequest(source, name, params, known_branch(branch), self._actor, if_commit)
        store = self._writer()
        return self._schemas.write(request.branch, lambda catalog: mutate(store, catalog, request))

    def ensure_indices(self, branch: str = ids.MAIN) -> IndexReport:
        """Build missing indexes and extend those that lag behind; on main also the topology files."""
        from omnigraph.upkeep.indexes import ensure_indices

        store, name = self._writer(), known_branch(branch)
        report = self._schemas.write(name, lambda catalog: ensure_indices(store, catalog, name))
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
        from omnigraph.storage.recovery import mirrors, sweep
        from omnigraph.storage.recovery.discard import discard_drift

        resolved = sweep.sweep(self._writer(), strict=True)
        if discard:
            resolved += discard_drift(self._store)
        self._store.mirror.flush()
        mirrors.mend_mirrors(self._store)
        return resolved

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
        use_storage()
        return self._store

    def _writer(self) -> GraphStore:
        if self._mode != "rw":
            raise ReadOnly(f"{self.uri} is open read-only", hint="open it with mode='rw'")
        return self._reader()


def _merge_carriers(engine: str) -> Carriers:
    from omnigraph.graph.carriers import merge_carriers

    return merge_carriers(engine)
