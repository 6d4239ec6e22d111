"""The graph of one snapshot as the engine sees it: rows by position and topologies, from the shared cache."""

from __future__ import annotations

from omnigraph.engine.cache import SHARED, Cache
from omnigraph.engine.rows import Rows
from omnigraph.engine.topology import Topology, build_topology, carry_forward
from omnigraph.errors import TypeNotFound
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.manifest import Pin
from omnigraph.storage.reading import TableReader
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


class View:
    """One snapshot, read through one catalog."""

    def __init__(self, store: GraphStore, snapshot: Snapshot, catalog: Catalog, cache: Cache = SHARED) -> None:
        self.catalog = catalog
        self.snapshot = snapshot
        self._store = store
        self._cache = cache

    def nodes(self, type_name: str) -> Rows:
        return self._rows(f"node:{type_name}", ("id",))

    def edges(self, type_name: str) -> Rows:
        return self._rows(f"edge:{type_name}", ("src", "dst"))

    def count(self, table_key: str) -> int:
        """Rows of a table, from the manifest."""
        return self._pin(table_key).row_count

    def reader(self, table_key: str) -> TableReader:
        return TableReader(self._store, self._pin(table_key))

    def topology(self, edge_type: str) -> Topology:
        edge = self.catalog.edges[edge_type]
        edges, sources, targets = self.edges(edge_type), self.nodes(edge.source), self.nodes(edge.target)
        lineage = ("topology", id(edges.space), id(sources.space), id(targets.space))
        version = (edges.reader.pin, sources.reader.pin, targets.reader.pin)

        def make(previous: _Placed | None) -> _Placed:
            topology = None
            if previous is not None and previous.fits(edges):
                topology = carry_forward(previous.topology, edges, sources, targets) if edges.delta else None
                if edges is previous.edges:
                    topology = previous.topology
            if topology is None:
                topology = build_topology(edges, sources, targets)
            return _Placed(topology, edges, (edges.space, sources.space, targets.space))

        return self._cache.get(lineage, version, make).topology

    def _rows(self, table_key: str, columns: tuple[str, ...]) -> Rows:
        pin = self._pin(table_key)
        lineage = ("rows", self._store.location.uri, pin.location, pin.branch)

        def make(previous: Rows | None) -> Rows:
            reader = TableReader(self._store, pin)
            if previous is not None and previous.reader.pin.version < pin.version:
                advanced = previous.advance(reader)
                if advanced is not None:
                    return advanced
            return Rows.read(reader, columns)

        return self._cache.get(lineage, (pin.version, pin.origin), make)

    def _pin(self, table_key: str) -> Pin:
        pin = self.snapshot.pins.get(table_key)
        if pin is None:
            raise TypeNotFound(f"type '{table_key.partition(':')[2]}' does not exist at this version")
        return pin


class _Placed:
    """A topology, the edge rows it was made from, and the positions it speaks of (kept alive with it)."""

    def __init__(self, topology: Topology, edges: Rows, spaces: tuple[object, ...]) -> None:
        self.topology = topology
        self.edges = edges
        self.spaces = spaces

    @property
    def nbytes(self) -> int:
        return self.topology.nbytes

    def fits(self, edges: Rows) -> bool:
        """Whether this is the topology right before the last change of the edges, or of the same edges."""
        return edges is self.edges or edges.previous is self.edges
