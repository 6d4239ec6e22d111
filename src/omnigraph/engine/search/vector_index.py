"""The vectors of one column of one version of a table, ready for exact nearest-neighbour search.

Distances are first computed with 32 bits; only rows that may be among the nearest are measured with 64. Where it helps,
large columns are measured on a few coordinates before: the vectors are turned so that most of their variation lies in
the first ones, and what is left of a vector counts with its length, which gives a distance that is never above the true
one from an eighth of the memory. What commits changed lies beside the large matrix, and rows that it holds in an older
form are struck out there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.position_deltas import PositionDelta, Positions

Floats = npt.NDArray[np.float32]
Distances = npt.NDArray[np.float64]

#: Matrices of more numbers are measured on a few coordinates first.
_LARGE = 4_000_000

#: One coordinate is kept for every so many, and the rows that the turn is chosen from.
_KEPT_SHARE = 8
_SAMPLE = 8_192

#: The turn is tried with so many vectors and neighbours; it pays when less than one row in so many is within reach.
_TRIALS = 6
_TRIED_NEIGHBOURS = 10
_WORTH_SHARE = 64

#: Above this the squares do not fit into 32 bits with some room.
_LARGEST = 1e30

#: Rows that are measured at once, and the least that the bound of the best is taken from.
_BLOCK = 4_096
_PILOT = 64

#: Changed rows lie beside the matrix up to one row in this many, and whatever the size up to so many.
_TAIL_SHARE = 16
_FEW_CHANGES = 4_096

#: For more than one row in this many the whole matrix is measured, else the rows are gathered first.
_GATHER_SHARE = 4


@dataclass(frozen=True, slots=True)
class _Sketch:
    """Lower bounds of distances.

    Attributes:
        axes: the kept directions, as columns.
        rows: coordinates of each vector along them, and the length of the rest.
    """

    axes: Floats
    rows: Floats

    @staticmethod
    def of(matrix: Floats, squares: Distances) -> _Sketch | None:
        count, size = matrix.shape
        if matrix.size < _LARGE or size < 2 * _KEPT_SHARE:
            return None
        sample = matrix[:: max(1, count // _SAMPLE)].astype(np.float64)
        _, turned = np.linalg.eigh(sample.T @ sample)
        axes = np.ascontiguousarray(turned[:, : -(size // _KEPT_SHARE) : -1], np.float32)
        rows = np.empty((count, axes.shape[1] + 1), np.float32)
        np.matmul(matrix, axes, out=rows[:, :-1])
        inside = np.einsum("ij,ij->i", rows[:, :-1], rows[:, :-1], dtype=np.float64)
        rows[:, -1] = np.sqrt(np.maximum(squares - inside, 0))
        found = _Sketch(axes, rows)
        return found if found._is_worth_it(matrix, squares) else None

    def _is_worth_it(self, matrix: Floats, squares: Distances) -> bool:
        """Whether few rows are within reach of some vectors of the column itself."""
        narrow = squares.astype(np.float32)
        for number in range(0, len(matrix), -(-len(matrix) // _TRIALS)):
            bounds = self.rows @ (self.rows[number] * np.float32(-2)) + narrow + narrow[number]
            first = np.argpartition(bounds, _PILOT)[:_PILOT]
            limit = np.sort(squared_distances(matrix, matrix[number], first))[_TRIED_NEIGHBOURS]
            if int((bounds <= limit).sum()) * _WORTH_SHARE > len(matrix):
                return False
        return True

    def query(self, vector: Floats, square: float) -> Floats:
        """A query in the same coordinates."""
        inside = vector @ self.axes
        rest = np.sqrt(max(square - float(inside @ inside), 0.0))
        return np.append(inside, np.float32(rest)).astype(np.float32)


class VectorIndex:
    """One column of vectors by row position."""

    def __init__(self, base: _Matrix, struck: Positions, tail: tuple[Positions, Floats] | None = None) -> None:
        self._base = base
        self._struck = struck
        self._tail = tail

    @staticmethod
    def of(column: pa.Array, alive: npt.NDArray[np.bool_] | None = None) -> VectorIndex:
        matrix, known = _matrix(column)
        if alive is not None:
            known = known & alive
        return VectorIndex(_Matrix.of(matrix, known), np.flatnonzero(~known))

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
    sketch: _Sketch | None

    @staticmethod
    def of(vectors: Floats, known: npt.NDArray[np.bool_]) -> _Matrix:
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        largest = float(squares[known].max(initial=0.0))
        usable = largest < _LARGEST and (known.all() or bool((squares < _LARGEST).all()))
        sketch = _Sketch.of(vectors, squares) if usable else None
        narrow = np.minimum(squares, np.finfo(np.float32).max).astype(np.float32)
        return _Matrix(vectors, narrow, largest if usable else np.inf, sketch)

    def parts(self) -> Iterator[tuple[object, int]]:
        yield self.vectors, self.vectors.nbytes
        yield self.squares, self.squares.nbytes
        if self.sketch is not None:
            yield self.sketch.rows, self.sketch.rows.nbytes

    def nearest(
        self, query: Floats, wanted: int, among: Positions | None, struck: Positions, others: Distances
    ) -> tuple[Positions, Distances]:
        """Rows and squared distances; ``others`` are those of rows elsewhere that compete."""
        rows = among[among < len(self.vectors)] if among is not None else None
        square = float(query.astype(np.float64) @ query)
        if rows is not None and len(struck):
            rows = rows[~np.isin(rows, struck)]
        if not self.largest + square < _LARGEST:
            every = np.setdiff1d(np.arange(len(self.vectors)), struck) if rows is None else rows
            return every, squared_distances(self.vectors, query, every)
        near = self._within_reach(query, square, rows, struck, others, wanted, self.sketch)
        if self.sketch is not None and len(near) > _BLOCK:  # the bounds are too low to be of use
            near = self._within_reach(query, square, rows, struck, others, wanted, None)
        chosen = near if rows is None else rows[near]
        return chosen, squared_distances(self.vectors, query, chosen)

    def _within_reach(
        self,
        query: Floats,
        square: float,
        rows: Positions | None,
        struck: Positions,
        others: Distances,
        wanted: int,
        sketch: _Sketch | None,
    ) -> Positions:
        """Places of the rows that may be among the nearest, by bounds of their distances."""
        bounds = self._bounds(query, square, rows, sketch)
        if rows is None and len(struck):
            bounds[struck] = np.inf
        pilot = max(4 * wanted, _PILOT)
        if pilot >= len(bounds):
            return np.flatnonzero(bounds < np.inf)
        first = np.argpartition(bounds, pilot)[:pilot]
        first = first[bounds[first] < np.inf]
        measured = squared_distances(self.vectors, query, first if rows is None else rows[first])
        reach = np.sort(np.concatenate([measured, others]))
        limit = float(reach[wanted - 1]) if 0 < wanted <= len(reach) else np.inf
        # Bounds and squares are of 32 bits, and so are the coordinates that they come from.
        slack = (2 * self.vectors.shape[1] + 64) * np.finfo(np.float32).eps * (self.largest + square)
        return np.flatnonzero(bounds <= min(limit + slack, np.finfo(np.float32).max))

    def _bounds(self, query: Floats, square: float, rows: Positions | None, sketch: _Sketch | None) -> Floats:
        """Squared distances that are not above the true ones, but for rounding."""
        table, point = self.vectors, query
        if sketch is not None:
            table, point = sketch.rows, sketch.query(query, square)
        squares = self.squares
        if rows is not None and len(rows) * _GATHER_SHARE < len(table):
            table, squares = table[rows], squares[rows]
            rows = None
        bounds = table @ (point * np.float32(-2))
        bounds += squares
        bounds += np.float32(square)
        return bounds if rows is None else bounds[rows]


def squared_distances(vectors: Floats, query: Floats, rows: Positions | None = None) -> Distances:
    """Squared L2 distances with 64 bits, of all vectors or of some."""
    count = len(vectors) if rows is None else len(rows)
    point, found = query.astype(np.float64), np.empty(count)
    for begin in range(0, count, _BLOCK):
        here = slice(begin, min(begin + _BLOCK, count))
        block = (vectors[here] if rows is None else vectors[rows[here]]) - point
        found[here] = np.einsum("ij,ij->i", block, block)
    return found


def _matrix(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A column as rows of numbers, and which rows have a vector."""
    size = column.type.list_size
    values = column.values.slice(column.offset * size, len(column) * size)
    matrix = np.asarray(values.to_numpy(zero_copy_only=False), np.float32).reshape(len(column), size)
    return matrix, np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
