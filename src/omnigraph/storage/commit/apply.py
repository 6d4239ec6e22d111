"""Phase B for one table: commit its staged transaction and know for certain whether it landed.

Used by the writer that staged it and by the recovery that finishes it. The answer is exactly the next version made by
exactly this transaction, a definite failure, or OutcomeUnknown when the store cannot be asked.
"""

from __future__ import annotations

import lance

from omnigraph import failpoints
from omnigraph.errors import InternalError, OutcomeUnknown, RecoveryRequired, StorageError, StoreUnavailable
from omnigraph.storage import durable, manifest
from omnigraph.storage.commit import redo
from omnigraph.storage.commit.publish import GraphChange
from omnigraph.storage.commit.record import Sidecar, TableIntent
from omnigraph.storage.faults import READ_EXCEPTIONS, STORE_EXCEPTIONS, reason
from omnigraph.storage.manifest import Pin
from omnigraph.storage.stage import Staged
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle, version_file

#: The table could not be looked at.
_LOOK_FAILURES: tuple[type[Exception], ...] = (StorageError, *READ_EXCEPTIONS)


def staged_of(table: TableIntent) -> Staged:
    if table.staged is None:
        raise RecoveryRequired(f"the record of '{table.table_key}' holds no transaction to finish")
    return table.staged


def location_of(table: TableIntent) -> str:
    if table.location is None:
        raise RecoveryRequired(f"the record of '{table.table_key}' does not say where the table lies")
    return table.location


def commit_table(store: GraphStore, handle: Handle | None, table: TableIntent) -> Handle:
    """Commit a staged transaction on a handle at the expected version and sync it. Without a handle, make the table."""
    transaction = redo.transaction(staged_of(table))
    location = location_of(table)
    try:
        if handle is None:
            committed = store.tables.create_by(location, transaction)
        else:
            committed = lance.LanceDataset.commit(handle, transaction, max_retries=0)
        failpoints.reach("table.lost_ack")
    except STORE_EXCEPTIONS as error:
        committed = _find_committed(store, handle, table, error)
    if committed.version != table.post_commit_pin:
        raise RecoveryRequired(
            f"a commit to '{table.table_key}' landed as version {committed.version}, not {table.post_commit_pin}: "
            "another program wrote to the table",
            hint="inspect it with repair",
            table_key=table.table_key,
        )
    if store.location.is_local:
        uri = store.tables.uri(location, table.branch)
        if handle is None:
            durable.sync_tree(uri, store.location.uri)
        else:
            durable.sync_files([f"{uri}/{version_file(table.post_commit_pin)}"], store.location.uri)
    return committed


def _find_committed(store: GraphStore, handle: Handle | None, table: TableIntent, error: Exception) -> Handle:
    """After a lost acknowledgement the table's history tells whether the commit is there."""
    try:
        if handle is None:
            landed = store.tables.newest_or_none(location_of(table))
        else:
            landed = handle.checkout_version(handle.latest_version)
        if landed is not None and landed.version > table.expected_version:
            found = landed.read_transaction(landed.version)
            if found is not None and found.uuid == staged_of(table).uuid:
                return landed
    except _LOOK_FAILURES:
        raise OutcomeUnknown(
            f"a commit to '{table.table_key}' may or may not have happened: the store stopped answering",
            hint="open the graph again; it finishes or drops the write",
        ) from error
    raise StoreUnavailable(f"could not commit to '{table.table_key}': {reason(error)}") from error


def change_of(store: GraphStore, record: Sidecar) -> GraphChange:
    """The publish that a record announces: the same for its writer and for whoever finishes it."""
    if record.commit is None:
        raise InternalError("a write without a commit")
    return GraphChange(
        commit=record.commit,
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
