"""The task that looks at keys: the key columns of staged and stored fragments → what was seen of each key.

Reads the columns of the rules and nothing else, and sends numbers. A key is sent once per task, with a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.spark.key_rules import Saw, Seen, Space, Spaces, judge
from omnigraph.storage.tables.task_staging import StageTable, read_staged, read_stored
from omnigraph.text_hash import TextHashes, hash_texts
from omnigraph.write.change import Mode, type_of
from omnigraph.write.set_rules import tuple_texts

SIGHTING = pa.schema(
    [("space", pa.int32()), ("hash", pa.int64()), ("what", pa.int32()), ("count", pa.int64()), ("place", pa.int64())]
)
SIGHTING_DDL = "space int, hash long, what int, count long, place long"
SUSPECT = pa.schema([("space", pa.int64()), ("hash", pa.int64()), ("verdict", pa.int64()), ("place", pa.int64())])
SUSPECT_DDL = "space long, hash long, verdict long, place long"

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
class KeyOrder:
    """What the tasks that look at keys are told.

    Attributes:
        tables: where staged fragments lie, by table key.
        stored: tables as the load finds them.
        loaded: table keys of the load.
    """

    catalog: Catalog
    spaces: Spaces
    mode: Mode
    secret: int
    tables: Mapping[str, StageTable]
    stored: Mapping[str, StageTable]
    loaded: frozenset[str] = field(default_factory=frozenset)


def look(order: KeyOrder, tasks: list[list[StagedPiece | StoredPiece]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow` over task numbers."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                sightings = Sightings(order)
                for piece in tasks[task]:
                    sightings.add(piece)
                yield from sightings.batches()

    return run


def judging(spaces: Spaces) -> Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over sightings that are partitioned by key."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches), schema=SIGHTING)
        columns = [table.column(name).to_numpy().astype(np.int64, copy=False) for name in SIGHTING.names]
        yield pa.RecordBatch.from_pydict(judge(spaces, Seen(*columns)), schema=SUSPECT)

    return run


class Sightings:
    """What one task saw."""

    def __init__(self, order: KeyOrder) -> None:
        self._order = order
        self._seen: dict[tuple[int, Saw], list[tuple[TextHashes, Any, Any]]] = {}
        self._handles: dict[str, Any] = {}

    def add(self, piece: StagedPiece | StoredPiece, replaced: Any = None) -> None:
        """Look at one fragment.

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
            arrays = [pa.array(each, field.type) for each, field in zip(columns, SIGHTING, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SIGHTING)

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
            self._note(ids, Saw.NEW, rows.column("id"), places)
        for space in order.spaces.others_of(piece.key, "unique"):
            self._note(space, Saw.NEW, tuple_texts(type_, rows, space.columns), places)
        for space in order.spaces.others_of(piece.key, "card"):
            self._note(space, Saw.NEW, rows.column("src"), places)
        if isinstance(type_, EdgeType):
            for column, node in zip(_ENDS, (type_.source, type_.target), strict=True):
                self._note(order.spaces.ids_of(f"node:{node}"), Saw.NEEDED, rows.column(column), places)
        else:
            for space in self._sources(piece.key):
                self._note(space, Saw.PRESENT, rows.column("id"), None)

    def _sources(self, key: str) -> list[Space]:
        return [each for each in self._order.spaces.all if each.presence and key == self._source_of(each)]

    def _source_of(self, space: Space) -> str:
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
        """Look at stored rows, of which at least the columns of the rules are here.

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
            self._note(ids, Saw.STORED, rows.column("id"), None)
        for space in order.spaces.others_of(key, "unique"):
            if not goes:
                self._note(space, Saw.STORED, tuple_texts(type_, staying, space.columns), None)
        for space in order.spaces.others_of(key, "card"):
            if not goes:
                self._note(space, Saw.STORED, staying.column("src"), None)
            self._note(space, Saw.TOUCHED, touched.column("src"), None)
        if isinstance(type_, EdgeType) and key not in order.loaded:
            for column, node in zip(_ENDS, (type_.source, type_.target), strict=True):
                if column in columns:
                    self._note(order.spaces.ids_of(f"node:{node}"), Saw.NEEDED_BY_STORED, rows.column(column), None)

    def _note(self, space: Space | None, what: Saw, texts: Any, places: Any) -> None:
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


def columns_of(order: KeyOrder, key: str, *, staged: bool) -> list[str]:
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
            ends = zip(_ENDS, (type_.source, type_.target), strict=True)
            names |= {column for column, node in ends if f"node:{node}" in order.loaded}
    return sorted(names)


def _asks_stored_ids(order: KeyOrder, key: str) -> bool:
    """Whether it matters that an id is stored: it may not be repeated, or an edge of the load may point at it."""
    edges = [type_of(order.catalog, each) for each in order.loaded if each.startswith("edge:")]
    pointed = {f"node:{name}" for edge in edges if isinstance(edge, EdgeType) for name in (edge.source, edge.target)}
    return key in pointed or (order.mode is Mode.APPEND and key in order.loaded)
