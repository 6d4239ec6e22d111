"""Lower bounds of distances that cost less than the distances: which vectors cannot be among the nearest to a query.

`Sketch` measures on a few coordinates: the vectors are turned so that most of their variation lies in the first ones,
and what is left of a vector counts with its length. `Clusters` compares the distances of a query and of a vector to a
centre near the vector: they differ by no more than the distance of the two. Which of them helps depends on the data,
and `best_bounds` tries. Both are right for every query: they only decide how many vectors are left to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.engine.pieces import finished
from omnigraph.engine.position_deltas import Positions

Floats = npt.NDArray[np.float32]
Distances = npt.NDArray[np.float64]

#: Smaller matrices are measured as they are.
_LARGE = 4_000_000

#: One coordinate of a sketch is kept for every so many, and the rows that the turn is chosen from.
_KEPT_SHARE = 8
_SAMPLE = 8_192

#: Vectors of a cluster, those that its centre is found from, the most clusters, and the rounds in which they are found.
_CLUSTER_ROWS = 100
_SEED_ROWS = 8
_MOST_CLUSTERS = 4_096
_ROUNDS = 4

#: Bounds are tried with so many vectors and neighbours. A sketch pays when less than one row in so many is within
#: reach; clusters, which are quicker to look at, pay earlier.
_TRIALS = 6
_TRIED_NEIGHBOURS = 10
_SKETCH_WORTH, _CLUSTERS_WORTH = 64, 16

#: Rows whose distances are computed at once.
_BLOCK = 4_096

#: For more than one row in this many all are looked at, else the rows are gathered first.
_GATHER_SHARE = 4


class LowerBounds(Protocol):
    """Squared distances from below."""

    def look(self, query: Floats, square: float, rows: Positions | None) -> Look:
        """Bounds for a query with this squared length, of all rows or of some."""

    def parts(self) -> Iterator[tuple[object, int]]:
        """What it holds, in bytes."""


@dataclass(frozen=True, slots=True)
class Look:
    """What bounds say about the rows for one query.

    Attributes:
        low: squared distances that are not above the true ones, but for rounding.
        likely: so many rows, or a few more, that are probably near.
    """

    low: Floats
    likely: Callable[[int], Positions]


def smallest(values: Floats, count: int) -> Positions:
    """Where the smallest values are, in any order."""
    return np.argpartition(values, count)[:count] if count < len(values) else np.arange(len(values))


def products(table: Floats, squares: Floats, point: Floats, square: float, rows: Positions | None) -> Floats:
    """Squared distances by inner products, of all rows of a table or of some."""
    if rows is not None and len(rows) * _GATHER_SHARE < len(table):
        table, squares = table[rows], squares[rows]
        rows = None
    found: Floats = table @ (point * np.float32(-2))
    found += squares
    found += np.float32(square)
    return found if rows is None else found[rows]


def squared_distances(vectors: Floats, query: Floats, rows: Positions | None = None) -> Distances:
    """Squared L2 distances with 64 bits, of all vectors or of some."""
    count = len(vectors) if rows is None else len(rows)
    point, found = query.astype(np.float64), np.empty(count)
    for begin in range(0, count, _BLOCK):
        here = slice(begin, min(begin + _BLOCK, count))
        block = (vectors[here] if rows is None else vectors[rows[here]]) - point
        found[here] = np.einsum("ij,ij->i", block, block)
    return found


@dataclass(frozen=True, slots=True)
class Sketch:
    """Bounds from few coordinates.

    Attributes:
        axes: the kept directions, as columns.
        rows: coordinates of each vector along them, and the length of the rest.
        squares: squared lengths of the vectors.
    """

    axes: Floats
    rows: Floats
    squares: Floats

    @staticmethod
    def made(matrix: Floats, squares: Distances) -> Generator[None, None, Sketch]:
        count, size = matrix.shape
        sample = matrix[:: max(1, count // _SAMPLE)].astype(np.float64)
        _, turned = np.linalg.eigh(sample.T @ sample)
        axes = np.ascontiguousarray(turned[:, : -(size // _KEPT_SHARE) : -1], np.float32)
        rows = np.empty((count, axes.shape[1] + 1), np.float32)
        for begin in range(0, count, _SAMPLE):
            yield
            np.matmul(matrix[begin : begin + _SAMPLE], axes, out=rows[begin : begin + _SAMPLE, :-1])
        inside = np.einsum("ij,ij->i", rows[:, :-1], rows[:, :-1], dtype=np.float64)
        rows[:, -1] = np.sqrt(np.maximum(squares - inside, 0))
        return Sketch(axes, rows, squares.astype(np.float32))

    def look(self, query: Floats, square: float, rows: Positions | None) -> Look:
        inside = query @ self.axes
        rest = np.sqrt(max(square - float(inside @ inside), 0.0))
        point = np.append(inside, np.float32(rest)).astype(np.float32)
        low = products(self.rows, self.squares, point, square, rows)
        return Look(low, lambda count: smallest(low, count))

    def parts(self) -> Iterator[tuple[object, int]]:
        yield self.rows, self.rows.nbytes


@dataclass(frozen=True, slots=True)
class Clusters:
    """Bounds from the distances to centres.

    Attributes:
        labels: the centre of each vector.
        radii: its distance to that.
        reach: the largest length of a vector or of a centre.
    """

    centres: Floats
    labels: npt.NDArray[np.uint16]
    radii: Floats
    reach: float

    @staticmethod
    def made(matrix: Floats, coordinates: Floats, wanted: int) -> Generator[None, None, Clusters]:
        """So many clusters of vectors; which ones belong together is decided by a few coordinates of each."""
        count = len(matrix)
        step = max(1, count // (_SEED_ROWS * wanted))
        seeds = yield from _centres(coordinates[::step], wanted)
        labels = yield from _nearest_centres(coordinates, seeds)
        used, labels = np.unique(labels, return_inverse=True)
        centres = _means(matrix, labels, len(used))
        radii = np.empty(count, np.float32)
        for begin in range(0, count, _BLOCK):
            here = slice(begin, begin + _BLOCK)
            apart = matrix[here] - centres[labels[here]]
            radii[here] = np.sqrt(np.einsum("ij,ij->i", apart, apart, dtype=np.float64))
        reach = float(np.sqrt(max(np.einsum("ij,ij->i", each, each).max(initial=0.0) for each in (matrix, centres))))
        return Clusters(centres, labels.astype(np.uint16), radii, reach)

    def look(self, query: Floats, square: float, rows: Positions | None) -> Look:
        labels, radii = (self.labels, self.radii) if rows is None else (self.labels[rows], self.radii[rows])
        apart = self.centres - query
        centre_far = np.sqrt(np.einsum("ij,ij->i", apart, apart))
        # Both distances are sums of `size` terms with 32 bits, and so are the differences that they are made of.
        slack = (self.centres.shape[1] + 16) * np.finfo(np.float32).eps * (self.reach + np.sqrt(square)) * 2
        low = np.maximum(np.abs(centre_far[labels] - radii) - np.float32(slack), np.float32(0))
        np.square(low, out=low)

        def likely(count: int) -> Positions:
            near = np.argsort(centre_far)
            sizes = np.bincount(labels, minlength=len(near))[near]
            chosen = np.zeros(len(near), np.bool_)
            chosen[near[: int(np.searchsorted(np.cumsum(sizes), count)) + 1]] = True
            return np.flatnonzero(chosen[labels])

        return Look(low, likely)

    def parts(self) -> Iterator[tuple[object, int]]:
        yield self.radii, self.radii.nbytes
        yield self.labels, self.labels.nbytes
        yield self.centres, self.centres.nbytes


def best_bounds(matrix: Floats, squares: Distances) -> LowerBounds | None:
    """Bounds that leave few rows to measure, if there are any for these vectors."""
    return finished(bounds_made(matrix, squares))


def bounds_made(matrix: Floats, squares: Distances) -> Generator[None, None, LowerBounds | None]:
    """The same, with pauses."""
    if matrix.size < _LARGE or matrix.shape[1] < 2 * _KEPT_SHARE:
        return None
    sketch = yield from Sketch.made(matrix, squares)
    coordinates = np.ascontiguousarray(sketch.rows[:, :-1])
    wanted = min(max(len(matrix) // _CLUSTER_ROWS, 1), _MOST_CLUSTERS)
    some = slice(None, None, max(1, len(matrix) // (_SEED_ROWS * wanted)))
    trial = yield from Clusters.made(matrix[some], coordinates[some], wanted)
    if _is_worth_it(trial, matrix[some], squares[some], _CLUSTERS_WORTH // 4):
        clusters = yield from Clusters.made(matrix, coordinates, wanted)
        if _is_worth_it(clusters, matrix, squares, _CLUSTERS_WORTH):
            return clusters
    return sketch if _is_worth_it(sketch, matrix, squares, _SKETCH_WORTH) else None


def _is_worth_it(bounds: LowerBounds, matrix: Floats, squares: Distances, share: int) -> bool:
    """Whether few rows are within reach of some vectors of the column itself."""
    left = []
    for number in range(0, len(matrix), -(-len(matrix) // _TRIALS)):
        look = bounds.look(matrix[number], float(squares[number]), None)
        first = look.likely(4 * _TRIED_NEIGHBOURS)
        limit = np.sort(squared_distances(matrix, matrix[number], first))[min(_TRIED_NEIGHBOURS, len(first) - 1)]
        left.append(int((look.low <= limit).sum()))
    return float(np.mean(left)) * share <= len(matrix)


def _centres(points: Floats, wanted: int) -> Generator[None, None, Floats]:
    """Centres of clusters, by Lloyd's rounds from evenly chosen points. An empty cluster gets a point far from all."""
    centres = points[np.linspace(0, len(points) - 1, wanted).astype(np.int64)].copy()
    for _ in range(_ROUNDS):
        labels = yield from _nearest_centres(points, centres)
        sizes = np.bincount(labels, minlength=wanted)
        used = np.flatnonzero(sizes)
        centres[used] = _means(points, np.searchsorted(used, labels), len(used))
        empty = np.flatnonzero(sizes == 0)
        if len(empty):
            apart = points - centres[labels]
            centres[empty] = points[smallest(-np.einsum("ij,ij->i", apart, apart), len(empty))]
    return centres


def _nearest_centres(points: Floats, centres: Floats) -> Generator[None, None, Positions]:
    labels = np.empty(len(points), np.int64)
    half = np.einsum("ij,ij->i", centres, centres) / 2
    for begin in range(0, len(points), _BLOCK):
        yield
        here = slice(begin, begin + _BLOCK)
        labels[here] = (half - points[here] @ centres.T).argmin(axis=1)
    return labels


def _means(vectors: Floats, labels: Positions, count: int) -> Floats:
    """The mean of the vectors of each label; every label occurs."""
    sums = np.zeros((count, vectors.shape[1]))
    for begin in range(0, len(vectors), _BLOCK):
        here = slice(begin, begin + _BLOCK)
        order = np.argsort(labels[here], kind="stable")
        found, begins = np.unique(labels[here][order], return_index=True)
        sums[found] += np.add.reduceat(vectors[here][order], begins, axis=0)
    return np.asarray(sums / np.bincount(labels, minlength=count)[:, None], np.float32)
