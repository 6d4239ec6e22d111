"""Phase B for one table: its staged transaction becomes exactly the version it was made for, or nothing that counts.

The version file of a table is written once and never again, so each version is a slot that one transaction takes. A
commit that lands elsewhere, because somebody else was faster, is never shown: what lies above the version that the
graph shows is passed over by `clear_drift`. Used by the writer that staged it and by the recovery that finishes it.
"""

from __future__ import annotations

from enum import Enum, auto

from omnigraph import failpoints, ids
from omnigraph.errors import (
    CorruptGraph,
    InternalError,
    OutcomeUnknown,
    RecoveryRequired,
    StorageError,
    StoreUnavailable,
    UncoveredDrift,
)
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.publish import GraphChange
from omnigraph.storage.commit.sidecar import Sidecar, TableIntent
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.native_libraries import (
    READ_EXCEPTIONS,
    STORE_EXCEPTIONS,
    CommitConflictError,
    reason,
    store_errors,
)
from omnigraph.storage.tables.datasets import maker, version_file
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.stage_rows import StagedTransaction
from omnigraph.storage.tables.version_steps import are_explained, are_ours, stands_as

#: The table could not be looked at.
_LOOK_FAILURES: tuple[type[Exception], ...] = (StorageError, *READ_EXCEPTIONS)


class SlotTaken(Exception):
    """Another transaction has the version that a commit was made for. Nothing of it can be shown any more."""


class Slot(Enum):
    """The version that a staged transaction was made for."""

    FREE = auto()
    OURS = auto()
    TAKEN = auto()


def staged_of(table: TableIntent) -> StagedTransaction:
    if table.staged is None:
        raise RecoveryRequired(f"the record of '{table.table_key}' holds no transaction to finish")
    return table.staged


def location_of(table: TableIntent) -> str:
    if table.location is None:
        raise RecoveryRequired(f"the record of '{table.table_key}' does not say where the table lies")
    return table.location


def slot(newest: LanceTable | None, table: TableIntent) -> Slot:
    """Who has the version that a table of a record is to become."""
    version = newest.version if newest is not None else 0
    if version < table.post_commit_pin:
        return Slot.FREE if version == table.expected_version else Slot.TAKEN
    found = maker(newest, table.post_commit_pin) if newest is not None else None
    return Slot.OURS if found is not None and found.uuid == staged_of(table).uuid else Slot.TAKEN


def clear_drift(store: GraphStore, pin: Pin) -> LanceTable:
    """A table at a version on top of all others with the content that the graph shows.

    Versions above the one that is shown belong to writers that lost their race, or died: if they are ours they will
    never be shown, except by a publish that takes the head away from whoever is here. Nobody need be waited for. Those
    of other software may be passed over if they have the same rows; where even the files are the same, as after an
    index was built, the write goes on from there.

    Raises:
        UncoveredDrift: other software wrote rows.
    """
    newest = store.tables.newest(pin.location, pin.branch)
    if not are_explained(newest, above=pin.version):
        raise UncoveredDrift(pin.table_key, newest.version, pin.version)
    if newest.version < pin.version:
        raise CorruptGraph(
            f"table '{pin.table_key}' is at version {newest.version}, below the {pin.version} that the graph shows",
            hint="restore its directory from a copy",
            table_key=pin.table_key,
        )
    if newest.version == pin.version or _fits(newest, pin.version):
        return newest
    restored = store.tables.restore(newest, pin.version, ids.new_ulid())
    failpoints.reach("recovery.post_drift_restore")
    if not are_explained(restored, above=newest.version):  # what came between the look and the restore
        raise UncoveredDrift(pin.table_key, restored.version, pin.version)
    if store.location.is_local:
        uri = store.tables.uri(pin.location, pin.branch)
        object_store.sync_files([f"{uri}/{version_file(restored.version)}"], store.location.uri)
    return restored


def _fits(newest: LanceTable, shown: int) -> bool:
    """Whether what was staged for the version that is shown can be committed to what other software made of it. A
    segment of an index cannot, once that index is of an older Lance."""
    from omnigraph.storage.tables.table_indexes import older_segments  # most writes meet no other software

    if are_ours(newest, above=shown):
        return False
    with store_errors("look at a table", newest):
        before = newest.checkout_version(shown)
        return stands_as(newest, before) and older_segments(newest) <= older_segments(before)


def commit_table(store: GraphStore, handle: LanceTable | None, table: TableIntent, operation_id: str) -> LanceTable:
    """Commit a staged transaction on a handle at the expected version and sync it. Without a handle, make the table.

    Raises:
        SlotTaken: another transaction was faster.
        StoreUnavailable: it is not there, and the store said no.
        OutcomeUnknown: the store cannot be asked.
    """
    transaction = sidecar.transaction(staged_of(table), operation_id)
    location = location_of(table)
    committed, failure = None, None
    try:
        if handle is None:
            committed = store.tables.create_by(location, transaction)
        else:
            committed = store.tables.commit(handle, transaction)
        failpoints.reach("table.lost_ack")
    except STORE_EXCEPTIONS as error:
        failure = error
    if failure is not None or committed is None or committed.version != table.post_commit_pin:
        committed = _in_slot(store, table, failure)
    if store.location.is_local:
        uri = store.tables.uri(location, table.branch)
        if handle is None:
            object_store.sync_tree(uri, store.location.uri)
        else:
            object_store.sync_files([f"{uri}/{version_file(table.post_commit_pin)}"], store.location.uri)
    return committed


def _in_slot(store: GraphStore, table: TableIntent, failure: Exception | None) -> LanceTable:
    """The version that a commit was made for, if its transaction made it: it landed and its answer was lost, or
    somebody finished it for its writer. Then what its writer did later landed elsewhere and is not shown."""
    try:
        newest = store.tables.newest_or_none(location_of(table), table.branch)
        found = slot(newest, table)
        if found is Slot.OURS and newest is not None:
            at_slot = newest.version == table.post_commit_pin
            return newest if at_slot else newest.checkout_version(table.post_commit_pin)
    except _LOOK_FAILURES as error:
        raise OutcomeUnknown(
            f"a commit to '{table.table_key}' may or may not have happened: the store stopped answering",
            hint="open the graph again; it finishes or drops the write",
        ) from failure or error
    if found is Slot.TAKEN or failure is None or isinstance(failure, CommitConflictError):
        raise SlotTaken(table.table_key) from failure
    raise StoreUnavailable(f"could not commit to '{table.table_key}': {reason(failure)}") from failure


def change_of(store: GraphStore, record: Sidecar) -> GraphChange:
    """The publish that a record announces: the same for its writer and for whoever finishes it."""
    if record.commit is None:
        raise InternalError("a write without a commit")
    return GraphChange(
        commit=record.commit,
        earlier=record.earlier,
        pins=(*(_new_pin(store, table) for table in record.tables), *(pointer.pin for pointer in record.pointers)),
        tombstones=tuple((entry.table_key, entry.version) for entry in record.tombstones),
        expected={table.table_key: table.replaces for table in record.tables}
        | {pointer.pin.table_key: pointer.replaces for pointer in record.pointers}
        | {entry.table_key: entry.replaces for entry in record.tombstones},
        merged_commits=record.merged_commits,
        schema=record.schema.hash if record.schema else record.base_schema,
        digests={table.table_key: staged_of(table).digests for table in record.tables},
    )


def _new_pin(store: GraphStore, table: TableIntent) -> Pin:
    """What the graph shows of a table once its staged transaction is committed."""
    staged, location = staged_of(table), location_of(table)
    uri = store.tables.uri(location, table.branch)
    return Pin(
        table_key=table.table_key,
        location=location,
        version=table.post_commit_pin,
        branch=table.branch,
        row_count=staged.rows_after,
        metadata=manifest.pin_metadata(uri, table.post_commit_pin, staged.uuid),
    )
