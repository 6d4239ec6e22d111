"""Makes a new graph: all of it or nothing.

The manifest is the commit point, written once, so of two inits one makes the graph. Before it, a claim names everything
that is being made. What a failed or killed init left is cleared away on a disk, where a lock of the kernel says that
nobody is late. On an object store it stays: the next init makes its tables beside it, and removes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from omnigraph import failpoints, ids
from omnigraph.errors import AlreadyInitialized, CorruptGraph, OmniGraphError, StorageError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, commit_mirror, manifest, schema_files
from omnigraph.storage.metadata.manifest import Commit, Head, Pin
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.locks import CONTROL, RECOVERY_DIRECTORY
from omnigraph.storage.objects.native_libraries import STORE_EXCEPTIONS, store_errors

_CLAIM = f"{RECOVERY_DIRECTORY}/init.claim"
_OWN_TABLES = (manifest.PATH, commit_log.COMMITS_PATH, commit_log.ACTORS_PATH)


@dataclass(frozen=True, slots=True)
class NewTable:
    table_key: str
    location: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class NewGraph:
    """What a graph starts with: its three schema files, the hash of its schema and its empty tables."""

    source: str
    ir: str
    state: str
    tables: Sequence[NewTable]
    actor: str | None
    schema_hash: str | None = None

    @property
    def files(self) -> dict[str, bytes]:
        return dict(zip(schema_files.FILES, (self.source.encode(), self.ir.encode(), self.state.encode()), strict=True))


def create_graph(store: GraphStore, graph: NewGraph, *, force: bool = False) -> None:
    """Create a graph; raise AlreadyInitialized when one is there.

    Args:
        force: replace schema files that belong to no graph (there is no manifest).
    """
    _prepare_root(store)
    with store.sections.hold(CONTROL):
        claimed = _clear_dead_claim(store)
        _refuse_existing(store, force or claimed)
        graph = _placed(store, graph, claimed)
        genesis = Commit(ids.new_ulid(), ids.MAIN, 1, None, None, graph.actor, ids.now(), note={"kind": "init"})
        claim = json.dumps({"tables": [table.location for table in graph.tables]}).encode()
        store.objects.write(_CLAIM, claim)
        try:
            _write_schema_files(store, graph, force=force, claimed=claimed)
            _create_tables(store, graph)
            _create_manifest(store, graph, genesis)
        except AlreadyInitialized:
            raise
        except (OmniGraphError, OSError) as error:
            if _manifest_exists(store):
                _require_ours(store, genesis, error)
                raise StorageError(f"the graph is initialised, but its last step failed: {error}") from error
            _clear_claim(store, json.loads(claim))
            raise
        if claimed and store.refresh(ids.MAIN).schema == graph.schema_hash:
            schema_files.write(store.objects, {name: content.decode() for name, content in graph.files.items()})
        store.objects.delete(_CLAIM)


def _prepare_root(store: GraphStore) -> None:
    if store.location.is_local:
        with store_errors(f"create {store.location.uri}"):
            Path(store.location.uri).mkdir(parents=True, exist_ok=True)


def _clear_dead_claim(store: GraphStore) -> bool:
    """Whether another init began here and did not come to its end. On a disk it is gone, with what it made."""
    content = store.objects.read(_CLAIM)
    if content is None:
        return False
    if not store.location.is_local:
        return True
    if not _manifest_exists(store):
        try:
            claim = {"tables": [str(location) for location in json.loads(content)["tables"]]}
        except (ValueError, KeyError, TypeError):
            raise CorruptGraph(f"{store.location.child(_CLAIM)} is unreadable", hint="remove it by hand") from None
        _clear_claim(store, claim)
    store.objects.delete(_CLAIM)
    return False


def _clear_claim(store: GraphStore, claim: dict[str, list[str]]) -> None:
    if not store.location.is_local:
        return
    for location in [*claim["tables"], *_OWN_TABLES]:
        store.objects.delete_below(location)
        object_store.forget(store.tables.uri(location))
    for name in schema_files.FILES:
        store.objects.delete(name)
    store.objects.delete(_CLAIM)


def _manifest_exists(store: GraphStore) -> bool:
    return store.tables.newest_or_none(manifest.PATH) is not None


def _refuse_existing(store: GraphStore, force: bool) -> None:
    found = [name for name in schema_files.FILES if store.objects.read(name) is not None]
    if _manifest_exists(store) or (found and not force):
        raise AlreadyInitialized(f"there is a graph at {store.location.uri} already", uri=store.location.uri)


def _placed(store: GraphStore, graph: NewGraph, claimed: bool) -> NewGraph:
    """The graph with a free place for each table. What is there belongs to another init, or to nobody we know.

    Before the claim: what it names may be cleared away, so nothing of anybody else may lie there.
    """
    locations = [table.location for table in graph.tables]
    for location in locations:
        if locations.count(location) > 1:
            raise StorageError(f"two types would share the table {location}", hint="rename one of them")
    occupied = [location for location in [*locations, *_OWN_TABLES] if store.objects.any_below(location)]
    if occupied and not claimed:
        raise StorageError(
            f"{store.tables.uri(occupied[0])} exists and belongs to no graph", hint="choose an empty directory"
        )
    tables = [replace(table, location=_beside(table.location, occupied)) for table in graph.tables]
    return replace(graph, tables=tables)


def _beside(location: str, occupied: list[str]) -> str:
    return ids.new_lineage(location) if location in occupied else location


def _write_schema_files(store: GraphStore, graph: NewGraph, *, force: bool, claimed: bool) -> None:
    """Files of an unfinished init stay until there is a graph; then they get the right content."""
    if graph.schema_hash is not None and not store.location.is_local:  # files of another init are told by it
        schema_files.keep(store.objects, graph.schema_hash, graph.source)
    for name, content in graph.files.items():
        if force:
            store.objects.write(name, content)
        elif store.objects.create(name, content) is None and not claimed:
            raise AlreadyInitialized(f"another init of {store.location.uri} came first", uri=store.location.uri)
        if name == schema_files.SOURCE:
            failpoints.reach("init.after_schema_pg_written")
    failpoints.reach("init.after_schema_contract_written")


def _create_tables(store: GraphStore, graph: NewGraph) -> None:
    for table in graph.tables:
        store.tables.create(table.location, table.schema)
        if store.location.is_local:
            object_store.sync_tree(store.tables.uri(table.location), store.location.uri)
    failpoints.reach("init.after_tables_created")


def _create_manifest(store: GraphStore, graph: NewGraph, genesis: Commit) -> None:
    pins = [
        Pin(
            table.table_key,
            table.location,
            1,
            None,
            0,
            manifest.pin_metadata(store.tables.uri(table.location), 1, None),
        )
        for table in graph.tables
    ]
    rows = [manifest.table_row(pin) for pin in pins]
    rows.append(manifest.head_row(ids.MAIN, Head(genesis.id, None, 0, 1, graph.schema_hash)))
    rows += [manifest.table_version_row(pin) for pin in pins]
    rows.append(manifest.commit_row(genesis))
    try:
        with store_errors("create the manifest"):
            store.tables.write_new(manifest.PATH, manifest.to_arrow(rows))
    except StorageError as error:
        if not _manifest_exists(store):
            raise
        _require_ours(store, genesis, error)
    if store.location.is_local:
        object_store.sync_tree(store.tables.uri(manifest.PATH), store.location.uri)
    failpoints.reach("init.post_manifest_create")
    _fill_in(store, genesis)


def _require_ours(store: GraphStore, genesis: Commit, error: Exception) -> None:
    """There is a manifest: made by us, and its answer was lost, or by another init."""
    first = store.snapshot_at(ids.MAIN, 1)
    if first.head is None or first.head.commit_id != genesis.id:
        raise AlreadyInitialized(f"another init of {store.location.uri} came first", uri=store.location.uri) from error


def _fill_in(store: GraphStore, genesis: Commit) -> None:
    """What other software looks for beside the manifest."""
    try:
        newest = store.tables.newest(manifest.PATH)
        if newest.version == 1:  # otherwise somebody writes to the graph already
            newest.update_config({"table_version_management": "true"})
            store.tables.sync_newest(manifest.PATH)
        store.tables.write_new(commit_log.COMMITS_PATH, commit_mirror.commit_rows([genesis]))
        store.tables.write_new(commit_log.ACTORS_PATH, commit_mirror.actor_rows([genesis]))
    except STORE_EXCEPTIONS as error:
        raise StorageError(f"the graph is initialised, but its commit mirrors are not: {error}") from error
