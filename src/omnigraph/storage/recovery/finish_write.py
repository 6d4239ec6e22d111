"""Finishes a write whose record holds its staged transactions, or drops it for good.

Only while the head is the commit that the write was computed on can it be published. Then its tables say how far it
came: with none of its transactions there it never happened; with some, the missing ones are committed and the publish
carries the commit that the writer minted, so history shows the original author. Once the head has moved, or another
transaction has a version that the write was to make, or Lance refuses what it would make of one, nobody can publish it
any more: it is void. Its writer may be alive through all of this; whatever it still does ends the same way.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph import failpoints, limits
from omnigraph.errors import RecoveryRequired, StoreUnavailable
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.apply import Slot, SlotTaken, change_of, commit_table, location_of, slot
from omnigraph.storage.commit.publish import Published
from omnigraph.storage.commit.sidecar import Sidecar, TableIntent
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import schema_files
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.objects.locks import Fence
from omnigraph.storage.objects.native_libraries import is_refusal
from omnigraph.storage.recovery import audit
from omnigraph.storage.recovery.audit import TableOutcome
from omnigraph.storage.tables.lance_types import LanceTable


def finish(store: GraphStore, record: Sidecar, fence: Fence) -> None:
    """Resolve one record that can be redone."""
    if record.commit is None:
        raise RecoveryRequired(f"the record {record.operation_id} names no commit", operation_id=record.operation_id)
    for _ in range(limits.PUBLISHER_RETRY_BUDGET + 1):
        snapshot = store.refresh(record.branch, migrate_layout=True)
        found = store.publisher.find(snapshot, record.commit.id)
        if found is not None:
            return _close(store, record, Published(found, snapshot, _earlier(store, record, snapshot)))
        located = _located(snapshot, record)
        newest = {table.table_key: _newest(store, table) for table in located.tables}
        slots = {slot(newest[table.table_key], table) for table in located.tables}
        if Slot.TAKEN in slots or not _stands(store, snapshot, record):
            return drop_void(store, record, store.head_id(snapshot))
        if Slot.OURS not in slots:
            return _drop(store, record)
        try:
            published = _redo(store, located, snapshot, newest, fence)
        except SlotTaken:
            continue
        except StoreUnavailable as error:
            if not is_refusal(error):
                raise
            return drop_void(store, record, store.head_id(snapshot))
        if published is not None:
            return _close(store, record, published)
    raise RecoveryRequired(
        f"the interrupted write {record.operation_id} kept losing its race", operation_id=record.operation_id
    )


def drop_void(store: GraphStore, record: Sidecar, head: str) -> None:
    """Remove a record that nobody can publish any more. What it left in its tables is passed over by the next write."""
    audit.record(store.tables, record, "RolledBack", head, [])
    _drop(store, record)


def _drop(store: GraphStore, record: Sidecar) -> None:
    if record.schema:
        schema_files.discard(store.objects)
    sidecar.remove(store.objects, record.operation_id)


def _stands(store: GraphStore, snapshot: ManifestSnapshot, record: Sidecar) -> bool:
    """Whether the state that a write was computed on is still the newest. A record of older software may not say which
    branch of its name it means."""
    same_branch = record.base_identity in (None, snapshot.identity)
    return same_branch and record.base_head in (None, store.head_id(snapshot))


def _redo(
    store: GraphStore, record: Sidecar, snapshot: ManifestSnapshot, newest: dict[str, LanceTable | None], fence: Fence
) -> Published | None:
    """Commit what is missing and publish it on the state that it was computed on; None when that has moved."""
    for table in record.tables:
        if slot(newest[table.table_key], table) is Slot.FREE:
            commit_table(store, newest[table.table_key], table, record.operation_id)
    if record.schema:
        schema_files.stage(store.objects, record.schema)
    failpoints.reach("recovery.before_roll_forward_publish")
    staged = store.publisher.stage(snapshot, change_of(store, record), fence.epoch)
    return store.publisher.publish(staged, record.operation_id)


def _close(store: GraphStore, record: Sidecar, done: Published) -> None:
    """The write is visible, by its writer's hand or by ours: what is left is its audit row, its record, its mirrors."""
    if record.schema:
        schema_files.settle(store, record.schema)
    outcomes = [TableOutcome(t.table_key, t.expected_version, t.post_commit_pin) for t in record.tables]
    audit.record(store.tables, record, "RolledForward", done.commit.id, outcomes)
    sidecar.remove(store.objects, record.operation_id)
    for commit in (*done.earlier, done.commit):
        store.mirror.note(done.snapshot, commit)


def _earlier(store: GraphStore, record: Sidecar, snapshot: ManifestSnapshot) -> tuple[Commit, ...]:
    """The commits that were published with that of a record and come before it."""
    found = (store.publisher.find(snapshot, draft.id) for draft in record.earlier)
    return tuple(commit for commit in found if commit is not None)


def _located(snapshot: ManifestSnapshot, record: Sidecar) -> Sidecar:
    """The record with every table's location: older software left it to the graph to say."""
    return replace(record, tables=tuple(_located_table(snapshot, record, table) for table in record.tables))


def _located_table(snapshot: ManifestSnapshot, record: Sidecar, table: TableIntent) -> TableIntent:
    if table.location is not None:
        return table
    pin = snapshot.pins.get(table.table_key)
    if pin is None:
        raise RecoveryRequired(
            f"the interrupted write {record.operation_id} cannot be finished: "
            f"the graph no longer shows table '{table.table_key}'",
            operation_id=record.operation_id,
            table_key=table.table_key,
        )
    return replace(table, location=pin.location)


def _newest(store: GraphStore, table: TableIntent) -> LanceTable | None:
    return store.tables.newest_or_none(location_of(table), table.branch)
