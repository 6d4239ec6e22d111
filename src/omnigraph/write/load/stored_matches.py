"""Rows of a merge that mean stored rows before the rules see them: edges by their two ends, and columns that stay.

An edge without an id means the stored edge with its ends where ``@unique(src, dst)`` allows only one. With
``columns="keep"`` a row takes from the stored row with its id what the input does not say. Both engines ask the state
that the load began with: this process for the rows that it gathers, a task of Spark for those of its split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.arrow import composite_id
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Catalog, EdgeType, NodeType
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.storage.tables.task_staging import StageTable
from omnigraph.write.arrow_rows import GIVEN
from omnigraph.write.row_rules import end_ids, with_ids

_ENDS = tuple(sorted(ENDPOINT_COLUMNS))  # as `uniques` spells them


@dataclass(frozen=True, slots=True)
class StoredMatches:
    """The tables of one state whose rows a load may mean, by table key.

    Attributes:
        keeps: columns that the input does not have keep their values.
    """

    tables: Mapping[str, StageTable]
    keeps: bool

    @classmethod
    def of(cls, catalog: Catalog, snapshot: ManifestSnapshot, location: Location, keeps: bool) -> StoredMatches | None:
        """Those of a state; None when no row of a load has to be looked up."""
        tables = {}
        types: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
        for type_ in types:
            pin = snapshot.pins.get(type_.table_key)
            if pin is not None and pin.row_count and (keeps or is_known_by_ends(type_)):
                version = TableVersion(pin.location, pin.branch, pin.version)
                tables[type_.table_key] = StageTable(location, version)
        return cls(tables, keeps) if tables or keeps else None

    def complete(self, type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
        """The rows with the ids of the edges they mean, and with the values that stay."""
        table = self.tables.get(type_.table_key)
        if table is not None and rows.num_rows:
            handle = table.open()
            if isinstance(type_, EdgeType) and is_known_by_ends(type_):
                rows = _with_ids_of_ends(handle, type_, rows)
            if self.keeps:
                rows = _with_stored_values(handle, type_, rows)
        return rows


def is_known_by_ends(type_: NodeType | EdgeType) -> bool:
    """Whether two nodes have at most one edge of a type between them."""
    return isinstance(type_, EdgeType) and _ENDS in type_.uniques


def _with_ids_of_ends(handle: LanceTable, edge: EdgeType, rows: pa.Table) -> pa.Table:
    if not set(ENDPOINT_COLUMNS) <= set(rows.column_names):
        return rows
    own = rows.column("id").combine_chunks().cast(pa.string()) if "id" in rows.column_names else None
    found = ids_by_ends(handle, edge, rows, None if own is None else pc.is_null(own))
    if found.null_count == len(found):
        return rows
    return _with(rows, "id", found if own is None else pc.coalesce(own, found))


def ids_by_ends(handle: LanceTable, edge: EdgeType, rows: pa.Table, asked: pa.Array | None = None) -> pa.Array:
    """The ids of the stored edges between the ends of rows, null where there is none.

    Args:
        asked: which rows matter; None for all.
    """
    ends = [end_ids(edge, rows.column(name), name) for name in ENDPOINT_COLUMNS]
    sources = ends[0] if asked is None else ends[0].filter(asked)
    stored = find_rows(handle, pc.unique(sources).drop_null(), ENDPOINT_COLUMNS[0], (ENDPOINT_COLUMNS[1], "id"))
    pairs = composite_id([stored.column(name).combine_chunks() for name in ENDPOINT_COLUMNS])
    return stored.column("id").combine_chunks().take(pc.index_in(composite_id(ends), value_set=pairs))


def _with_stored_values(handle: LanceTable, type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    ids = _ids(type_, rows)
    names = [name for name in _columns(type_) if not _is_given(rows, name)]
    if ids is None or not names:
        return rows
    stored = find_rows(handle, pc.unique(ids).drop_null(), columns=tuple(names))
    at = pc.index_in(ids, value_set=stored.column("id").combine_chunks())
    if at.null_count == len(at):
        return rows
    for name in names:
        given = rows.column(f"{GIVEN}{name}").combine_chunks() if f"{GIVEN}{name}" in rows.column_names else False
        rows = _with(rows, name, _chosen(rows, name, stored.column(name).combine_chunks(), at))
        rows = _with(rows, f"{GIVEN}{name}", pc.or_(given, pc.is_valid(at)))
    return rows


def _ids(type_: NodeType | EdgeType, rows: pa.Table) -> pa.Array | None:
    """The ids by which rows may be stored: of keyed nodes the texts of their keys, of others what they bring."""
    if isinstance(type_, NodeType) and type_.key:
        if not set(type_.key) <= set(rows.column_names):
            return None
        return with_ids(type_, rows, None)[0]
    return rows.column("id").combine_chunks().cast(pa.string()) if "id" in rows.column_names else None


def _columns(type_: NodeType | EdgeType) -> list[str]:
    """What a row may leave out: everything but the key."""
    key = type_.key or () if isinstance(type_, NodeType) else ()
    ends = ENDPOINT_COLUMNS if isinstance(type_, EdgeType) else ()
    return [*ends, *(name for name in type_.properties if name not in key)]


def _is_given(rows: pa.Table, name: str) -> bool:
    """Whether every row says what its value is."""
    given = rows.column(f"{GIVEN}{name}") if f"{GIVEN}{name}" in rows.column_names else None
    return name in rows.column_names and (given is None or bool(pc.all(given).as_py()))


def _chosen(rows: pa.Table, name: str, stored: pa.Array, at: pa.Array) -> pa.Array:
    """The stored value of each row that does not say one and is there, otherwise its own."""
    if name not in rows.column_names:
        return stored.take(at)
    own = rows.column(name).combine_chunks()
    takes_stored = pc.and_(pc.is_valid(at), pc.invert(rows.column(f"{GIVEN}{name}").combine_chunks()))
    positions = np.arange(len(own))
    elsewhere = len(own) + pc.fill_null(at, 0).to_numpy().astype(np.int64)
    chosen = np.where(takes_stored.to_numpy(zero_copy_only=False), elsewhere, positions)
    return pa.concat_arrays([own, stored.cast(own.type)]).take(pa.array(chosen))


def _with(rows: pa.Table, name: str, values: Any) -> pa.Table:
    position = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if position < 0 else rows.set_column(position, name, values)
