"""The verb: merge one branch into another as one commit with two parents, or say why not.

The head of the source is captured once; what is written there later is not merged. Everything else is a function of the
target's state and is computed again when that state moves before the commit. Nothing is staged, and no table is
forked, before it is certain that there is no conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from omnigraph.history.merge.carrier import Carrier, Carriers, in_process
from omnigraph.history.merge.compute import Computed, compute
from omnigraph.history.merge.resolve import Resolve, check_resolve
from omnigraph.history.merge.result import MergeResult
from omnigraph.history.merge.source import MergeSource, capture
from omnigraph.history.merge.stage import stage
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.commit.prepared import Prepared
from omnigraph.storage.commit.protocol import Workspace, Writer, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A merge as a caller asks for it; the fields are those of `Branches.merge`."""

    source: str
    target: str
    actor: str | None = None
    dry_run: bool = False
    resolve: Resolve | None = None
    delete_branch: bool = False


def merge(store: GraphStore, catalog: Catalog, request: MergeRequest, carriers: Carriers = in_process) -> MergeResult:
    """Merge, or with ``dry_run`` tell what a merge would do.

    Args:
        carriers: makes who looks at rows, for each state of the target that the merge is computed against.

    Raises:
        MergeConflict: both sides changed an entity, or the result breaks a rule; nothing was written.
        MergeSchemaMismatch: the two sides have different schemas.
    """
    _check(request)
    source = capture(store, request.source)
    if request.dry_run:
        workspace = Workspace(store, store.snapshot(request.target))
        carrier = carriers(workspace, source)
        return compute(workspace, catalog, source, request.resolve, carrier).result(carrier.engine, dry_run=True)
    last: list[Computed] = []
    made: list[Carrier] = []

    def prepare(workspace: Workspace) -> Prepared:
        carrier = carriers(workspace, source)
        made.append(carrier)
        computed = compute(workspace, catalog, source, request.resolve, carrier)
        last[:] = [computed]
        if computed.conflicts:
            raise _conflict(source, request.target, computed)
        if computed.outcome == "already_up_to_date":
            return Prepared()
        return stage(workspace, computed, carrier)

    kind, schema = WriterKind.BRANCH_MERGE, catalog.hash or None
    writer = Writer(request.target, kind, request.actor, prepare, schema=schema)
    try:
        commit = run(store, writer)
    except (OutcomeUnknown, RecoveryRequired):
        raise  # the commit may still come true
    except OmniGraphError:
        _discard(made)
        raise
    _discard(made[:-1] if commit is not None else made)
    result = replace(last[0].result(made[-1].engine, dry_run=False), commit=commit)
    return without_source(store, result, source.snapshot) if request.delete_branch else result


def _discard(attempts: list[Carrier]) -> None:
    for attempt in attempts:
        attempt.discard()


def _check(request: MergeRequest) -> None:
    check_resolve(request.resolve)
    for name in (request.source, request.target):
        if name == ids.SCHEMA_APPLY_LOCK:
            raise InvalidName(f"branch '{name}' belongs to the system and cannot be merged", name=name)
    if request.source == request.target:
        raise InputError(f"branch '{request.source}' cannot be merged into itself", branch=request.source)


def _conflict(source: MergeSource, target: str, computed: Computed) -> MergeConflict:
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


def without_source(store: GraphStore, result: MergeResult, merged: Snapshot) -> MergeResult:
    """Delete the merged branch, unless somebody committed to it since it was read. The merge is done: whatever goes
    wrong here is told, not raised."""
    failpoints.reach("branch_merge.before_branch_delete")
    try:
        delete_branch(store, result.source, seen=merged)
    except OmniGraphError as error:
        return replace(result, branch_deleted=False, branch_delete_error=str(error))
    return replace(result, branch_deleted=True)
