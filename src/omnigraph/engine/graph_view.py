"""The graph of one snapshot as the engine sees it: rows by position and topologies, from the shared cache."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.engine.position_deltas import PositionDelta
from omnigraph.engine.table_rows import TableRows
from omnigraph.engine.version_cache import SHARED, VersionCache
from omnigraph.errors import HistoricalVersionReclaimed, StorageError, TypeNotFound
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Catalog
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.table_reader import TableReader
from omnigraph.tokenizer import Tokenizer

if TYPE_CHECKING:
    from omnigraph.engine.search.text_index import TextIndex
    from omnigraph.engine.search.vector_index import VectorIndex
    from omnigraph.engine.topology import Topology
    from omnigraph.engine.topology_files import StoredTopology


class GraphView:
    """One snapshot, read through one catalog. Made for one query: what it found in the cache stays with it."""

    def __init__(
        self,
        store: GraphStore,
        snapshot: ManifestSnapshot,
        catalog: Catalog,
        cache: VersionCache = SHARED,
        budget: ReadBudget = UNBOUNDED,
    ) -> None:
        self._budget = budget
        self.catalog = catalog
        self.snapshot = snapshot
        self._store = store
        self._cache = cache
        self._persisted: dict[str, StoredTopology] = {}
        self._nodes: dict[str, TableRows] = {}
        self._edges: dict[str, TableRows] = {}
        self._topologies: dict[str, Topology] = {}
        self._indexes: dict[tuple[str, str], TextIndex | VectorIndex] = {}

    def nodes(self, type_name: str) -> TableRows:
        found = self._nodes.get(type_name)
        if found is None:
            found = self._nodes[type_name] = self._rows(f"node:{type_name}", ("id",))
        return found

    def edges(self, type_name: str) -> TableRows:
        found = self._edges.get(type_name)
        if found is None:
            found = self._edges[type_name] = self._rows(f"edge:{type_name}", ENDPOINT_COLUMNS)
        return found

    def count(self, table_key: str) -> int:
        """Rows of a table, from the manifest."""
        return self._pin(table_key).row_count

    def reader(self, table_key: str) -> TableReader:
        return TableReader(self._store, self._pin(table_key))

    def topology(self, edge_type: str) -> Topology:
        found = self._topologies.get(edge_type)
        if found is None:
            found = self._topologies[edge_type] = self._topology(edge_type)
        return found

    def text_index(self, type_name: str, name: str) -> TextIndex:
        """The searchable form of a text property of a node type."""
        return self._index(type_name, name)  # type: ignore[return-value]

    def vector_index(self, type_name: str, name: str) -> VectorIndex:
        """The searchable form of a vector property of a node type."""
        return self._index(type_name, name)  # type: ignore[return-value]

    def has_index(self, type_name: str, name: str) -> bool:
        """Whether `text_index` or `vector_index` has something to start from, and so costs little."""
        rows = self.nodes(type_name)
        return self._cache.has(_index_lineage(rows, name, self._tokenizer(type_name, name)), rows.mark)

    def _index(self, type_name: str, name: str) -> TextIndex | VectorIndex:
        found = self._indexes.get((type_name, name))
        if found is None:
            found = self._indexes[type_name, name] = self._made_index(type_name, name)
        return found

    def keep_topologies(self, at_least: int) -> list[str]:
        """Write the topologies of large edge types that have no file yet; returns their names."""
        from omnigraph.engine import topology_files
        from omnigraph.engine.topology import build_topology

        kept = []
        for edge in self.catalog.edges.values():
            pin = self.snapshot.pins.get(edge.table_key)
            if (
                pin is None
                or pin.row_count < at_least
                or topology_files.newest_version(self._store, pin) == pin.version
            ):
                continue
            edges = TableRows.read(self.reader(edge.table_key), ENDPOINT_COLUMNS)
            sources = TableRows.read(self.reader(f"node:{edge.source}"), ("id",))
            targets = TableRows.read(self.reader(f"node:{edge.target}"), ("id",))
            if topology_files.save(self._store, edges, sources, targets, build_topology(edges, sources, targets)):
                kept.append(edge.name)
        return kept

    def _topology(self, edge_type: str) -> Topology:
        from omnigraph.engine.topology import ends_are_alive, topology_made

        edge = self.catalog.edges[edge_type]
        edges, sources, targets = self.edges(edge_type), self.nodes(edge.source), self.nodes(edge.target)
        lineage = ("topology", id(edges.space), id(sources.space), id(targets.space))

        def make(previous: _Placed | None) -> _Placed:
            known = previous or self._earlier(edge_type, edges, sources, targets)
            deltas = edges.deltas_since(known.edges) if known is not None else None
            topology = None
            if known is not None and deltas is not None:
                topology = _carry(known.topology, deltas, sources, targets)
            is_derived = topology is not None and ends_are_alive(topology, sources, targets)
            if topology is None or not is_derived:
                work = (*lineage, edges.mark, sources.mark, targets.mark)
                topology = self._cache.finish(work, lambda: topology_made(edges, sources, targets), self._budget)
            return _Placed(topology, edges.mark, (edges.space, sources.space, targets.space), is_derived)

        return self._cache.get(lineage, (edges.mark, sources.mark, targets.mark), make, self._budget).topology

    def _tokenizer(self, type_name: str, name: str) -> Tokenizer:
        return self.catalog.nodes[type_name].properties[name].tokenizer

    def _made_index(self, type_name: str, name: str) -> TextIndex | VectorIndex:
        rows, tokenizer = self.nodes(type_name), self._tokenizer(type_name, name)

        def make(previous: _PlacedIndex | None) -> _PlacedIndex:
            known = previous or self._earlier_index(type_name, name)
            carried = _carry_index(known, rows, name) if known is not None else None
            work = (lineage, rows.mark)
            index = carried or self._cache.finish(
                work, lambda: index_made(rows, name, tokenizer, self._budget), self._budget
            )
            return _PlacedIndex(index, rows.mark, rows.space, carried is not None)

        lineage = _index_lineage(rows, name, tokenizer)
        return self._cache.get(lineage, rows.mark, make, self._budget).index

    def _earlier_index(self, type_name: str, name: str) -> _PlacedIndex | None:
        """An index of an older version to begin with."""
        return None

    def _earlier(self, edge_type: str, edges: TableRows, sources: TableRows, targets: TableRows) -> _Placed | None:
        """A topology of an older version to begin with: here the one on disk."""
        found = self._persisted.get(edges.reader.pin.location)
        topology = found.over(sources, targets) if found is not None else None
        if found is None or topology is None:
            return None
        return _Placed(topology, found.edges.mark)

    def _rows(self, table_key: str, columns: tuple[str, ...]) -> TableRows:
        pin = self._pin(table_key)
        # A graph made again at the same address, and a branch made again under the same name, repeat version numbers.
        incarnation = self.snapshot.identity if pin.branch is not None else None
        lineage = ("rows", id(self._store), pin.location, pin.branch, incarnation)

        def make(previous: TableRows | None) -> TableRows:
            reader = TableReader(self._store, pin)
            if previous is None and table_key.startswith("edge:") and pin.derived is None:
                previous = self._rows_on_disk(pin)
            if previous is not None and previous.reader.pin.version == pin.version:
                return previous
            if previous is not None and previous.reader.pin.version < pin.version:
                advanced = previous.advance(reader, columns)
                if advanced is not None:
                    return advanced
            return TableRows.read(reader, columns, self._budget)

        return self._cache.get(lineage, (pin.version, pin.origin), make, self._budget)

    def _rows_on_disk(self, pin: Pin) -> TableRows | None:
        from omnigraph.engine import topology_files

        found = topology_files.find(self._store, pin)
        if found is None:
            return None
        self._persisted[pin.location] = found
        return found.edges

    def _pin(self, table_key: str) -> Pin:
        pin = self.snapshot.pins.get(table_key)
        if pin is None:
            raise TypeNotFound(f"type '{table_key.partition(':')[2]}' does not exist at this version")
        return pin


class DraftView(GraphView):
    """A state that nobody else has, over the published one that it was made from.

    Tables that did not change are those of the other view. What is derived from the rest stays in a cache of its own:
    it concerns nobody else, and goes with the draft.

    Attributes:
        used: keys of the tables that were looked at.
    """

    def __init__(self, store: GraphStore, base: GraphView, snapshot: ManifestSnapshot, cache: VersionCache) -> None:
        super().__init__(store, snapshot, base.catalog, cache)
        self._base = base
        self.used: set[str] = set()

    def _is_same(self, *table_keys: str) -> bool:
        published = self._base.snapshot.pins
        return all(self._pin(key) == published[key] for key in table_keys)

    def _topology(self, edge_type: str) -> Topology:
        edge = self.catalog.edges[edge_type]
        if self._is_same(edge.table_key, f"node:{edge.source}", f"node:{edge.target}"):
            return self._base.topology(edge_type)
        return super()._topology(edge_type)

    def _earlier(self, edge_type: str, edges: TableRows, sources: TableRows, targets: TableRows) -> _Placed | None:
        """The published topology, where all positions that it speaks of mean the same here."""
        edge, base = self.catalog.edges[edge_type], self._base
        nodes = ((sources, base.nodes(edge.source)), (targets, base.nodes(edge.target)))
        if any(own.deltas_since(published.mark) is None for own, published in nodes):
            return None
        return _Placed(base.topology(edge_type), base.edges(edge_type).mark)

    def has_index(self, type_name: str, name: str) -> bool:
        return self._base.has_index(type_name, name)

    def _made_index(self, type_name: str, name: str) -> TextIndex | VectorIndex:
        if self._is_same(f"node:{type_name}"):
            return self._base._index(type_name, name)
        return super()._made_index(type_name, name)

    def _earlier_index(self, type_name: str, name: str) -> _PlacedIndex | None:
        published = self._base.nodes(type_name)
        if self.nodes(type_name).deltas_since(published.mark) is None:
            return None
        return _PlacedIndex(self._base._index(type_name, name), published.mark, published.space)

    def _rows(self, table_key: str, columns: tuple[str, ...]) -> TableRows:
        pin = self._pin(table_key)
        if self._is_same(table_key):
            return self._base._rows(table_key, columns)

        def make(previous: TableRows | None) -> TableRows:
            older = previous or self._base._rows(table_key, columns)
            reader = TableReader(self._store, pin)
            return older.advance(reader, columns, aside=previous is None) or TableRows.read(reader, columns)

        return self._cache.get(("rows", pin.location), (pin.version, pin.origin), make)

    def _pin(self, table_key: str) -> Pin:
        self.used.add(table_key)
        return super()._pin(table_key)


def _carry(topology: Topology, deltas: list[PositionDelta], sources: TableRows, targets: TableRows) -> Topology | None:
    from omnigraph.engine.topology import carry_forward

    try:
        return carry_forward(topology, deltas, sources, targets)
    except (HistoricalVersionReclaimed, StorageError):
        return None  # rows of a version in between are not stored any more


class _Placed:
    """A topology, the version of the edges it was made from, and the positions it speaks of (kept alive with it)."""

    def __init__(
        self, topology: Topology, edges: object, spaces: tuple[object, ...] = (), is_derived: bool = False
    ) -> None:
        self.topology = topology
        self.edges = edges
        self.spaces = spaces
        self.is_derived = is_derived

    def parts(self) -> Iterator[tuple[object, int]]:
        return self.topology.parts()


def index_made(
    rows: TableRows, name: str, tokenizer: Tokenizer, budget: ReadBudget = UNBOUNDED
) -> Generator[None, None, TextIndex | VectorIndex]:
    """The searchable form of a column of texts, which a tokenizer takes apart, or of vectors; with pauses."""
    column = rows.passing_column(name, budget)
    if pa.types.is_fixed_size_list(column.type):
        from omnigraph.engine.search.vector_index import VectorIndex

        return (yield from VectorIndex.made(column, rows.alive))
    from omnigraph.engine.search.text_index import TextIndex

    return (yield from TextIndex.made(column, rows.alive, tokenizer))


def _index_lineage(rows: TableRows, name: str, tokenizer: Tokenizer) -> tuple[str, int, str, Tokenizer]:
    return ("index", id(rows.space), name, tokenizer)


def _carry_index(known: _PlacedIndex, rows: TableRows, name: str) -> TextIndex | VectorIndex | None:
    deltas = rows.deltas_since(known.mark)
    try:
        return known.index.carried(deltas, name) if deltas is not None else None
    except (HistoricalVersionReclaimed, StorageError):
        return None  # rows of a version in between are not stored any more


class _PlacedIndex:
    """An index of a column, the version of the rows it was made from, and the positions it speaks of (kept alive)."""

    def __init__(self, index: TextIndex | VectorIndex, mark: object, space: object, is_derived: bool = False) -> None:
        self.index = index
        self.mark = mark
        self.space = space
        self.is_derived = is_derived

    def parts(self) -> Iterator[tuple[object, int]]:
        return self.index.parts()
