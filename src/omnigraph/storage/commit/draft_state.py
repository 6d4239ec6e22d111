"""States that only their maker sees: staged changes laid over a state, without anything that others could meet.

Each changed table becomes a detached version of Lance, one that belongs to no lineage and has no place in any order. A
pin names it as it names every version, so whoever reads a state or prepares a write on one works with it unchanged.
Nothing is synced and nothing is recorded: what a dead process leaves is files that nobody refers to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from omnigraph import ids
from omnigraph.errors import StorageError
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.preparation import PreparedTable
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, pin_metadata, table_version_of


def with_changes(store: GraphStore, state: ManifestSnapshot, tables: Mapping[str, PreparedTable]) -> ManifestSnapshot:
    """A state with the changes that were staged on it."""
    return replace(state, pins={**state.pins, **{key: _detached(store, table) for key, table in tables.items()}})


def _detached(store: GraphStore, table: PreparedTable) -> Pin:
    if table.handle is None:
        raise AssertionError("a draft changes tables that exist")
    pin, staged = table.pin, table.staged
    handle = store.tables.commit_detached(table.handle, sidecar.transaction(staged, ids.new_ulid()))
    witness = pin_metadata(store.tables.uri(pin.location, pin.branch), int(handle.version), staged.uuid)
    made = replace(pin, version=int(handle.version), row_count=staged.rows_after, metadata=witness)
    store.tables.remember(table_version_of(made), handle)
    store.recent_changes.keep(made, pin, staged.pending, handle)
    return made


def forget(store: GraphStore, pins: Iterable[Pin]) -> None:
    """Remove the versions that were made for drafts. What cannot be removed takes space only."""
    for pin in pins:
        with contextlib.suppress(StorageError):
            store.tables.drop_detached(table_version_of(pin))
