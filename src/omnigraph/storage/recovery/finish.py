"""Finishes a write whose record holds its staged transactions.

A table's history says how far the write came: its transaction is there or it is not. With none there, the write never
happened and the record goes. With some, the missing ones are committed, and the publish carries the commit that the
writer minted, so history shows the original author.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from omnigraph.storage import lineage, schema_files
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.apply import change_of, commit_table, location_of, staged_of
from omnigraph.storage.commit.publish import Published, publish
from omnigraph.storage.commit.record import Sidecar, TableIntent
from omnigraph.storage.faults import READ_EXCEPTIONS
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
    published = lineage.find_commit(snapshot, record.commit.id)
    if published:
        _close(store, record, Published(published, snapshot))
        return
    record = _located(snapshot, record)
    handles = {table.table_key: _newest(store, table) for table in record.tables}
    landed = {table.table_key: _has_landed(handles[table.table_key], record, table) for table in record.tables}
    if not any(landed.values()):
        if record.schema:
            schema_files.discard(store.objects)
        sidecar.remove(store.objects, record.operation_id)
        return
    for table in record.tables:
        if not landed[table.table_key]:
            _commit(store, record, table, handles[table.table_key])
    if record.schema:
        schema_files.stage(store.objects, record.schema)
    failpoints.reach("recovery.before_roll_forward_publish")
    _close(store, record, publish(store, record.branch, change_of(store, record), fence, record.operation_id))


def _close(store: GraphStore, record: Sidecar, done: Published) -> None:
    """The write is visible, by its writer's hand or by ours: what is left is its audit row, its record, its mirrors."""
    if record.schema:
        schema_files.settle(store, record.schema)
    outcomes = [TableOutcome(t.table_key, t.expected_version, t.post_commit_pin) for t in record.tables]
    audit.record(store.tables, record, "RolledForward", done.commit.id, outcomes)
    sidecar.remove(store.objects, record.operation_id)
    store.mirror.note(done.snapshot, done.commit)


def _located(snapshot: Snapshot, record: Sidecar) -> Sidecar:
    """The record with every table's location: older software left it to the graph to say."""
    return replace(record, tables=tuple(_located_table(snapshot, record, table) for table in record.tables))


def _located_table(snapshot: Snapshot, record: Sidecar, table: TableIntent) -> TableIntent:
    new_to_the_graph = table.shown_version is not None or table.expected_version == 0
    if table.location is not None and new_to_the_graph:
        return table
    pin = snapshot.pins.get(table.table_key)
    if pin is None:
        raise _unexplained(record, table.table_key, "the graph no longer shows this table")
    return replace(table, location=pin.location)


def _newest(store: GraphStore, table: TableIntent) -> Handle | None:
    return store.tables.newest_or_none(location_of(table), table.branch)


def _commit(store: GraphStore, record: Sidecar, table: TableIntent, handle: Handle | None) -> None:
    if handle is None and table.expected_version > 0:
        raise _unexplained(record, table.table_key, "the table is missing")
    commit_table(store, handle, table)


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
