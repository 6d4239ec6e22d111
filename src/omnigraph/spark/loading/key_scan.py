"""The tasks that look at keys: the key columns of staged and stored fragments → how often each key is used, and how.

Reads the columns of the rules and nothing else, and sends numbers. A key is sent once per task, with a count. When a
load is small against a table, its keys are looked up there by index instead of reading all of them; the counts are the
same either way. Overwriting needs every stored row; so do tables whose index does not cover them, and `@unique`
columns, which have none unless the schema asks for one. `load_check.py` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.spark.loading.key_spaces import KeyCounts, KeySpace, KeySpaces, KeyUse, suspicious_keys
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import find_rows, is_understood
from omnigraph.storage.tables.table_indexes import missing_parts
from omnigraph.storage.tables.task_staging import StageTable, read_staged, read_stored
from omnigraph.text_hash import TextHashes, hash_texts
from omnigraph.write.change import Mode, type_of
from omnigraph.write.set_rules import tuple_texts

KEY_COUNT = pa.schema(
    [("space", pa.int32()), ("hash", pa.int64()), ("what", pa.int32()), ("count", pa.int64()), ("place", pa.int64())]
)
KEY_COUNT_DDL = "space int, hash long, what int, count long, place long"
SUSPECT = pa.schema([("space", pa.int64()), ("hash", pa.int64()), ("suspicion", pa.int64()), ("place", pa.int64())])
SUSPECT_DDL = "space long, hash long, suspicion long, place long"

_BTREE = "BTREE"
_NOWHERE = np.iinfo(np.int64).max
_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """A fragment of the load.

    Attributes:
        first: place of its first row among the rows of its type.
        dropped: offsets of rows that are left out.
    """

    key: str
    fragment: str
    rows: int
    first: int
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """A fragment of a table as it is."""

    key: str
    fragment: int
    rows: int


@dataclass(frozen=True, slots=True)
class KeyScan:
    """What the tasks that count keys are told.

    Attributes:
        tables: where staged fragments lie, by table key.
        stored: tables as the load finds them.
        loaded: table keys of the load.
    """

    catalog: Catalog
    spaces: KeySpaces
    mode: Mode
    secret: int
    tables: Mapping[str, StageTable]
    stored: Mapping[str, StageTable]
    loaded: frozenset[str] = field(default_factory=frozenset)


def scan_keys(order: KeyScan, tasks: list[list[StagedPiece | StoredPiece]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow` over task numbers."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                key_counts = KeyCounter(order)
                for piece in tasks[task]:
                    key_counts.add(piece)
                yield from key_counts.batches()

    return run


def find_suspects(spaces: KeySpaces) -> Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over counts that are partitioned by key."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches), schema=KEY_COUNT)
        columns = [table.column(name).to_numpy().astype(np.int64, copy=False) for name in KEY_COUNT.names]
        yield pa.RecordBatch.from_pydict(suspicious_keys(spaces, KeyCounts(*columns)), schema=SUSPECT)

    return run


class KeyCounter:
    """The counts of one task."""

    def __init__(self, order: KeyScan) -> None:
        self._order = order
        self._seen: dict[tuple[int, KeyUse], list[tuple[TextHashes, Any, Any]]] = {}
        self._handles: dict[str, Any] = {}

    def add(self, piece: StagedPiece | StoredPiece, replaced: Any = None) -> None:
        """Count the keys of one fragment.

        Args:
            replaced: of a stored one, the mask of rows that the load replaces.
        """
        if isinstance(piece, StagedPiece):
            self._staged(piece)
        else:
            self._stored(piece, replaced)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for (space, what), parts in self._seen.items():
            hashes = np.concatenate([part[0] for part in parts])
            counts, places = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
            if len(parts) > 1:
                hashes, counts, places = _together(hashes, counts, places)
            columns = [np.full(len(hashes), space), hashes, np.full(len(hashes), int(what)), counts, places]
            arrays = [pa.array(each, field.type) for each, field in zip(columns, KEY_COUNT, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=KEY_COUNT)

    def _staged(self, piece: StagedPiece) -> None:
        order, type_ = self._order, type_of(self._order.catalog, piece.key)
        columns = columns_of(order, piece.key, staged=True)
        if not columns:
            return
        rows = read_staged(order.tables[piece.key], piece.fragment, columns)
        places = np.arange(piece.first, piece.first + rows.num_rows)
        if piece.dropped:
            keep = np.ones(rows.num_rows, bool)
            keep[list(piece.dropped)] = False
            rows, places = rows.filter(pa.array(keep)), places[keep]
        ids = order.spaces.ids_of(piece.key)
        if ids is not None:
            self._note(ids, KeyUse.NEW, rows.column("id"), places)
        for space in order.spaces.others_of(piece.key, "unique"):
            self._note(space, KeyUse.NEW, tuple_texts(type_, rows, space.columns), places)
        for space in order.spaces.others_of(piece.key, "card"):
            self._note(space, KeyUse.NEW, rows.column("src"), places)
        if isinstance(type_, EdgeType):
            for column, node in type_.endpoints:
                self._note(order.spaces.ids_of(f"node:{node}"), KeyUse.NEEDED, rows.column(column), places)
        else:
            for space in self._sources(piece.key):
                self._note(space, KeyUse.PRESENT, rows.column("id"), None)

    def _sources(self, key: str) -> list[KeySpace]:
        return [each for each in self._order.spaces.all if each.presence and key == self._source_of(each)]

    def _source_of(self, space: KeySpace) -> str:
        edge = type_of(self._order.catalog, space.key)
        return f"node:{edge.source}" if isinstance(edge, EdgeType) else ""

    def _stored(self, piece: StoredPiece, replaced: Any) -> None:
        columns = columns_of(self._order, piece.key, staged=False)
        if not columns:
            return
        if piece.key not in self._handles:
            self._handles[piece.key] = self._order.stored[piece.key].open()
        rows = read_stored(self._handles[piece.key], piece.fragment, columns)
        self.add_stored(piece.key, rows, replaced(rows) if replaced is not None else None)

    def add_stored(self, key: str, rows: pa.Table, replaced: pa.Array | None) -> None:
        """Count the keys of stored rows, of which at least the columns of the rules are here.

        Args:
            replaced: mask of those that the load replaces; None when it replaces none.
        """
        order, type_ = self._order, type_of(self._order.catalog, key)
        columns = columns_of(order, key, staged=False)
        goes = order.mode is Mode.OVERWRITE and key in order.loaded
        staying = rows if replaced is None else rows.filter(pc.invert(replaced))
        touched = rows if goes else rows.slice(0, 0) if replaced is None else rows.filter(replaced)
        ids = order.spaces.ids_of(key)
        if ids is not None and not goes and "id" in columns:
            self._note(ids, KeyUse.STORED, rows.column("id"), None)
        for space in order.spaces.others_of(key, "unique"):
            if not goes:
                self._note(space, KeyUse.STORED, tuple_texts(type_, staying, space.columns), None)
        for space in order.spaces.others_of(key, "card"):
            if not goes:
                self._note(space, KeyUse.STORED, staying.column("src"), None)
            self._note(space, KeyUse.TOUCHED, touched.column("src"), None)
        if isinstance(type_, EdgeType) and key not in order.loaded:
            for column, node in type_.endpoints:
                if column in columns:
                    self._note(order.spaces.ids_of(f"node:{node}"), KeyUse.NEEDED_BY_STORED, rows.column(column), None)

    def _note(self, space: KeySpace | None, what: KeyUse, texts: Any, places: Any) -> None:
        if space is None or len(texts) == 0:
            return
        array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        encoded = array.dictionary_encode()
        if len(encoded.dictionary) == 0:
            return
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        counts = np.bincount(codes[codes >= 0], minlength=len(encoded.dictionary))
        if places is None:
            first = np.full(len(counts), _NOWHERE)
        else:
            highest = np.maximum.accumulate(codes)
            first = places[codes > np.concatenate([[-1], highest[:-1]])]
        hashes = hash_texts(encoded.dictionary, self._order.secret, space.number)
        self._seen.setdefault((space.number, what), []).append((hashes, counts, first))


def _together(hashes: TextHashes, counts: Any, places: Any) -> tuple[TextHashes, Any, Any]:
    """Each key once."""
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    first = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    return hashes[first], np.add.reduceat(counts[order], first), np.minimum.reduceat(places[order], first)


def columns_of(order: KeyScan, key: str, *, staged: bool) -> list[str]:
    """The columns that the rules read of a table."""
    type_, names = type_of(order.catalog, key), set[str]()
    spaces = order.spaces
    goes = not staged and order.mode is Mode.OVERWRITE and key in order.loaded
    if spaces.ids_of(key) is not None and not goes and (staged or _asks_stored_ids(order, key)):
        names.add("id")
    if staged or (key in order.loaded and not goes):
        names |= {column for space in spaces.others_of(key, "unique") for column in space.columns}
    if key in order.loaded and spaces.others_of(key, "card"):
        names.add("src")
    if (
        staged
        and isinstance(type_, NodeType)
        and any(
            space.presence and type_of(order.catalog, space.key).source == type_.name  # type: ignore[union-attr]
            for space in spaces.all
        )
    ):
        names.add("id")
    if isinstance(type_, EdgeType):
        if staged:
            names |= set(_ENDS)
        elif key not in order.loaded and order.mode is Mode.OVERWRITE:
            names |= {column for column, node in type_.endpoints if f"node:{node}" in order.loaded}
    return sorted(names)


def _asks_stored_ids(order: KeyScan, key: str) -> bool:
    """Whether it matters that an id is stored: it may not be repeated, or an edge of the load may point at it."""
    edges = [type_of(order.catalog, each) for each in order.loaded if each.startswith("edge:")]
    pointed = {f"node:{name}" for edge in edges if isinstance(edge, EdgeType) for name in (edge.source, edge.target)}
    return key in pointed or (order.mode is Mode.APPEND and key in order.loaded)


# Stored keys by index


@dataclass(frozen=True, slots=True)
class IndexLookups:
    """Which columns of a load ask about one stored table.

    Attributes:
        by: stored column → the staged types and columns whose values are looked up in it.
        replaces: rows of the load may take the place of stored ones, which then do not count.
    """

    by: Mapping[str, Sequence[tuple[str, str]]]
    replaces: bool


def lookups_of(order: KeyScan, key: str, *, replaces: bool) -> IndexLookups:
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
    return IndexLookups(by, replaces)


def edges_at(order: KeyScan, node: str) -> list[tuple[str, str]]:
    """Edge types of the load and their ends at a node type."""
    found = []
    for key in sorted(order.loaded):
        type_ = type_of(order.catalog, key)
        if isinstance(type_, EdgeType):
            found += [(key, column) for column, end in type_.endpoints if f"node:{end}" == node]
    return found


def is_looked_up(
    handle: LanceTable, asked: IndexLookups, rows_by_type: Mapping[str, int], stored: Sequence[StoredPiece]
) -> bool:
    """Whether the index knows nearly all of a table, and the load asks for a small part of it."""
    values = [sum(rows_by_type.get(key, 0) for key, _ in sources) for sources in asked.by.values()]
    if not values or max(values) > limits.KEY_TASK_ROWS:
        return False
    return all(is_small_against(handle, column, count, stored) for column, count in zip(asked.by, values, strict=True))


def is_small_against(handle: LanceTable, column: str, values: int, stored: Sequence[StoredPiece]) -> bool:
    """Whether so many values are found by the index of a column without reading much of the table."""
    most = sum(piece.rows for piece in stored) * limits.INDEX_LOOKUP_SHARE
    if values > most or not is_understood(handle.schema.field(column).type):
        return False
    missing = set(missing_parts(handle, column, _BTREE))
    return values + sum(piece.rows for piece in stored if piece.fragment in missing) <= most


def look_up_keys(
    order: KeyScan, tables: Sequence[tuple[str, IndexLookups]], pieces: Sequence[StagedPiece]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow` over numbers of tables: the counts of their rows that have a key of the load."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                key, asked = tables[number]
                key_counts = KeyCounter(order)
                key_counts.add_stored(key, *_found(order, key, asked, pieces))
                yield from key_counts.batches()

    return run


def _found(
    order: KeyScan, key: str, asked: IndexLookups, pieces: Sequence[StagedPiece]
) -> tuple[pa.Table, pa.Array | None]:
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


def _values(order: KeyScan, sources: Sequence[tuple[str, str]], pieces: Sequence[StagedPiece]) -> pa.Array:
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
