"""Topologies on disk, so that a fresh process answers its first traversal without reading every edge.

Derived files beside the tables, made by maintenance: they speak of one version of an edge table and are carried
forward to newer ones like a topology in memory. A file that is missing, old or damaged costs time, never an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.engine.adjacency import Adjacency
from omnigraph.engine.position_deltas import RowIds
from omnigraph.engine.table_rows import TableRows
from omnigraph.engine.topology import DirectedAdjacency, Topology
from omnigraph.errors import StorageError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.objects.array_file import load_arrays, save_arrays
from omnigraph.storage.table_reader import TableReader

_DIRECTORY = "__topology"
_SUFFIX = ".arrays"

#: Files kept per edge table: readers of the previous one may still be opening it.
_KEPT = 2


@dataclass(frozen=True, slots=True)
class StoredTopology:
    """A topology of one version of an edge table, and the row ids that its positions stand for."""

    edges: TableRows
    sources: npt.NDArray[np.uint64]
    targets: npt.NDArray[np.uint64]
    topology: Topology

    def over(self, sources: TableRows, targets: TableRows) -> Topology | None:
        """The topology, if its positions are those of the given nodes."""
        same = _is_prefix(self.sources, sources.row_ids) and _is_prefix(self.targets, targets.row_ids)
        return self.topology if same else None


def find(store: GraphStore, pin: Pin) -> StoredTopology | None:
    """The newest file that is not newer than the pinned version of an edge table."""
    if pin.branch is not None:
        return None
    versions = [version for version in _versions(store, pin) if version <= pin.version]
    if not versions:
        return None
    try:
        header, arrays = load_arrays(store.location, store.objects, _path(pin, versions[-1]))
    except StorageError:
        return None
    if header.get("location") != pin.location or header.get("version") != versions[-1]:
        return None
    past = replace(pin, version=versions[-1], metadata="{}")
    edges = TableRows(TableReader(store, past), RowIds(arrays["edge_row_ids"]))
    out, into = _direction(arrays, "out"), _direction(arrays, "into")
    topology = Topology(out, into, len(arrays["edge_row_ids"]), into.edges[0].nodes)
    return StoredTopology(edges, arrays["source_row_ids"], arrays["target_row_ids"], topology)


def save(store: GraphStore, edges: TableRows, sources: TableRows, targets: TableRows, topology: Topology) -> bool:
    """Write the topology of freshly read tables; False when they are not in a form that a file can hold."""
    whole = not any(rows.is_derived for rows in (edges, sources, targets))
    pin = edges.reader.pin
    if not whole or pin.branch is not None or topology.out.has_parallel_edges:
        return False
    arrays: dict[str, npt.NDArray[Any]] = {
        "edge_row_ids": edges.row_ids.all(),
        "source_row_ids": sources.row_ids.all(),
        "target_row_ids": targets.row_ids.all(),
    }
    for name, direction in (("out", topology.out), ("into", topology.into)):
        layer = direction.edges[0]
        arrays |= {f"{name}_starts": layer.starts, f"{name}_targets": layer.targets, f"{name}_edges": layer.edges}
    save_arrays(store.objects, _path(pin, pin.version), {"location": pin.location, "version": pin.version}, arrays)
    for version in _versions(store, pin)[:-_KEPT]:
        store.objects.delete(_path(pin, version))
    return True


def newest_version(store: GraphStore, pin: Pin) -> int:
    """Version of the newest file of an edge table, 0 when there is none."""
    return max(_versions(store, pin), default=0)


def _versions(store: GraphStore, pin: Pin) -> list[int]:
    names = store.objects.names(_folder(pin))
    return sorted(int(name.removesuffix(_SUFFIX)) for name in names if name.removesuffix(_SUFFIX).isdigit())


def _folder(pin: Pin) -> str:
    return f"{_DIRECTORY}/{pin.location.replace('/', '.')}"


def _path(pin: Pin, version: int) -> str:
    return f"{_folder(pin)}/{version:020d}{_SUFFIX}"


def _direction(arrays: dict[str, Any], name: str) -> DirectedAdjacency:
    layer = Adjacency(arrays[f"{name}_starts"], arrays[f"{name}_targets"], arrays[f"{name}_edges"])
    layers = (layer,)
    return DirectedAdjacency(layers, layers)


def _is_prefix(known: npt.NDArray[np.uint64], rows: RowIds) -> bool:
    return len(known) <= len(rows) and bool(np.array_equal(known, rows.first(len(known))))
