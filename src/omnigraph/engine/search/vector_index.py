"""The vectors of one column of one version of a table, ready for exact nearest-neighbour search.

Distances are first computed with 32 bits; only rows that may be among the nearest are measured with 64. Large columns
have lower bounds of distances where those help, and most rows are not measured at all (`vector_bounds.py`). What
commits changed lies beside the large matrix, and rows that it holds in an older form are struck out there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.pieces import finished
from omnigraph.engine.position_deltas import PositionDelta, Positions
from omnigraph.engine.search.vector_bounds import (
    Distances,
    Floats,
    Look,
    LowerBounds,
    bounds_made,
    products,
    smallest,
    squared_distances,
)

#: Above this the squares do not fit into 32 bits with some room.
_LARGEST = 1e30

#: The least rows that the bound of the best is taken from, and the most that are measured with 64 bits at once.
_PILOT = 64
_FEW_ROWS = 256

#: Changed rows lie beside the matrix up to one row in this many, and whatever the size up to so many.
_TAIL_SHARE = 16
_FEW_CHANGES = 4_096


class VectorIndex:
    """One column of vectors by row position."""

    def __init__(self, base: _Matrix, struck: Positions, tail: tuple[Positions, Floats] | None = None) -> None:
        self._base = base
        self._struck = struck
        self._tail = tail

    @staticmethod
    def of(column: pa.Array, alive: npt.NDArray[np.bool_] | None = None) -> VectorIndex:
        return finished(VectorIndex.made(column, alive))

    @staticmethod
    def made(column: pa.Array, alive: npt.NDArray[np.bool_] | None = None) -> Generator[None, None, VectorIndex]:
        """The index of a column, with pauses."""
        matrix, known = _matrix(column)
        if alive is not None:
            known = known & alive
        base = yield from _Matrix.made(matrix, known)
        return VectorIndex(base, np.flatnonzero(~known))

    def parts(self) -> Iterator[tuple[object, int]]:
        yield from self._base.parts()
        yield self._struck, self._struck.nbytes
        if self._tail is not None:
            yield self._tail[1], self._tail[1].nbytes

    def carried(self, deltas: Iterable[PositionDelta], name: str) -> VectorIndex | None:
        """The index after some changes; None when building it anew is cheaper."""
        struck, size = self._struck, self._base.vectors.shape[1]
        positions, vectors = self._tail or (np.zeros(0, np.int64), np.zeros((0, size), np.float32))
        for delta in deltas:
            changed = np.concatenate([delta.written, delta.removed])
            struck = np.union1d(struck, changed[changed < len(self._base.vectors)])
            added, known = _matrix(delta.written_column(name))
            kept = ~np.isin(positions, changed)
            positions = np.concatenate([positions[kept], delta.written[known]])
            vectors = np.concatenate([vectors[kept], added[known]])
        if len(positions) + len(struck) > len(self._struck) + max(_FEW_CHANGES, len(self._base.vectors) // _TAIL_SHARE):
            return None
        order = np.argsort(positions)
        return VectorIndex(self._base, struck, (positions[order], vectors[order]))

    def nearest(self, query: Floats, wanted: int, among: Positions | None = None) -> tuple[Positions, Distances]:
        """At least the nearest rows, with all that are as near as the last of them, ascending, and their distances.

        Args:
            among: only these rows, ascending.
        """
        aside, far = self._aside(query, among)
        rows, distances = self._base.nearest(query, wanted, among, self._struck, far)
        positions, every = np.concatenate([rows, aside]), np.concatenate([distances, far])
        order = np.argsort(positions, kind="stable")
        return positions[order], np.sqrt(every[order])

    def _aside(self, query: Floats, among: Positions | None) -> tuple[Positions, Distances]:
        """Rows beside the matrix and their squared distances."""
        if self._tail is None:
            return np.zeros(0, np.int64), np.zeros(0)
        positions, vectors = self._tail
        if among is not None:
            kept = np.isin(positions, among)
            positions, vectors = positions[kept], vectors[kept]
        return positions, squared_distances(vectors, query)

    def distances(self, query: Floats, positions: Positions) -> Distances:
        """The distances of some rows; not-a-number where there is no vector."""
        found = np.full(len(positions), np.nan)
        here = np.flatnonzero((positions >= 0) & (positions < len(self._base.vectors)))
        here = here[~np.isin(positions[here], self._struck)] if len(self._struck) else here
        found[here] = squared_distances(self._base.vectors, query, positions[here])
        if self._tail is not None and len(self._tail[0]):
            where = np.minimum(np.searchsorted(self._tail[0], positions), len(self._tail[0]) - 1)
            hit = np.flatnonzero(self._tail[0][where] == positions)
            found[hit] = squared_distances(self._tail[1], query, where[hit])
        np.sqrt(found, out=found)
        return found


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Vectors by position; those of rows without one mean nothing.

    Attributes:
        squares: squared lengths.
        largest: the largest of them; infinite when lower bounds cannot be computed.
    """

    vectors: Floats
    squares: Floats
    largest: float
    bounds: LowerBounds | None

    @staticmethod
    def made(vectors: Floats, known: npt.NDArray[np.bool_]) -> Generator[None, None, _Matrix]:
        yield
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        largest = float(squares[known].max(initial=0.0))
        usable = largest < _LARGEST and (known.all() or bool((squares < _LARGEST).all()))
        bounds = (yield from bounds_made(vectors, squares)) if usable else None
        narrow = np.minimum(squares, np.finfo(np.float32).max).astype(np.float32)
        return _Matrix(vectors, narrow, largest if usable else np.inf, bounds)

    def parts(self) -> Iterator[tuple[object, int]]:
        yield self.vectors, self.vectors.nbytes
        yield self.squares, self.squares.nbytes
        if self.bounds is not None:
            yield from self.bounds.parts()

    def nearest(
        self, query: Floats, wanted: int, among: Positions | None, struck: Positions, others: Distances
    ) -> tuple[Positions, Distances]:
        """Rows and squared distances; ``others`` are those of rows elsewhere that compete."""
        rows = among[among < len(self.vectors)] if among is not None else None
        square = float(query.astype(np.float64) @ query)
        if rows is not None and len(struck):
            rows = rows[~np.isin(rows, struck)]
        if not self.largest + square < _LARGEST:
            rows = np.setdiff1d(np.arange(len(self.vectors)), struck) if rows is None else rows
            return rows, squared_distances(self.vectors, query, rows)
        sought = _Sought(query, square, wanted, others)
        if self.bounds is not None:
            rows = self._within_reach(sought, self.bounds, rows, struck)
        if rows is None or len(rows) > _FEW_ROWS:
            rows = self._within_reach(sought, self, rows, struck)
        return rows, squared_distances(self.vectors, query, rows)

    def look(self, query: Floats, square: float, rows: Positions | None) -> Look:
        """The distances themselves, with 32 bits."""
        low = products(self.vectors, self.squares, query, square, rows)
        return Look(low, lambda count: smallest(low, count))

    def _within_reach(
        self, sought: _Sought, bounds: LowerBounds, rows: Positions | None, struck: Positions
    ) -> Positions:
        """Rows that may be among the nearest, of all that are not struck out or of some."""
        look = bounds.look(sought.query, sought.square, rows)
        low = look.low
        if rows is None and len(struck):
            low[struck] = np.inf
        first = look.likely(max(4 * sought.wanted, _PILOT))
        first = first[low[first] < np.inf]
        measured = squared_distances(self.vectors, sought.query, first if rows is None else rows[first])
        near = np.flatnonzero(low <= self._limit(sought, measured))
        return near if rows is None else rows[near]

    def _limit(self, sought: _Sought, measured: Distances) -> float:
        """What bounds must not exceed, given the true squared distances of some rows."""
        reach = np.sort(np.concatenate([measured, sought.others]))
        limit = float(reach[sought.wanted - 1]) if 0 < sought.wanted <= len(reach) else np.inf
        # Bounds and squares are of 32 bits, and so are the coordinates that they come from.
        slack = (2 * self.vectors.shape[1] + 64) * np.finfo(np.float32).eps * (self.largest + sought.square)
        return float(min(limit + slack, np.finfo(np.float32).max))


@dataclass(frozen=True, slots=True)
class _Sought:
    """A query with its squared length, how many of the nearest are wanted, and distances of rows elsewhere."""

    query: Floats
    square: float
    wanted: int
    others: Distances


def _matrix(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A column as rows of numbers, and which rows have a vector."""
    size = column.type.list_size
    values = column.values.slice(column.offset * size, len(column) * size)
    matrix = np.asarray(values.to_numpy(zero_copy_only=False), np.float32).reshape(len(column), size)
    return matrix, np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
