"""The graph of one snapshot as the engine sees it: rows by position and topologies, from the shared cache."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.engine import topology_files
from omnigraph.engine.position_deltas import PositionDelta
from omnigraph.engine.table_rows import TableRows
from omnigraph.engine.topology import Topology, build_topology, carry_forward, ends_are_alive
from omnigraph.engine.topology_files import StoredTopology
from omnigraph.engine.version_cache import SHARED, VersionCache
from omnigraph.errors import HistoricalVersionReclaimed, StorageError, TypeNotFound
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Catalog
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.table_reader import TableReader


class GraphView:
    """One snapshot, read through one catalog. Made for one query: what it found in the cache stays with it."""

    def __init__(
        self, store: GraphStore, snapshot: ManifestSnapshot, catalog: Catalog, cache: VersionCache = SHARED
    ) -> None:
        self.catalog = catalog
        self.snapshot = snapshot
        self._store = store
        self._cache = cache
        self._persisted: dict[str, StoredTopology] = {}
        self._nodes: dict[str, TableRows] = {}
        self._edges: dict[str, TableRows] = {}
        self._topologies: dict[str, Topology] = {}

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

    def keep_topologies(self, at_least: int) -> list[str]:
        """Write the topologies of large edge types that have no file yet; returns their names."""
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
        edge = self.catalog.edges[edge_type]
        edges, sources, targets = self.edges(edge_type), self.nodes(edge.source), self.nodes(edge.target)
        lineage = ("topology", id(edges.space), id(sources.space), id(targets.space))

        def make(previous: _Placed | None) -> _Placed:
            known = previous or self._from_disk(edges, sources, targets)
            deltas = edges.deltas_since(known.edges) if known is not None else None
            topology = None
            if known is not None and deltas is not None:
                topology = _carry(known.topology, deltas, sources, targets)
            is_derived = topology is not None and ends_are_alive(topology, sources, targets)
            if topology is None or not is_derived:
                topology = build_topology(edges, sources, targets)
            return _Placed(topology, edges.mark, (edges.space, sources.space, targets.space), is_derived)

        return self._cache.get(lineage, (edges.mark, sources.mark, targets.mark), make).topology

    def _from_disk(self, edges: TableRows, sources: TableRows, targets: TableRows) -> _Placed | None:
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
            if previous is None and table_key.startswith("edge:"):
                previous = self._rows_on_disk(pin)
            if previous is not None and previous.reader.pin.version == pin.version:
                return previous
            if previous is not None and previous.reader.pin.version < pin.version:
                advanced = previous.advance(reader, columns)
                if advanced is not None:
                    return advanced
            return TableRows.read(reader, columns)

        return self._cache.get(lineage, (pin.version, pin.origin), make)

    def _rows_on_disk(self, pin: Pin) -> TableRows | None:
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


def _carry(topology: Topology, deltas: list[PositionDelta], sources: TableRows, targets: TableRows) -> Topology | None:
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
