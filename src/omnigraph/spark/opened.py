"""What jobs need of an open graph: its storage, one pinned state, and descriptions that may travel to executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from omnigraph import ids
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.graph import Graph
from omnigraph.history.control import known_branch
from omnigraph.history.resolve import At, snapshot_at
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.fragments import TableAt
from omnigraph.storage.location import Location
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


@dataclass(frozen=True, slots=True)
class Pinned:
    """One state of a graph. Whatever a job reads of it, on whatever machine, is of this state."""

    location: Location
    snapshot: Snapshot

    def table(self, type_name: str) -> TableAt:
        """The table of a type, named with or without ``node:`` or ``edge:``."""
        pins = self.snapshot.pins
        keys = [type_name] if ":" in type_name else [f"node:{type_name}", f"edge:{type_name}"]
        pin = next((pins[key] for key in keys if key in pins), None)
        if pin is None:
            raise TypeNotFound(f"type '{type_name}' does not exist at this version", type=type_name)
        return TableAt(self.location, pin)

    def count(self, table_key: str) -> int:
        """Rows of a table; free, the manifest knows it."""
        pin = self.snapshot.pins.get(table_key)
        return pin.row_count if pin else 0


def pinned(graph: Graph, branch: str = ids.MAIN, at: At | None = None) -> Pinned:
    """The state of a branch now, or at a commit, a version or a time."""
    internals = graph.internals
    return Pinned(internals.store.location, internals.snapshot(branch, at))


def pinned_in(store: GraphStore, branch: str, at: At | None) -> Pinned:
    return Pinned(store.location, snapshot_at(store, known_branch(branch), at))


def catalog_of(graph: Graph, state: Pinned) -> Catalog:
    """The schema that a state was written with."""
    return graph.internals.catalog_of(state.snapshot)


def chosen_columns(table: TableAt, columns: Sequence[str] | None) -> list[str]:
    """Names of the columns to read; all of them when none are named."""
    known = list(table.schema.names)
    if columns is None:
        return known
    for name in columns:
        if name not in known:
            raise InputError(f"'{table.pin.table_key}' has no column '{name}'", hint=f"it has {', '.join(known)}")
        if list(columns).count(name) > 1:
            raise InputError(f"column '{name}' is named twice")
    if not columns:
        raise InputError("name at least one column")
    return list(columns)


def moment(text: str) -> At:
    """A moment as an option of Spark spells it: a version, a commit id, or a time in ISO 8601."""
    if ids.is_ulid(text):
        return text
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return time if time.tzinfo else time.replace(tzinfo=UTC)
