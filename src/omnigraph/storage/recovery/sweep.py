"""Resolves interrupted writes: at open, at the start of every write, on demand.

A pending record of a branch belongs to a writer that died, or to one that is so late that others are in its section.
Both are resolved the same way. A record that can be redone is finished or dropped (`finish`); one of other software is
classified and rolled (`roll`). Nothing here guesses: what cannot be explained stays, and its branch refuses writes.
"""

from __future__ import annotations

from omnigraph import ids
from omnigraph.errors import BranchNotFound, ExpectedVersionMismatch, LockTimeout, RecoveryRequired
from omnigraph.storage import lineage
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.recovery.finish import drop_void, finish
from omnigraph.storage.recovery.roll import roll
from omnigraph.storage.section import CONTROL, Fence
from omnigraph.storage.store import GraphStore


def heal_branch(store: GraphStore, branch: str, fence: Fence) -> int:
    """Resolve what writers of this branch left unfinished. Returns how many."""
    resolved = 0
    for operation_id in sidecar.pending(store.objects):
        record = sidecar.read(store.objects, operation_id)
        if record is not None and record.branch == branch:
            _resolve(store, record, fence)
            resolved += 1
    return resolved


def sweep(store: GraphStore, *, strict: bool) -> int:
    """Resolve what dead writers of every branch left. Returns how many.

    Args:
        strict: raise RecoveryRequired for a record that cannot be explained. Otherwise it stays, and only its own
            branch refuses writes.
    """
    branches = set()
    for operation_id in sidecar.pending(store.objects):
        record = sidecar.read(store.objects, operation_id)
        if record is not None:
            branches.add(record.branch)
    resolved = 0
    for branch in sorted(branches):
        try:
            resolved += _sweep_branch(store, branch)
        except RecoveryRequired:
            if strict:
                raise
    return resolved


def _sweep_branch(store: GraphStore, branch: str) -> int:
    try:
        store.branch_ref(branch)
    except BranchNotFound:
        with store.sections.hold(CONTROL):
            if not store.has_branch(branch):  # a new branch of this name has its own records
                return discard_records(store, branch, None)
    try:
        with store.sections.hold(branch) as fence:
            return heal_branch(store, branch, fence)
    except LockTimeout:
        return 0  # a live owner of the section finishes its own write; other branches need not wait for it


def discard_records(store: GraphStore, branch: str, identity: str | None) -> int:
    """Records of a branch that was deleted: nothing they could do would be seen.

    Args:
        identity: which branch of this name; None where no branch has it.
    """
    discarded = 0
    for operation_id in sidecar.pending(store.objects):
        record = sidecar.read(store.objects, operation_id)
        if record is not None and record.branch == branch and identity in (None, record.base_identity):
            drop_void(store, record, lineage.head_id(store.tables, store.snapshot(ids.MAIN)))
            discarded += 1
    return discarded


def _resolve(store: GraphStore, record: Sidecar, fence: Fence) -> None:
    """Finish or roll. A publish that lost to another recovery of the same record is looked at once more: by then the
    graph shows how it ended."""
    settle = finish if record.can_redo and not record.aborted else roll
    try:
        settle(store, record, fence)
    except ExpectedVersionMismatch:
        try:
            settle(store, record, fence)
        except ExpectedVersionMismatch as error:
            raise RecoveryRequired(
                f"the interrupted write {record.operation_id} cannot be resolved: {error.message}",
                operation_id=record.operation_id,
                table_key=error.details["table_key"],
            ) from error
