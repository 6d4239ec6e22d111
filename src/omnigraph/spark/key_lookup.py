"""Stored keys by index: when a load is small against a table, its keys are looked up there instead of reading all.

What is seen of a key is the same either way. Overwriting needs every stored row; so do tables whose index does not
cover them, and `@unique` columns, which have none unless the schema asks for one. `load_check.py` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.schema.catalog import EdgeType
from omnigraph.spark.key_task import KeyOrder, Sightings, StagedPiece, StoredPiece, columns_of
from omnigraph.storage.tables.datasets import Handle
from omnigraph.storage.tables.row_lookup import find_rows, is_understood
from omnigraph.storage.tables.table_indexes import missing_parts
from omnigraph.storage.tables.task_staging import read_staged
from omnigraph.write.change import Mode, type_of

_ENDS = ("src", "dst")
_BTREE = "BTREE"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which columns of a load ask about one stored table.

    Attributes:
        by: stored column → the staged types and columns whose values are looked up in it.
        replaces: rows of the load may take the place of stored ones, which then do not count.
    """

    by: Mapping[str, Sequence[tuple[str, str]]]
    replaces: bool


def asked_of(order: KeyOrder, key: str, *, replaces: bool) -> Asked:
    """What a load asks about a stored table.

    Args:
        replaces: whether stored rows may be replaced and a rule counts them.
    """
    by: dict[str, list[tuple[str, str]]] = {}
    if key in order.loaded:
        if replaces or (order.mode is Mode.APPEND and "id" in columns_of(order, key, staged=False)):
            by["id"] = [(key, "id")]
        for space in order.spaces.others_of(key, "unique"):
            by.setdefault(space.columns[0], []).append((key, space.columns[0]))
        if order.spaces.others_of(key, "card"):
            by["src"] = [(key, "src")]
    for edge, column in edges_at(order, key):
        by.setdefault("id", []).append((edge, column))
    return Asked(by, replaces)


def edges_at(order: KeyOrder, node: str) -> list[tuple[str, str]]:
    """Edge types of the load and their ends at a node type."""
    found = []
    for key in sorted(order.loaded):
        type_ = type_of(order.catalog, key)
        if isinstance(type_, EdgeType):
            ends = zip(_ENDS, (type_.source, type_.target), strict=True)
            found += [(key, column) for column, end in ends if f"node:{end}" == node]
    return found


def is_looked_up(handle: Handle, asked: Asked, rows_by_type: Mapping[str, int], stored: Sequence[StoredPiece]) -> bool:
    """Whether the index knows nearly all of a table, and the load asks for a small part of it."""
    values = [sum(rows_by_type.get(key, 0) for key, _ in sources) for sources in asked.by.values()]
    if not values or max(values) > limits.KEY_TASK_ROWS:
        return False
    return all(is_small_against(handle, column, count, stored) for column, count in zip(asked.by, values, strict=True))


def is_small_against(handle: Handle, column: str, values: int, stored: Sequence[StoredPiece]) -> bool:
    """Whether so many values are found by the index of a column without reading much of the table."""
    most = sum(piece.rows for piece in stored) * limits.INDEX_LOOKUP_SHARE
    if values > most or not is_understood(handle.schema.field(column).type):
        return False
    missing = set(missing_parts(handle, column, _BTREE)[0])
    return values + sum(piece.rows for piece in stored if piece.fragment in missing) <= most


def look_up(
    order: KeyOrder, tables: Sequence[tuple[str, Asked]], pieces: Sequence[StagedPiece]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow` over numbers of tables: what is seen of their rows that have a key of the load."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                key, asked = tables[number]
                sightings = Sightings(order)
                sightings.add_stored(key, *_found(order, key, asked, pieces))
                yield from sightings.batches()

    return run


def _found(order: KeyOrder, key: str, asked: Asked, pieces: Sequence[StagedPiece]) -> tuple[pa.Table, pa.Array | None]:
    """Every stored row that has a key of the load, once, and which of them the load replaces."""
    handle = order.stored[key].open()
    columns = tuple(dict.fromkeys(["id", *columns_of(order, key, staged=False)]))
    wanted = {column: _values(order, sources, pieces) for column, sources in asked.by.items()}
    parts = []
    own = pa.array([], pa.string())
    if "id" in wanted:
        parts.append(find_rows(handle, wanted.pop("id"), columns=columns))
    if asked.replaces:
        own = _values(order, [(key, "id")], pieces)
        if "src" in wanted:  # a source that an edge leaves is counted again too
            left = parts[0].filter(pc.is_in(parts[0].column("id"), value_set=own)).column("src").combine_chunks()
            wanted["src"] = pc.unique(pa.concat_arrays([wanted["src"], left]))
    parts += [find_rows(handle, values, column, columns) for column, values in wanted.items()]
    names = [*columns, "_rowid"]
    rows = pa.concat_tables([part.select(names) for part in parts])
    rows = rows.take(pa.array(np.unique(rows.column("_rowid").to_numpy(), return_index=True)[1]))
    return rows, pc.is_in(rows.column("id"), value_set=own).combine_chunks() if asked.replaces else None


def _values(order: KeyOrder, sources: Sequence[tuple[str, str]], pieces: Sequence[StagedPiece]) -> pa.Array:
    """The values of some columns of the load, each once."""
    found = []
    for key, column in sources:
        for piece in pieces:
            if piece.key == key:
                values = read_staged(order.tables[key], piece.fragment, [column]).column(column).combine_chunks()
                found.append(pc.unique(values.take(pa.array(kept_rows(piece, len(values))))))
    return pc.unique(pa.concat_arrays(found)).drop_null() if found else pa.array([], pa.string())


def kept_rows(piece: StagedPiece, rows: int) -> Any:
    """Offsets of the rows of a staged fragment that are not left out."""
    return np.delete(np.arange(rows), list(piece.dropped))
