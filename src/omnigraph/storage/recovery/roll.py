"""Rolls an interrupted write forward or back when its record cannot be redone.

First pure decisions on numbers: per table what happened, for the record what to do. Forward publishes the newest
versions of its tables; back restores the pinned content and publishes that, so that graph and tables agree again either
way. Runs inside the commit section only: a restore buries whatever it finds.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

import lance

from omnigraph import failpoints, ids
from omnigraph.errors import CorruptGraph, RecoveryRequired
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.commit.publish import GraphChange, publish
from omnigraph.storage.commit.sidecar import Sidecar, TableIntent, WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, manifest, schema_files
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.locks import Fence
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.recovery import audit
from omnigraph.storage.recovery.audit import TableOutcome
from omnigraph.storage.tables.datasets import transaction_of, version_file
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.version_steps import keeps_rows


class TableState(Enum):
    NO_MOVEMENT = auto()
    ROLLED_PAST_EXPECTED = auto()
    UNEXPECTED_AT_P1 = auto()
    UNEXPECTED_MULTISTEP = auto()
    INCOMPLETE_PHASE_B = auto()
    INVARIANT_VIOLATION = auto()


class Decision(Enum):
    ABORT = auto()
    STALE = auto()
    ROLL_BACK = auto()
    ROLL_FORWARD = auto()


def classify(
    kind: WriterKind, table: TableIntent, head: int, pin: int, *, maintenance_only: bool, schema_staged: bool = False
) -> TableState:
    """What happened to one table.

    Args:
        head: newest version of the table on the record's lineage.
        pin: version that the record's graph branch shows, 0 when it shows none.
        maintenance_only: every transaction above the pin preserves content.
        schema_staged: the new schema files lie beside the live ones; a schema change writes them after its last table.
    """
    if head < pin:
        return TableState.INVARIANT_VIOLATION
    if head == pin:
        return TableState.NO_MOVEMENT
    if kind.is_strict:
        if head > pin + 1:
            return TableState.UNEXPECTED_MULTISTEP
        exact = table.expected_version == pin and table.post_commit_pin == head
        return TableState.ROLLED_PAST_EXPECTED if exact else TableState.UNEXPECTED_AT_P1
    if table.expected_version != pin:
        return TableState.UNEXPECTED_AT_P1 if head == pin + 1 else TableState.UNEXPECTED_MULTISTEP
    if kind.preserves_content:
        return TableState.ROLLED_PAST_EXPECTED if maintenance_only else TableState.INCOMPLETE_PHASE_B
    if kind is WriterKind.SCHEMA_APPLY and schema_staged:
        return TableState.ROLLED_PAST_EXPECTED
    # A writer that commits several times per table leaves no proof that it came to its end.
    return TableState.INCOMPLETE_PHASE_B


def decide(
    record: Sidecar, states: dict[str, TableState], pins: dict[str, int], *, schema_staged: bool = False
) -> Decision:
    """What to do with the record; the first rule that matches wins."""
    found = set(states.values())
    if TableState.INVARIANT_VIOLATION in found:
        return Decision.ABORT
    if record.aborted:
        return Decision.ROLL_BACK
    still = found == {TableState.NO_MOVEMENT}
    if still and any(pins[table.table_key] > table.expected_version for table in record.tables):
        return Decision.STALE
    if record.kind is WriterKind.SCHEMA_APPLY and not schema_staged:
        return Decision.ROLL_BACK
    if record.kind.preserves_content and found <= {TableState.NO_MOVEMENT, TableState.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_BACK if still else Decision.ROLL_FORWARD  # tables are independent: keep what is done
    if found - {TableState.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_BACK
    return Decision.ROLL_FORWARD


def roll(store: GraphStore, record: Sidecar, fence: Fence) -> None:
    """Resolve one record of other software, or one that its writer gave up. The caller holds the section."""
    snapshot = store.refresh(record.branch, migrate_layout=True)
    pins = {table.table_key: snapshot.version_of(table.table_key) for table in record.tables}
    heads = {table.table_key: _head(store, snapshot, table) for table in record.tables}
    staged = schema_files.staged(store.objects) if record.kind is WriterKind.SCHEMA_APPLY else {}
    schema_staged = len(staged) == len(schema_files.FILES)
    states = {
        table.table_key: classify(
            record.kind,
            table,
            _version(heads[table.table_key], pins[table.table_key]),
            pins[table.table_key],
            maintenance_only=_maintenance_only(heads[table.table_key], pins[table.table_key]),
            schema_staged=schema_staged,
        )
        for table in record.tables
    }
    decision = decide(record, states, pins, schema_staged=schema_staged)
    if decision is Decision.ROLL_BACK and not staged and _is_shown(record, snapshot):
        decision = Decision.STALE
    if decision is Decision.ABORT:
        broken = next(key for key, state in states.items() if state is TableState.INVARIANT_VIOLATION)
        raise CorruptGraph(
            f"table '{broken}' is older than the graph says; the record {record.operation_id} is kept",
            hint="restore the table from a copy",
            operation_id=record.operation_id,
        )
    if decision is Decision.STALE:
        _note_stale(store, record, snapshot, heads)
    elif decision is Decision.ROLL_FORWARD:
        _forward(store, record, snapshot, heads, fence, schema_files.staged_hash(staged))
    else:
        _back(store, record, snapshot, heads, fence)
    if staged and decision is Decision.ROLL_BACK:
        schema_files.discard(store.objects)
    elif staged:
        schema_files.promote(store.objects)
    sidecar.remove(store.objects, record.operation_id)


def _is_shown(record: Sidecar, snapshot: ManifestSnapshot) -> bool:
    """Whether a change that moves no table is there already: what it adds is shown, what it drops is not."""
    added, dropped = [key for key, _, _ in record.registrations], [entry.table_key for entry in record.tombstones]
    changes_keys = bool(added or dropped) and not record.tables and not record.aborted
    return (
        changes_keys and all(key in snapshot.pins for key in added) and not any(key in snapshot.pins for key in dropped)
    )


def _note_stale(
    store: GraphStore, record: Sidecar, snapshot: ManifestSnapshot, heads: dict[str, LanceTable | None]
) -> None:
    """Audit what is published already: by the writer, or by an earlier recovery that came no further than that."""
    restored = {
        table.table_key: handle.version
        for table in record.tables
        if (handle := heads[table.table_key]) is not None and _is_restore(handle, table.expected_version)
    }
    head = commit_log.head_commit(store.tables, snapshot)
    store.mirror.note(snapshot, head)
    if restored:
        back = [
            TableOutcome(t.table_key, restored[t.table_key] - 1, t.expected_version)
            for t in record.tables
            if t.table_key in restored
        ]
        audit.record(store.tables, record, "RolledBack", head.id, back)
        return
    forward = [TableOutcome(t.table_key, t.expected_version, snapshot.version_of(t.table_key)) for t in record.tables]
    audit.record(store.tables, record, "RolledForward", head.id, forward)


def _is_restore(handle: LanceTable, version: int) -> bool:
    """Whether the newest version of a table is a restore of the given one."""
    last = transaction_of(handle, handle.version)
    operation = last.operation if last is not None else None
    return isinstance(operation, lance.LanceOperation.Restore) and operation.version == version


def _head(store: GraphStore, snapshot: ManifestSnapshot, table: TableIntent) -> LanceTable | None:
    pin = snapshot.pins.get(table.table_key)
    location = pin.location if pin else table.uri.removeprefix(store.location.child(""))
    handle = store.tables.newest_or_none(location, table.branch)
    if handle is None and table.branch is None:
        raise RecoveryRequired(
            f"table '{table.table_key}' of an interrupted write does not exist at {location}", table_key=table.table_key
        )
    return handle


def _version(handle: LanceTable | None, pin: int) -> int:
    """Newest version of a table; a branch of it that was never made did not move."""
    return pin if handle is None else int(handle.version)


def _maintenance_only(handle: LanceTable | None, pin: int) -> bool:
    return handle is not None and all(keeps_rows(handle, version) for version in range(pin + 1, handle.version + 1))


def _forward(
    store: GraphStore,
    record: Sidecar,
    snapshot: ManifestSnapshot,
    heads: dict[str, LanceTable | None],
    fence: Fence,
    schema: str | None,
) -> None:
    pins, expected, outcomes = [], {}, []
    for table in record.tables:
        handle = heads[table.table_key]
        pin = snapshot.pins.get(table.table_key)
        if handle is None or (pin is not None and handle.version == pin.version):
            continue
        pins.append(
            _pin_at(store, table.table_key, pin.location if pin else _relative(store, table.uri), table, handle)
        )
        expected[table.table_key] = table.expected_version
        outcomes.append(TableOutcome(table.table_key, table.expected_version, handle.version))
    for key, path, branch in record.registrations:
        if key not in snapshot.pins:
            location = _relative(store, path)
            handle = store.tables.newest(location, branch)
            intent = TableIntent(key, path, 0, handle.version, branch)
            pins.append(_pin_at(store, key, location, intent, handle))
            expected[key] = snapshot.version_of(key)
            outcomes.append(TableOutcome(key, 0, handle.version))
    hidden = [entry for entry in record.tombstones if entry.table_key in snapshot.pins]
    tombstones = tuple((entry.table_key, entry.version) for entry in hidden)
    expected |= {entry.table_key: entry.replaces for entry in hidden}
    failpoints.reach("recovery.before_roll_forward_publish")
    change = GraphChange(_draft(record.merge_source), tuple(pins), tombstones, expected, schema=schema)
    published = publish(store, record.branch, change, fence.epoch, record.operation_id)
    audit.record(store.tables, record, "RolledForward", published.commit.id, outcomes)
    store.mirror.note(published.snapshot, published.commit)


def _back(
    store: GraphStore, record: Sidecar, snapshot: ManifestSnapshot, heads: dict[str, LanceTable | None], fence: Fence
) -> None:
    pins, expected, outcomes = [], {}, []
    for table in record.tables:
        handle, pin = heads[table.table_key], snapshot.pins.get(table.table_key)
        if handle is None or pin is None or handle.version == pin.version:
            continue
        restored = _restore(store, pin, table, handle)
        failpoints.reach("recovery.post_table_restore_pre_publish")
        pins.append(replace(_pin_at(store, table.table_key, pin.location, table, restored), row_count=pin.row_count))
        expected[table.table_key] = pin.version
        outcomes.append(TableOutcome(table.table_key, restored.version - 1, pin.version))
    commit_id = store.head_id(snapshot)
    if pins:
        change = GraphChange(_draft(None), tuple(pins), (), expected)
        published = publish(store, record.branch, change, fence.epoch, record.operation_id)
        store.mirror.note(published.snapshot, published.commit)
        commit_id = published.commit.id
    audit.record(store.tables, record, "RolledBack", commit_id, outcomes)


def _restore(store: GraphStore, pin: Pin, table: TableIntent, handle: LanceTable) -> LanceTable:
    """Bring a table's newest version back to the pinned content; a restore that is there already is enough."""
    with store_errors(f"restore table '{table.table_key}'"):
        if _is_restore(handle, pin.version):
            return handle
        handle.checkout_version(pin.version).restore()
        restored = store.tables.newest(pin.location, table.branch)
        if store.location.is_local:
            uri = store.tables.uri(pin.location, table.branch)
            object_store.sync_files([f"{uri}/{version_file(restored.version)}"], store.location.uri)
        return restored


def _pin_at(store: GraphStore, key: str, location: str, table: TableIntent, handle: LanceTable) -> Pin:
    metadata = manifest.pin_metadata(store.tables.uri(location, table.branch), handle.version, None)
    return Pin(key, location, handle.version, table.branch, handle.count_rows(), metadata)


def _relative(store: GraphStore, path: str) -> str:
    return path.removeprefix(store.location.child(""))


def _draft(merged_parent: str | None) -> CommitDraft:
    return CommitDraft(ids.new_ulid(), ids.RECOVERY_ACTOR, ids.now(), merged_parent, note={"kind": "recovery"})
