"""What a write wants, per type: the rows to put and the ids to remove; and the stored rows that this touches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InputError, TypeNotFound
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.tables.row_lookup import find_rows


class Mode(StrEnum):
    """What putting a row means when its id exists."""

    APPEND = "append"  # a conflict
    MERGE = "merge"  # the row is replaced as a whole
    OVERWRITE = "overwrite"  # every row of the type goes first


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one type.

    Attributes:
        table_key: ``node:<Type>`` or ``edge:<Type>``.
        put: rows with the type's properties as columns; nodes may carry ``id``, edges carry ``src`` and ``dst`` and may
            carry ``id``. Missing nullable properties are null. A table; `Graph.write` takes whatever holds rows.
        remove: ids of rows that go. Ids that do not exist are ignored. Naming an id reads no row, so a table that moved
            is no conflict, unless the write names the state that it was computed from.
        reads_rows: the rows were computed from rows that are there; a change of the table since is a conflict.
        conformed: the rows went through the row rules already and are in the schema of their table.
        has_ids: ``id`` holds the ids that were made of these rows; true of conformed rows anyway.
        fresh_ids: every one of those ids was just made, so none can exist.
    """

    table_key: str
    put: pa.Table | None = None
    mode: Mode = Mode.APPEND
    remove: pa.Array | None = None
    reads_rows: bool = False
    conformed: bool = False
    has_ids: bool = False
    fresh_ids: bool = False

    def depends_on_rows(self, has_base: bool) -> bool:
        """Whether a table that moved is a conflict; ``has_base`` when the caller names the state it looked at."""
        return self.reads_rows or self.mode is Mode.OVERWRITE or (has_base and self.remove is not None)


def type_of(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    """The type behind a table key, or TypeNotFound."""
    found = catalog.by_table_key(table_key)
    if found is None:
        kind, _, name = table_key.partition(":")
        if not name:
            word = "node" if kind in catalog.nodes else "edge" if kind in catalog.edges else None
            hint = f"did you mean '{word}:{kind}'?" if word else "write node:Type or edge:Type"
            raise TypeNotFound(f"'{kind}' is no table of the graph", hint=hint, type=kind)
        raise TypeNotFound(f"unknown {kind} type '{name}'", type=name)
    return found


def require_one_per_type(changes: list[Change]) -> None:
    keys = [change.table_key for change in changes]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated:
        raise InputError(f"'{repeated}' occurs twice in one write", hint="concatenate its rows")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The change of one type, with the stored rows that it touches.

    Attributes:
        rows: final rows to put, each id once; further columns are carried along.
        replaced: stored rows with an id of ``rows`` (`find_rows` layout, edges with ``src``).
        removed: stored rows that go, in the same layout.
    """

    type: NodeType | EdgeType
    change: Change
    rows: pa.Table
    replaced: pa.Table
    removed: pa.Table

    @property
    def overwrites(self) -> bool:
        return self.change.mode is Mode.OVERWRITE and self.change.put is not None

    @property
    def gone_ids(self) -> pa.Array:
        """Ids of stored rows that are not in the table afterwards with their old content."""
        return pa.concat_arrays([id_column(self.replaced), id_column(self.removed)])


def resolve(
    workspace: Workspace, type_: NodeType | EdgeType, change: Change, rows: pa.Table, fresh_ids: bool
) -> Resolved:
    """Look up the stored rows that a change touches.

    Args:
        rows: final rows to put, each id once.
        fresh_ids: no stored row can have an id of ``rows``.
    """
    key = type_.table_key
    if key not in workspace.snapshot.pins:
        raise TypeNotFound(f"type '{type_.name}' does not exist on branch '{workspace.snapshot.branch}'")
    handle = workspace.readable(key)
    extra = ("src",) if isinstance(type_, EdgeType) else ()
    if change.put is not None and change.mode is Mode.OVERWRITE:
        everything = handle.scanner(columns=["id", *extra], with_row_id=True, with_row_address=True).to_table()
        return Resolved(type_, change, rows, everything.slice(0, 0), everything)
    ids = id_column(rows)
    replaced = find_rows(handle, ids.slice(0, 0) if fresh_ids else ids, columns=extra)
    removed = replaced.slice(0, 0)
    if change.remove is not None:
        going = pc.unique(change.remove.cast(pa.string()))
        removed = find_rows(handle, going.filter(pc.invert(pc.is_in(going, value_set=ids))), columns=extra)
    return Resolved(type_, change, rows, replaced, removed)


def last_of_each_id(rows: pa.Table) -> pa.Table:
    """The rows in their order, of repeated ids only the last one."""
    ids = id_column(rows)
    if len(pc.unique(ids)) == len(ids):
        return rows
    positions = pa.table({"id": ids, "row": pa.arange(0, len(ids))})
    last = positions.group_by("id").aggregate([("row", "max")]).column("row_max")
    return rows.take(last.combine_chunks().sort())


def id_column(rows: pa.Table) -> pa.Array:
    return rows.column("id").combine_chunks()
