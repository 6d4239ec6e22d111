"""Checks on what lies around the tables: recovery records and refs of branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph import ids
from omnigraph.errors import CorruptGraph, StorageError
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.record import Sidecar
from omnigraph.storage.faults import panics_as_damage
from omnigraph.storage.lineage import COMMITS_PATH
from omnigraph.storage.recovery import audit
from omnigraph.storage.store import GraphStore
from omnigraph.upkeep.verify.report import Problem

RECORDS = "records"
REFS = "refs"


def pending_records(store: GraphStore) -> list[Problem]:
    """Writes that did not come to their end. A live writer removes its own within moments."""
    found = []
    for operation_id, record in _records(store):
        if isinstance(record, StorageError):
            found.append(Problem(RECORDS, None, None, record.message))
        else:
            tables = ", ".join(table.table_key for table in record.tables) or "no table"
            message = f"the write {operation_id} ({record.kind.value}) of {tables} did not come to its end"
            found.append(Problem(RECORDS, record.branch, None, message))
    return found


def audit_problems(store: GraphStore) -> list[Problem]:
    """Whether the list of recoveries can be read. No write needs it."""
    try:
        audit.recoveries(store.tables)
    except CorruptGraph as error:
        message = f"{error.message}; recoveries go on unrecorded until it is moved away"
        return [Problem(RECORDS, None, None, message, harmless=True)]
    return []


def explained_tables(store: GraphStore) -> set[tuple[str, str]]:
    """Branch and key of the tables that a pending write may have moved."""
    return {
        (record.branch, table.table_key)
        for _, record in _records(store)
        if not isinstance(record, StorageError)
        for table in record.tables
    }


def _records(store: GraphStore) -> Iterator[tuple[str, Sidecar | StorageError]]:
    for operation_id in sidecar.pending(store.objects):
        try:
            record = sidecar.read(store.objects, operation_id)
        except StorageError as error:
            yield operation_id, error
            continue
        if record is not None:
            yield operation_id, record


def unreachable_refs(store: GraphStore, locations: Iterable[str]) -> list[Problem]:
    """Branches of tables that belong to no branch of the graph."""
    refs = store.branch_refs()
    found = []
    if ids.SCHEMA_APPLY_LOCK in {ref.name for ref in refs}:
        message = f"the lock branch '{ids.SCHEMA_APPLY_LOCK}' is left of a schema change by other software"
        found.append(Problem(REFS, None, None, message))
    for location in sorted({*locations, COMMITS_PATH}):
        for name in sorted(_branches(store, location)):
            if not any(ids.is_lineage_of(name, ref.lineage) for ref in refs):
                message = f"{location} has a branch '{name}', and the graph has no branch of that name"
                found.append(Problem(REFS, None, None, message, harmless=True))
    return found


def _branches(store: GraphStore, location: str) -> set[str]:
    """The branches of a table; that it is missing or damaged is said where it is looked for."""
    try:
        with panics_as_damage():
            present = store.tables.newest_or_none(location) is not None
            return set(store.tables.branches(location)) if present else set()
    except CorruptGraph:
        return set()
