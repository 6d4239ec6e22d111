"""Phase B for one table: commit its staged transaction and know for certain whether it landed.

Used by the writer that staged it and by the recovery that finishes it. The answer is exactly the next version made by
exactly this transaction, a definite failure, or OutcomeUnknown when the store cannot be asked.
"""

from __future__ import annotations

from dataclasses import replace

import lance

from omnigraph import failpoints
from omnigraph.errors import OutcomeUnknown, RecoveryRequired, StoreUnavailable
from omnigraph.storage import durable, manifest
from omnigraph.storage.commit import redo
from omnigraph.storage.commit.sidecar import TableIntent
from omnigraph.storage.faults import READ_EXCEPTIONS, STORE_EXCEPTIONS, reason
from omnigraph.storage.manifest import Pin
from omnigraph.storage.stage import Staged
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle, version_file


def staged_of(table: TableIntent) -> Staged:
    if table.staged is None:
        raise RecoveryRequired(f"the record of '{table.table_key}' holds no transaction to finish")
    return table.staged


def commit_table(store: GraphStore, location: str, handle: Handle, table: TableIntent) -> Handle:
    """Commit a staged transaction on a handle at the expected version, and sync it."""
    staged = staged_of(table)
    transaction = redo.transaction(staged)
    try:
        committed = lance.LanceDataset.commit(handle, transaction, max_retries=0)
        failpoints.reach("table.lost_ack")
    except STORE_EXCEPTIONS as error:
        committed = _find_committed(handle, table, error)
    if committed.version != table.post_commit_pin:
        raise RecoveryRequired(
            f"a commit to '{table.table_key}' landed as version {committed.version}, not {table.post_commit_pin}: "
            "another program wrote to the table",
            hint="inspect it with repair",
            table_key=table.table_key,
        )
    if store.location.is_local:
        uri = store.tables.uri(location, table.branch)
        durable.sync_files([f"{uri}/{version_file(table.post_commit_pin)}"], store.location.uri)
    return committed


def _find_committed(handle: Handle, table: TableIntent, error: Exception) -> Handle:
    """After a lost acknowledgement the table's history tells whether the commit is there."""
    try:
        landed = handle.checkout_version(handle.latest_version)
        if landed.version > table.expected_version:
            found = landed.read_transaction(landed.version)
            if found is not None and found.uuid == staged_of(table).uuid:
                return landed
    except READ_EXCEPTIONS:
        raise OutcomeUnknown(
            f"a commit to '{table.table_key}' may or may not have happened: the store stopped answering",
            hint="open the graph again; it finishes or drops the write",
        ) from error
    raise StoreUnavailable(f"could not commit to '{table.table_key}': {reason(error)}") from error


def new_pin(store: GraphStore, pin: Pin, table: TableIntent) -> Pin:
    """What the graph shows of a table once its staged transaction is committed."""
    staged = staged_of(table)
    uri = store.tables.uri(pin.location, table.branch)
    return replace(
        pin,
        version=table.post_commit_pin,
        branch=table.branch,
        row_count=staged.rows_after,
        metadata=manifest.pin_metadata(uri, table.post_commit_pin, staged.uuid),
    )
