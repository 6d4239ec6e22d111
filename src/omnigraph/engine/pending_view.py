"""The graph of one snapshot with rows over it that are not written yet: what a statement of a mutation matches.

A row that is replaced keeps its position, new rows follow, removed ones are dead; so a stored topology is carried over
them like over a commit. Nothing of this reaches the shared cache, which knows committed states only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.graph_view import GraphView, index_made
from omnigraph.engine.pieces import finished
from omnigraph.engine.position_deltas import ColumnOverlay, PositionDelta, Positions, one_chunk, take
from omnigraph.engine.search.text_index import TextIndex
from omnigraph.engine.search.vector_index import VectorIndex
from omnigraph.engine.table_rows import TableRows
from omnigraph.engine.topology import Topology, build_topology, carry_forward
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.table_reader import TableChange
from omnigraph.storage.tables.row_lookup import locate

_NO_ROW_IDS = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class UnwrittenRows:
    """What a mutation has done to one table so far: rows in their final image, each id once, and ids that are gone."""

    rows: pa.Table
    removed: pa.Array


class PendingView(GraphView):
    """A snapshot under unwritten rows, by table key."""

    def __init__(
        self,
        workspace: Workspace,
        catalog: Catalog,
        unwritten: Mapping[str, UnwrittenRows],
        budget: ReadBudget = UNBOUNDED,
    ) -> None:
        super().__init__(workspace.store, workspace.snapshot, catalog, budget=budget)
        self._stored = GraphView(workspace.store, workspace.snapshot, catalog, budget=budget)
        self._unwritten = unwritten

    def count(self, table_key: str) -> int:
        new = self._unwritten.get(table_key)
        return self._stored.count(table_key) + (new.rows.num_rows if new is not None else 0)

    def _rows(self, table_key: str, columns: tuple[str, ...]) -> TableRows:
        kind, _, name = table_key.partition(":")
        stored = self._stored.nodes(name) if kind == "node" else self._stored.edges(name)
        new = self._unwritten.get(table_key)
        return stored if new is None else _OverlaidRows(stored, new)

    def has_index(self, type_name: str, name: str) -> bool:
        return self._stored.has_index(type_name, name)

    def _made_index(self, type_name: str, name: str) -> TextIndex | VectorIndex:
        rows, stored = self.nodes(type_name), self._stored._index(type_name, name)
        if not isinstance(rows, _OverlaidRows):
            return stored
        carried = stored.carried([rows.delta], name)
        return carried or finished(index_made(rows, name, self._tokenizer(type_name, name)), self._budget.check)

    def _topology(self, edge_type: str) -> Topology:
        edge = self.catalog.edges[edge_type]
        edges, sources, targets = self.edges(edge_type), self.nodes(edge.source), self.nodes(edge.target)
        stored = self._stored.topology(edge_type)
        deltas = [edges.delta] if isinstance(edges, _OverlaidRows) else []
        return carry_forward(stored, deltas, sources, targets) or build_topology(edges, sources, targets)


class _OverlaidRows(TableRows):
    """Rows of a table under unwritten ones.

    Attributes:
        delta: the unwritten rows as a change of the stored ones.
    """

    def __init__(self, stored: TableRows, new: UnwrittenRows) -> None:
        self.delta = _delta(stored, new)
        fresh = len(self.delta.inserted_source)
        alive = np.ones(len(stored) + fresh, np.bool_)
        if stored.alive is not None:
            alive[: len(stored)] = stored.alive
        alive[self.delta.removed] = False
        super().__init__(stored.reader, stored.row_ids, alive)
        self._live_positions = alive
        self._below = stored
        self._new_ids = self.delta.change.added.column("id").take(pa.array(self.delta.inserted_source))

    def __len__(self) -> int:
        return len(self._below) + len(self._new_ids)

    def column(self, name: str, budget: ReadBudget = UNBOUNDED) -> pa.Array:
        with self._lock:
            if name not in self._columns:
                self._columns[name] = ColumnOverlay(self._below.column(name, budget), name, (self.delta,)).folded()
            return self._columns[name]

    def passing_column(self, name: str, budget: ReadBudget = UNBOUNDED) -> pa.Array:
        return self.column(name, budget)

    def fetches_singly(self, name: str, positions: Positions) -> bool:
        return False

    def values(self, name: str, positions: Positions) -> pa.Array:
        return take(self.column(name), positions)

    def find(self, ids: Iterable[str]) -> Positions:
        wanted = list(ids)
        below = self._below.find(wanted)
        new = pc.is_in(self._new_ids, value_set=pa.array(wanted, pa.string()))
        found: Positions = np.concatenate([below, len(self._below) + np.flatnonzero(new.to_numpy())])
        return found[self._live_positions[found]]

    def locate(self, ids: pa.Array) -> Positions:
        positions = self._below.locate(ids)
        new = np.asarray(pc.index_in(ids, value_set=self._new_ids).fill_null(-1).to_numpy(), np.int64)
        positions = np.where(new >= 0, len(self._below) + new, positions)
        return np.where(self._live_positions[positions], positions, -1)


def _delta(stored: TableRows, new: UnwrittenRows) -> PositionDelta:
    schema = stored.reader.handle.schema
    readable = [name for name in new.rows.column_names if new.rows.schema.field(name).type != pa.large_binary()]
    rows = new.rows.select(readable)
    rows = rows.cast(pa.schema([schema.field(name) for name in readable]))
    places = _positions(stored, one_chunk(rows.column("id")))
    known = places >= 0
    removed = _positions(stored, new.removed)
    change = TableChange(_NO_ROW_IDS, rows, _NO_ROW_IDS, None, int(known.sum()), rows.nbytes)
    return PositionDelta(
        stored.reader,
        len(stored),
        places[known],
        np.flatnonzero(known),
        np.flatnonzero(~known),
        removed[removed >= 0],
        change,
    )


def _positions(stored: TableRows, ids: pa.Array) -> Positions:
    """Where each id is among the stored rows, through the index of the storage; -1 where it is not."""
    there = locate(stored.reader.handle, ids)
    positions = stored.row_ids.find(np.asarray(there.row_ids, np.uint64))
    place = np.asarray(pc.index_in(ids, value_set=there.ids).fill_null(-1).to_numpy(), np.int64)
    return np.where(place >= 0, positions[place], -1) if len(positions) else np.full(len(ids), -1, np.int64)
