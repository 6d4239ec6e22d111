"""The verb: merge one branch into another as one commit with two parents, or say why not.

The head of the source is captured once; what is written there later is not merged. Everything else is a function of the
target's state and is computed again when that state moves before the commit. Nothing is staged, and no table is
forked, before it is certain that there is no conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph import failpoints, ids
from omnigraph.errors import (
    InputError,
    InvalidName,
    MergeConflict,
    OmniGraphError,
    OutcomeUnknown,
    RecoveryRequired,
)
from omnigraph.history.branches import delete_branch
from omnigraph.history.merge.compute import ComputedMerge, compute
from omnigraph.history.merge.engine import MergeEngine, MergeEngines, embedded
from omnigraph.history.merge.merge_result import MergeResult
from omnigraph.history.merge.merge_source import MergeSource, capture
from omnigraph.history.merge.resolution import Resolve, check_resolve
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Merged, Prepared, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A merge as a caller asks for it; the fields are those of `Branches.merge`."""

    source: str
    target: str
    actor: str | None = None
    dry_run: bool = False
    resolve: Resolve | None = None
    delete_branch: bool = False


def merge(
    store: GraphStore, schemas: SchemaRegistry, request: MergeRequest, engines: MergeEngines = embedded
) -> MergeResult:
    """Merge, or with ``dry_run`` tell what a merge would do.

    Args:
        engines: makes the engine that looks at rows, for each state of the target that the merge is computed against.

    Raises:
        MergeConflict: both sides changed an entity, or the result breaks a rule; nothing was written.
        MergeSchemaMismatch: the two sides have different schemas.
    """
    _check(request)
    attempts = _Attempts(schemas, request, capture(store, request.source), engines)
    if request.dry_run:
        computed = attempts.compute(Workspace(store, store.snapshot(request.target)))
        return computed.result(attempts.newest.engine, dry_run=True)
    try:
        done = run(store, Write(request.target, WriterKind.BRANCH_MERGE, request.actor, attempts.prepare))
    except (OutcomeUnknown, RecoveryRequired):
        raise  # the commit may still come true
    except OmniGraphError:
        attempts.discard()
        raise
    attempts.discard(keep_newest=done.commit is not None)
    result = replace(done.report.result(attempts.newest.engine, dry_run=False), commit=done.commit)
    return without_source(store, result, attempts.source.snapshot) if request.delete_branch else result


@dataclass(slots=True)
class _Attempts:
    """The attempts at one merge: each is computed by an engine of its own, against one state of the target."""

    schemas: SchemaRegistry
    request: MergeRequest
    source: MergeSource
    engines: MergeEngines
    _made: list[MergeEngine] = field(default_factory=list)

    @property
    def newest(self) -> MergeEngine:
        return self._made[-1]

    def compute(self, workspace: Workspace) -> ComputedMerge:
        self._made.append(self.engines(workspace, self.source))
        catalog = self.schemas.of(workspace.snapshot).catalog
        return compute(workspace, catalog, self.source, self.request.resolve, self.newest)

    def prepare(self, workspace: Workspace) -> Prepared[ComputedMerge]:
        computed = self.compute(workspace)
        if computed.conflicts:
            raise _conflict(self.source, self.request.target, computed)
        if computed.outcome == "already_up_to_date":
            return Prepared(computed)
        moving = [change for key, change in computed.changes.items() if key not in computed.pointers]
        return Prepared(
            computed,
            tables=self.newest.stage(workspace, moving),
            pointers=computed.pointers,
            merged=Merged(self.source.head, computed.missing),
            made_for=self.schemas.of(workspace.snapshot).hash,
        )

    def discard(self, *, keep_newest: bool = False) -> None:
        """Remove what was staged and will never be committed."""
        for engine in self._made[:-1] if keep_newest else self._made:
            engine.discard()


def _check(request: MergeRequest) -> None:
    check_resolve(request.resolve)
    for name in (request.source, request.target):
        if name == ids.SCHEMA_APPLY_LOCK:
            raise InvalidName(f"branch '{name}' belongs to the system and cannot be merged", name=name)
    if request.source == request.target:
        raise InputError(f"branch '{request.source}' cannot be merged into itself", branch=request.source)


def _conflict(source: MergeSource, target: str, computed: ComputedMerge) -> MergeConflict:
    found = computed.conflicts
    number = "one conflict" if len(found) == 1 else f"{len(found)} conflicts"
    first = "; ".join(f"{each.kind}: {each.message}" for each in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return MergeConflict(
        f"branch '{source.branch}' cannot be merged into '{target}': {number} ({first}{more})",
        hint="decide them with resolve=",
        source=source.branch,
        target=target,
        count=len(found),
        conflicts=[each.to_dict() for each in found],
    )


def without_source(store: GraphStore, result: MergeResult, merged: ManifestSnapshot) -> MergeResult:
    """Delete the merged branch, unless somebody committed to it since it was read. The merge is done: whatever goes
    wrong here is told, not raised."""
    failpoints.reach("branch_merge.before_branch_delete")
    try:
        delete_branch(store, result.source, seen=merged)
    except OmniGraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=str(error))
    return replace(result, branch_deleted=True)
