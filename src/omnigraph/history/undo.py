"""The verbs that bring earlier rows back as a new commit: `revert` undoes one commit, `restore` goes back to a state.

Both are merges of rows. A revert merges the state before a commit, with the state after it as what both sides have in
common: whatever was changed since stays, and a row that was changed again is a conflict. A restore merges an older
state with the newest one as common ground, so it takes everything. History is never rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import CommitNotFound, CommitWithoutParent, InputError, MergeSchemaMismatch
from omnigraph.history.merge.attempts import Attempts
from omnigraph.history.merge.engine import MergeEngines, embedded
from omnigraph.history.merge.merge_result import MergedRows
from omnigraph.history.merge.merge_source import MergeBase, MergeSource
from omnigraph.history.merge.resolution import Resolve, check_resolve
from omnigraph.history.merge.table_plan import schemas_differ
from omnigraph.history.state_at import At, get_commit, moment_of, snapshot_at, state_before, state_of
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.protocol import Write
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What a revert or a restore did.

    Attributes:
        commit: the new commit; None when the branch had those rows already.
        undone: id of the commit that was reverted, or of the one whose state was restored.
        tables: changed rows by table key; types without a change are left out.
    """

    commit: Commit | None
    branch: str
    undone: str
    tables: Mapping[str, MergedRows] = field(default_factory=dict)

    def __repr__(self) -> str:
        made = repr(self.commit) if self.commit is not None else "nothing to do"
        return f"UndoResult({self.undone} on {self.branch}; {made})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows."""
        return {
            "branch": self.branch,
            "undone_commit_id": self.undone,
            "commit": self.commit.to_dict() if self.commit is not None else None,
            "tables": {key: rows.to_dict() for key, rows in self.tables.items()},
        }


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """A revert or a restore as a caller asks for it.

    Attributes:
        moment: the commit to revert, or the state to restore.
    """

    branch: str
    moment: At
    actor: str | None
    resolve: Resolve | None = None
    message: str | None = None


def revert(
    store: GraphStore, schemas: SchemaRegistry, request: UndoRequest, engines: MergeEngines = embedded
) -> UndoResult:
    """Undo one commit of a branch; a merge is undone against its first parent.

    Raises:
        MergeConflict: what the commit did was changed since, or undoing it breaks a rule; nothing was written.
        MergeSchemaMismatch: the commit changed the schema, or the schema changed since.
        CommitWithoutParent: it is the first commit of the graph.
    """
    check_resolve(request.resolve)
    if not isinstance(request.moment, str):
        raise InputError(f"a commit is named by its id, not by {request.moment!r}", hint="pass commit.id")
    commit = get_commit(store, request.moment.strip(), request.branch)
    newest = store.snapshot(request.branch)
    if commit.id != store.head_id(newest) and commit_log.find_commit(newest, commit.id) is None:
        raise CommitNotFound(
            f"commit {commit.id} is not in the history of branch '{request.branch}'", commit_id=commit.id
        )
    if commit.parent is None:
        raise CommitWithoutParent(f"commit {commit.id} is the first one: there is no state before it")
    before, after = state_before(store, commit), state_of(store, commit)
    if _are_unlike(before, after):
        raise _refused(f"commit {commit.id} changed the schema and cannot be reverted", commit)

    def base_of(store: GraphStore, source: MergeSource, target: ManifestSnapshot) -> MergeBase:
        if _are_unlike(before, target):
            raise _refused(f"the schema changed since commit {commit.id}; it cannot be reverted", commit)
        return MergeBase(commit, after, store.head_id(target) == commit.id, ())

    attempts = Attempts(
        schemas,
        MergeSource(before.branch, before, commit.parent),
        engines,
        base_of,
        request.resolve,
        refusal=f"commit {commit.id} cannot be reverted on branch '{request.branch}'",
        details={"commit_id": commit.id, "target": request.branch},
        labels={"reverts": commit.id},
    )
    return _done(store, attempts, request, "revert", commit.id)


def restore(
    store: GraphStore, schemas: SchemaRegistry, request: UndoRequest, engines: MergeEngines = embedded
) -> UndoResult:
    """Give a branch the rows that it had at a moment.

    Raises:
        MergeSchemaMismatch: the graph had another schema then.
    """
    wanted = snapshot_at(store, request.branch, moment_of(request.moment))
    commit = commit_log.head_commit(store.tables, wanted)

    def base_of(store: GraphStore, source: MergeSource, target: ManifestSnapshot) -> MergeBase:
        if _are_unlike(wanted, target):
            raise _refused(f"the graph had another schema at commit {commit.id}; it cannot be restored", commit)
        return MergeBase(commit, target, True, ())

    attempts = Attempts(
        schemas,
        MergeSource(wanted.branch, wanted, commit.id),
        engines,
        base_of,
        None,
        refusal=f"the state of commit {commit.id} cannot be restored on branch '{request.branch}'",
        details={"commit_id": commit.id, "target": request.branch},
        labels={"restores": commit.id},
    )
    return _done(store, attempts, request, "restore", commit.id)


def _done(store: GraphStore, attempts: Attempts, request: UndoRequest, verb: str, undone: str) -> UndoResult:
    kind = WriterKind.MUTATION
    write = Write(request.branch, kind, request.actor, attempts.prepare, message=request.message, done=verb)
    done = attempts.commit(store, write)
    tables = done.report.result(attempts.engine, dry_run=False).tables
    return UndoResult(done.commit, request.branch, undone, tables if done.commit is not None else {})


def _are_unlike(one: ManifestSnapshot, other: ManifestSnapshot) -> bool:
    """Whether two states do not consist of the same tables in the same schema."""
    places = [{key: pin.location for key, pin in state.pins.items()} for state in (one, other)]
    return schemas_differ(one, other) or places[0] != places[1]


def _refused(text: str, commit: Commit) -> MergeSchemaMismatch:
    hint = f"make a branch of that state with branches.create(…, at='{commit.id}') and copy what you need from there"
    return MergeSchemaMismatch(text, hint=hint, commit_id=commit.id)
