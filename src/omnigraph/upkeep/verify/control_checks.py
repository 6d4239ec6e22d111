"""Checks on what lies around the tables: schema files, recovery records, tags and refs of branches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from omnigraph import ids
from omnigraph.errors import BranchNotFound, ConflictError, CorruptGraph, StorageError
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.contract import IR_FILE, SOURCE_FILE, STATE_FILE, check_files
from omnigraph.schema.ir import catalog_from_ir, ir_hash
from omnigraph.schema_registry import kept_schema
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.inspect_files import DAMAGE, damage_of
from omnigraph.storage.metadata import reclaimed, schema_files, tag_entries
from omnigraph.storage.metadata.commit_log import COMMITS_PATH
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.metadata.tag_entries import TagEntry
from omnigraph.storage.objects.native_libraries import panics_as_damage
from omnigraph.storage.recovery import audit
from omnigraph.storage.tagged_states import holder_of, tagged_state
from omnigraph.upkeep.verify.report import Problem, lasting

SCHEMA = "schema"
RECORDS = "records"
REFS = "refs"
TAGS = "tags"


def pending_records(store: GraphStore) -> list[Problem]:
    """Writes that did not come to their end. A live writer removes its own within moments."""
    found = []
    for operation_id, record in records(store):
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


def upkeep_problems(store: GraphStore) -> list[Problem]:
    """Whether it can be read which states may be gone."""
    try:
        reclaimed.read(store.objects)
    except CorruptGraph as error:
        return [Problem(RECORDS, None, None, error.message)]
    return []


def explained_tables(store: GraphStore) -> set[tuple[str, str]]:
    """Branch and key of the tables that a pending write may have moved."""
    return {
        (record.branch, table.table_key)
        for _, record in records(store)
        if not isinstance(record, StorageError)
        for table in record.tables
    }


def records(store: GraphStore) -> Iterator[tuple[str, Sidecar | StorageError]]:
    """The recovery records that are there, oldest first; of one that cannot be read, why."""
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


def tag_names(store: GraphStore) -> list[str]:
    """Names that a tag has, had, or is being made with."""
    return [unquote(name.removesuffix(".json")) for name in store.objects.names(tag_entries.DIRECTORY)]


def tag_problems(store: GraphStore, name: str, checked: set[Pin]) -> list[Problem]:
    """Whether the state of a tag can be opened, with every table of it.

    Args:
        checked: tables that other tags have and that can be opened; grows.
    """
    try:
        found = tag_entries.read_tag(store.objects, name)
        if found is None or found[0].state == "deleted":
            return []
        if found[0].state == "making":
            return lasting(lambda: _unfinished_tag(store, name))
        return _unreadable_tag(store, found[0], checked)
    except CorruptGraph as error:
        return [Problem(TAGS, None, None, error.message)]


def _unfinished_tag(store: GraphStore, name: str) -> list[Problem]:
    found = tag_entries.read_tag(store.objects, name)
    if found is None or found[0].state != "making":
        return []
    message = f"tag '{name}' was begun and not finished: make or delete it"
    return [Problem(TAGS, found[0].branch, None, message, harmless=True)]


def _unreadable_tag(store: GraphStore, entry: TagEntry, checked: set[Pin]) -> list[Problem]:
    try:
        holder_of(store, entry)
    except BranchNotFound:
        message = f"tag '{entry.name}' was on branch '{entry.branch}', which is gone: delete it"
        return [Problem(TAGS, None, None, message, harmless=True)]
    table = None
    try:
        for pin in tagged_state(store, entry).pins.values():
            table = pin.table_key
            if pin not in checked:
                store.tables.fresh(table_version_of(pin))
                checked.add(pin)
    except DAMAGE as error:
        message = f"the state of tag '{entry.name}' cannot be opened: {damage_of(error)}"
        return [Problem(TAGS, entry.branch, table, message)]
    return []


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
        kept = kept_schema(self._objects, recorded)
        if kept is not None:
            return kept.catalog, None
        if recorded is None or self._live_hash is None:
            return self._live, None  # if the files themselves are the problem, that is said already
        message = f"its state has the schema {recorded}, and that is not among the accepted ones"
        return None, Problem(SCHEMA, snapshot.branch, None, message)


def _from_ir(ir: bytes | None, state: bytes | None) -> tuple[Catalog | None, str | None]:
    """The accepted schema from its compiled form, when the source is what is wrong."""
    try:
        compiled, accepted = json.loads(ir or b""), json.loads(state or b"")["schema_ir_hash"]
        if ir_hash(compiled) == accepted:
            return catalog_from_ir(compiled), accepted
    except (ValueError, TypeError, KeyError, StorageError):
        pass
    return None, None
