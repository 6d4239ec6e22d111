"""The verb: merge one branch into another as one commit with two parents, or say why not.

The head of the source is captured once; what is written there later is not merged. Everything else is a function of the
target's state and is computed again when that state moves before the commit, see `attempts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph import failpoints, ids
from omnigraph.errors import InputError, InvalidName, OmniGraphError
from omnigraph.history.branches import delete_branch
from omnigraph.history.merge.attempts import Attempts
from omnigraph.history.merge.engine import MergeEngines, embedded
from omnigraph.history.merge.merge_result import MergeResult
from omnigraph.history.merge.merge_source import capture, find_base
from omnigraph.history.merge.resolution import Resolve, check_resolve
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.commit.protocol import Write
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
    message: str | None = None


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
    source = capture(store, request.source)
    attempts = Attempts(
        schemas,
        source,
        engines,
        find_base,
        request.resolve,
        refusal=f"branch '{request.source}' cannot be merged into '{request.target}'",
        details={"source": request.source, "target": request.target},
        joins=True,
    )
    if request.dry_run:
        computed = attempts.compute(Workspace(store, store.snapshot(request.target)))
        return computed.result(attempts.engine, dry_run=True)
    kind = WriterKind.BRANCH_MERGE
    write = Write(request.target, kind, request.actor, attempts.prepare, message=request.message)
    done = attempts.commit(store, write)
    result = replace(done.report.result(attempts.engine, dry_run=False), commit=done.commit)
    return without_source(store, result, source.snapshot) if request.delete_branch else result


def _check(request: MergeRequest) -> None:
    check_resolve(request.resolve)
    for name in (request.source, request.target):
        if name == ids.SCHEMA_APPLY_LOCK:
            raise InvalidName(f"branch '{name}' belongs to the system and cannot be merged", name=name)
    if request.source == request.target:
        raise InputError(f"branch '{request.source}' cannot be merged into itself", branch=request.source)


def without_source(store: GraphStore, result: MergeResult, merged: ManifestSnapshot) -> MergeResult:
    """Delete the merged branch, unless somebody committed to it since it was read. The merge is done: whatever goes
    wrong here is told, not raised."""
    failpoints.reach("branch_merge.before_branch_delete")
    try:
        store.require("branch_delete", target=result.source)
        delete_branch(store, result.source, seen=merged)
    except OmniGraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=str(error))
    return replace(result, branch_deleted=True)
