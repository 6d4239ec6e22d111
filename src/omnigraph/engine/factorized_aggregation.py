"""Factorized aggregation over a tree pattern, in the manner of Yannakakis: no binding is listed.

Every variable gets a vector of weights over its table: in how many ways the part of the pattern below it matches. A
parent's weight is the product of the sums over its neighbours, so the work follows the edges once, not the paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.engine.adjacency import Adjacency, degrees
from omnigraph.engine.evaluate import matching_rows
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.node_scan import candidates, candidates_among
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.topology import DirectedAdjacency
from omnigraph.query.plan.logical_plan import TreeEdge, TreeNode
from omnigraph.query.typed import Variable

Weights: TypeAlias = npt.NDArray[Any]  # int64, or float64 once values are summed

#: A message travels from the few marked nodes while they have less than this share of all edges.
_SPARSE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Factor:
    """Extra weights at one variable: the values that a sum adds up, or a mark for counted ones."""

    variable: Variable
    weights: Weights


def matches(context: ExecutionContext, root: TreeNode) -> tuple[Positions, Weights]:
    """The rows of the root's table that match, and in how many ways each does."""
    vector = _weights(context, root, None)
    if not isinstance(vector, _Sparse):
        dense = _dense(vector, len(context.rows(root.variable)))
        positions = np.flatnonzero(dense)
        return positions, dense[positions]
    if vector.weights.all():
        return vector.positions, vector.weights
    found = np.flatnonzero(vector.weights)
    return vector.positions[found], vector.weights[found]


def weigh(context: ExecutionContext, root: TreeNode, factor: Factor) -> Weights:
    """For each row of the root's table the number of matches, times the factor."""
    return _dense(_weights(context, root, factor), len(context.rows(root.variable)))


@dataclass(frozen=True, slots=True)
class _Sparse:
    """Weights that are zero except at some positions, which ascend."""

    positions: Positions
    weights: Weights


@dataclass(frozen=True, slots=True)
class _Ones:
    """Weight one everywhere (at every live row)."""


_Vector: TypeAlias = Weights | _Sparse | _Ones


def _weights(
    context: ExecutionContext, node: TreeNode, factor: Factor | None, among: Positions | None = None
) -> _Vector:
    """Weights of a variable; only those at some positions if no others matter."""
    context.budget.check()
    rows = context.rows(node.variable)
    own = factor if factor is not None and factor.variable == node.variable else None
    vector: _Vector = _Ones()
    if among is not None:
        among = candidates_among(context, node.variable, node.predicates, among)
        vector = _Sparse(among, np.ones(len(among), np.int64))
    elif node.predicates or rows.alive is not None:
        positions = _ascending(candidates(context, node.variable, node.predicates))
        vector = _Sparse(positions, np.ones(len(positions), np.int64))
    for branch in node.branches:
        vector = _joined(context, branch, factor, vector)
        if isinstance(vector, _Sparse) and len(vector.positions) == 0:
            return vector
    if own is not None:
        vector = _times(vector, own.weights)
    return vector


def _ascending(positions: Positions) -> Positions:
    """Rows that were asked for by their ids come in the order of the ids."""
    return positions if bool((positions[1:] > positions[:-1]).all()) else np.sort(positions)


def _joined(context: ExecutionContext, branch: TreeEdge, factor: Factor | None, parents: _Vector) -> _Vector:
    """The weights of parents, times the sum of the weights of their neighbours."""
    topology = context.view.topology(branch.traversal.edge_type)
    down, up = (topology.out, topology.into) if branch.forward else (topology.into, topology.out)
    layers = down.pairs if branch.traversal.edge is None else down.edges
    if isinstance(parents, _Sparse) and not branch.edge_predicates and _is_near(layers, parents.positions):
        return _pulled(context, branch, factor, parents, layers)
    return _times(parents, _message(context, branch, factor, down, up))


def _message(
    context: ExecutionContext, branch: TreeEdge, factor: Factor | None, down: DirectedAdjacency, up: DirectedAdjacency
) -> _Vector:
    """For each row of the parent the sum of the weights of its neighbours."""
    parents = context.view.catalog.edges[branch.traversal.edge_type]
    count = len(context.view.nodes(parents.source if branch.forward else parents.target))
    child = _weights(context, branch.node, factor)
    edge = branch.traversal.edge
    if edge is not None and branch.edge_predicates:
        return _sum_edges(down, child, matching_rows(context, branch.edge_predicates, edge, None), count)
    layers_down, layers_up = (down.pairs, up.pairs) if edge is None else (down.edges, up.edges)
    if isinstance(child, _Ones):
        return degrees(layers_down, count)
    if isinstance(child, _Sparse) and _is_near(layers_up, child.positions):
        return _push(layers_up, child, count)
    weights = _dense(child, max(layer.nodes for layer in layers_up))
    sums = _sum_neighbours(layers_down[0], weights, count)
    for layer in layers_down[1:]:
        sums += _sum_neighbours(layer, weights, count)
    return sums


def _is_near(layers: tuple[Adjacency, ...], positions: Positions) -> bool:
    """Whether few edges leave some nodes, compared with all edges."""
    return sum(layer.reach(positions) for layer in layers) < _SPARSE_SHARE * sum(len(layer.targets) for layer in layers)


def _top(positions: npt.NDArray[Any]) -> int:
    return int(positions.max()) + 1 if len(positions) else 0


def _pulled(
    context: ExecutionContext, branch: TreeEdge, factor: Factor | None, parents: _Sparse, layers: tuple[Adjacency, ...]
) -> _Sparse:
    """Visit the neighbours of few parents, and weigh only those."""
    found = [(rows, layer.targets[entries]) for layer in layers for rows, entries in [layer.expand(parents.positions)]]
    rows, targets = found[0] if len(found) == 1 else (np.concatenate(parts) for parts in zip(*found, strict=True))
    child = _weights(context, branch.node, factor, np.unique(targets).astype(np.int64))
    assert isinstance(child, _Sparse)
    if len(child.positions) == 0:
        return _Sparse(parents.positions[:0], parents.weights[:0])
    where = np.minimum(np.searchsorted(child.positions, targets), len(child.positions) - 1)
    hits = child.positions[where] == targets
    total = _tally(rows[hits], child.weights[where[hits]], len(parents.positions))
    kept = np.flatnonzero(total)
    return _Sparse(parents.positions[kept], parents.weights[kept] * total[kept])


def _push(layers: tuple[Adjacency, ...], child: _Sparse, count: int) -> _Vector:
    """Visit the parents of few children."""
    reached: list[Positions] = []
    weights: list[Weights] = []
    for layer in layers:
        rows, entries = layer.expand(child.positions)
        reached.append(layer.targets[entries].astype(np.int64))
        weights.append(child.weights[rows])
    parents, sums = np.concatenate(reached), np.concatenate(weights)
    if len(parents) * 8 < count:
        unique, inverse = np.unique(parents, return_inverse=True)
        return _Sparse(unique, _tally(inverse, sums, len(unique)))
    return _tally(parents, sums, count)


def _sum_neighbours(layer: Adjacency, weights: Weights, count: int) -> Weights:
    """Sum the weights over each node's slice of the neighbours."""
    if len(layer.targets) == 0:
        return np.zeros(count, weights.dtype)
    values = weights[layer.targets]
    if layer.holes is not None:
        values[layer.holes] = 0
    sums = np.zeros(max(count, layer.nodes), weights.dtype)
    nodes, starts = layer.filled()
    sums[nodes] = np.add.reduceat(values, starts)
    return sums[:count]


def _sum_edges(down: DirectedAdjacency, child: _Vector, passing: npt.NDArray[np.bool_], count: int) -> Weights:
    """As `_sum_neighbours`, over the edge rows that satisfy the conditions on their variable."""
    total: Weights = np.zeros(count, np.int64)
    for layer in down.edges:
        kept = layer.without(passing[layer.edges])
        width = max(_top(kept.targets.astype(np.int64)), _size_of(child))
        total = total + _sum_neighbours(kept, _dense(child, width), count)
    return total


def _tally(groups: Positions, weights: Weights, count: int) -> Weights:
    if weights.dtype == np.int64 and len(weights) and int(weights.max()) == int(weights.min()) == 1:
        return np.bincount(groups, minlength=count)
    if weights.dtype == np.float64:
        return np.bincount(groups, weights=weights, minlength=count)
    total = np.zeros(count, np.int64)
    np.add.at(total, groups, weights)
    return total


def _times(left: _Vector, right: _Vector) -> _Vector:
    if isinstance(left, _Ones):
        return right
    if isinstance(right, _Ones):
        return left
    if isinstance(left, _Sparse) and isinstance(right, _Sparse):
        common, at_left, at_right = np.intersect1d(left.positions, right.positions, return_indices=True)
        return _Sparse(common, left.weights[at_left] * right.weights[at_right])
    if isinstance(right, _Sparse):
        left, right = right, left
    if isinstance(left, _Sparse):
        return _Sparse(left.positions, left.weights * _dense(right, _top(left.positions))[left.positions])
    size = max(_size_of(left), _size_of(right))
    return _dense(left, size) * _dense(right, size)


def _size_of(vector: _Vector) -> int:
    if isinstance(vector, _Sparse):
        return _top(vector.positions)
    return 0 if isinstance(vector, _Ones) else len(vector)


def _dense(vector: _Vector, size: int) -> Weights:
    if isinstance(vector, _Ones):
        return np.ones(size, np.int64)
    if isinstance(vector, _Sparse):
        dense = np.zeros(max(size, _top(vector.positions)), vector.weights.dtype)
        dense[vector.positions] = vector.weights
        return dense
    return vector if len(vector) >= size else np.pad(vector, (0, size - len(vector)))
