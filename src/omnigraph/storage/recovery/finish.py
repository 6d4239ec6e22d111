"""Finishes a write whose record holds its staged transactions.

A table's history says how far the write came: its transaction is there or it is not. With none there, the write never
happened and the record goes. With some, the missing ones are committed, and the publish carries the commit that the
writer minted, so history shows the original author.
"""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from omnigraph.storage import lineage
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.apply import commit_table, new_pin, staged_of
from omnigraph.storage.commit.publish import GraphChange, Published, publish
from omnigraph.storage.commit.sidecar import Sidecar, TableIntent
from omnigraph.storage.faults import READ_EXCEPTIONS
from omnigraph.storage.manifest import Pin
from omnigraph.storage.recovery import audit
from omnigraph.storage.recovery.audit import TableOutcome
from omnigraph.storage.section import Fence
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle


def finish(store: GraphStore, record: Sidecar, fence: Fence) -> None:
    """Resolve one record that can be redone. The caller holds the section of its branch.

    Raises:
        ExpectedVersionMismatch: the graph shows other versions than the write was made for.
    """
    if record.commit is None:
        raise RecoveryRequired(f"the record {record.operation_id} names no commit", operation_id=record.operation_id)
    snapshot = store.refresh(record.branch, migrate_layout=True)
    published = lineage.find_commit(snapshot.handle, record.commit.id)
    if published:
        _close(store, record, Published(published, snapshot))
        return
    pins = {table.table_key: _pin(snapshot, record, table) for table in record.tables}
    handles = {table.table_key: _newest(store, pins[table.table_key], table) for table in record.tables}
    landed = {table.table_key: _has_landed(handles[table.table_key], record, table) for table in record.tables}
    if not any(landed.values()):
        sidecar.remove(store.objects, record.operation_id)
        return
    for table in record.tables:
        handle = handles[table.table_key]
        if not landed[table.table_key] and handle is not None:
            commit_table(store, pins[table.table_key].location, handle, table)
    failpoints.reach("recovery.before_roll_forward_publish")
    change = GraphChange(
        commit=record.commit,
        pins=tuple(new_pin(store, pins[table.table_key], table) for table in record.tables),
        expected={table.table_key: table.expected_version for table in record.tables},
    )
    _close(store, record, publish(store, record.branch, change, fence, record.operation_id))


def _close(store: GraphStore, record: Sidecar, done: Published) -> None:
    """The write is visible, by its writer's hand or by ours: what is left is its audit row, its record, its mirrors."""
    outcomes = [TableOutcome(t.table_key, t.expected_version, t.post_commit_pin) for t in record.tables]
    audit.record(store.tables, record, "RolledForward", done.commit.id, outcomes)
    sidecar.remove(store.objects, record.operation_id)
    store.mirror.note(done.snapshot, done.commit)


def _pin(snapshot: Snapshot, record: Sidecar, table: TableIntent) -> Pin:
    pin = snapshot.pins.get(table.table_key)
    if pin is None:
        raise _unexplained(record, table.table_key, "the graph no longer shows this table")
    return pin


def _newest(store: GraphStore, pin: Pin, table: TableIntent) -> Handle | None:
    return store.tables.newest_or_none(pin.location, table.branch)


def _has_landed(handle: Handle | None, record: Sidecar, table: TableIntent) -> bool:
    """Whether the table's history above the expected version is exactly our transaction; anything else is foreign."""
    if handle is None or handle.version == table.expected_version:
        return False
    try:
        found = handle.read_transaction(table.post_commit_pin)
    except READ_EXCEPTIONS:
        found = None
    if handle.version == table.post_commit_pin and found is not None and found.uuid == staged_of(table).uuid:
        return True
    raise _unexplained(record, table.table_key, "another program wrote to this table")


def _unexplained(record: Sidecar, table_key: str, why: str) -> RecoveryRequired:
    return RecoveryRequired(
        f"the interrupted write {record.operation_id} cannot be finished: table '{table_key}': {why}",
        hint="inspect it with repair",
        operation_id=record.operation_id,
        table_key=table_key,
    )
