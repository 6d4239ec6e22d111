"""Checks on what lies around the tables: schema files, recovery records and refs of branches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from omnigraph import ids
from omnigraph.errors import ConflictError, CorruptGraph, InputError, LimitError, StorageError
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema.contract import IR_FILE, SOURCE_FILE, STATE_FILE, check_files
from omnigraph.schema.ir import catalog_from_ir, ir_hash
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import schema_files
from omnigraph.storage.metadata.commit_log import COMMITS_PATH
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.native_libraries import panics_as_damage
from omnigraph.storage.recovery import audit
from omnigraph.upkeep.verify.report import Problem

SCHEMA = "schema"
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


class SchemaFiles:
    """Reads the schema files once; what a branch is checked against follows from the hash that its head records."""

    def __init__(self, store: GraphStore) -> None:
        self._objects = store.objects
        self._live: Catalog | None = None
        self._live_hash: str | None = None

    def problems(self) -> list[Problem]:
        """Whether the three files belong together and no change was left half done."""
        files = {name: self._objects.read(name) for name in (SOURCE_FILE, IR_FILE, STATE_FILE)}
        found = []
        try:
            compiled = check_files(files)
            self._live, self._live_hash = compiled.catalog, compiled.hash
        except ConflictError as error:
            found.append(Problem(SCHEMA, None, None, error.message))
            self._live, self._live_hash = _from_ir(files[IR_FILE], files[STATE_FILE])
        for name in schema_files.staged(self._objects):
            message = f"{schema_files.staging(name)} is left of a schema change that did not end"
            found.append(Problem(SCHEMA, None, None, message))
        return found

    def catalog_of(self, snapshot: ManifestSnapshot) -> tuple[Catalog | None, Problem | None]:
        """The schema of one state, and what is wrong when it cannot be had."""
        recorded = snapshot.schema
        if recorded is not None and recorded == self._live_hash:
            return self._live, None
        compiled = _compiled(schema_files.kept(self._objects, recorded))
        if compiled is not None and recorded in (None, compiled.hash):
            return compiled.catalog, None
        if recorded is None or self._live_hash is None:
            return self._live, None  # if the files themselves are the problem, that is said already
        message = f"its state has the schema {recorded}, and that is not among the accepted ones"
        return None, Problem(SCHEMA, snapshot.branch, None, message)


def _compiled(text: str | None) -> CompiledSchema | None:
    try:
        return None if text is None else compile_schema(text)
    except (InputError, LimitError):
        return None


def _from_ir(ir: bytes | None, state: bytes | None) -> tuple[Catalog | None, str | None]:
    """The accepted schema from its compiled form, when the source is what is wrong."""
    try:
        compiled, accepted = json.loads(ir or b""), json.loads(state or b"")["schema_ir_hash"]
        if ir_hash(compiled) == accepted:
            return catalog_from_ir(compiled), accepted
    except (ValueError, TypeError, KeyError, StorageError):
        pass
    return None, None
