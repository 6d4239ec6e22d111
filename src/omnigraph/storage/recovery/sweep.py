"""Resolves interrupted writes: at open, at the start of every write, on demand. Takes back foreign writes on request.

A pending record of a branch belongs to a writer that died, or to one that is so late that others are in its section.
Both are resolved the same way. A record that can be redone is finished or dropped (`finish_write`); one of other
software is classified and rolled (`roll`). Nothing here guesses: what cannot be explained stays, and its branch refuses
writes.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph import ids
from omnigraph.errors import BranchNotFound, ExpectedVersionMismatch, LockTimeout, RecoveryRequired
from omnigraph.logs import RECOVERY
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.commit.publish import GraphChange, publish
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.locks import CONTROL, Fence
from omnigraph.storage.tables.datasets import maker, version_file
from omnigraph.storage.tables.version_steps import are_explained


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
    from omnigraph.storage.recovery.finish_write import drop_void

    discarded = 0
    for operation_id in sidecar.pending(store.objects):
        record = sidecar.read(store.objects, operation_id)
        if record is not None and record.branch == branch and identity in (None, record.base_identity):
            drop_void(store, record, store.head_id(store.snapshot(ids.MAIN)))
            discarded += 1
    return discarded


def _resolve(store: GraphStore, record: Sidecar, fence: Fence) -> None:
    """Finish or roll. A publish that lost to another recovery of the same record is looked at once more: by then the
    graph shows how it ended."""
    from omnigraph.storage.recovery.finish_write import finish  # a write that meets no record needs neither
    from omnigraph.storage.recovery.roll import roll

    settle = finish if record.can_redo and not record.aborted else roll
    RECOVERY.warning(
        "resolving the interrupted write %s (%s on branch '%s')", record.operation_id, record.kind, record.branch
    )
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


def discard_drift(store: GraphStore) -> int:
    """Take back foreign changes of the tables of every branch; returns of how many tables."""
    discarded = 0
    for ref in store.branch_refs():
        with store.sections.hold(ref.name) as fence:
            heal_branch(store, ref.name, fence)
            snapshot = store.refresh(ref.name, migrate_layout=True)
            pins = [pin for pin in snapshot.pins.values() if snapshot.owns(pin.branch) and _is_foreign(store, pin)]
            if pins:
                draft = CommitDraft(ids.new_ulid(), ids.REPAIR_ACTOR, ids.now(), note={"kind": "repair"})
                expected = {pin.table_key: pin.version for pin in pins}
                change = GraphChange(draft, tuple(taken_back(store, pin) for pin in pins), (), expected)
                published = publish(store, ref.name, change, fence.epoch, ids.new_ulid())
                store.mirror.note(published.snapshot, published.commit)
                discarded += len(pins)
    return discarded


def _is_foreign(store: GraphStore, pin: Pin) -> bool:
    return not are_explained(store.tables.newest(pin.location, pin.branch), above=pin.version)


def taken_back(store: GraphStore, pin: Pin) -> Pin:
    """The pin of a new version with the content of the old one. Shows nothing."""
    restored = store.tables.restore(store.tables.newest(pin.location, pin.branch), pin.version, ids.new_ulid())
    uri, version = store.tables.uri(pin.location, pin.branch), int(restored.version)
    if store.location.is_local:
        object_store.sync_files([f"{uri}/{version_file(version)}"], store.location.uri)
    made = maker(restored, version)
    return replace(
        pin, version=version, metadata=manifest.pin_metadata(uri, version, made.uuid if made is not None else None)
    )
