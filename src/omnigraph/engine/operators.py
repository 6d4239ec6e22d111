"""Runs the operators of a plan: each turns one binding table into the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import matching, matching_rows
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.node_scan import candidates
from omnigraph.engine.position_deltas import Positions
from omnigraph.query.plan.logical_plan import (
    AntiJoin,
    Distinct,
    Expand,
    ExpandDistinct,
    ExpandInto,
    Filter,
    NodeScan,
    OptionalMatch,
    RankedScan,
    Step,
)
from omnigraph.query.typed import EdgeReading, Predicate, Traversal, Variable

if TYPE_CHECKING:
    from omnigraph.engine.topology import DirectedAdjacency, Topology

#: Testing predicates on the whole table pays once the rows to test are more than this share of it.
_WHOLE_TABLE = 0.25


def run_steps(context: ExecutionContext, steps: tuple[Step, ...], start: BindingTable) -> BindingTable:
    bindings = start
    for step in steps:
        began = time.perf_counter()
        context.budget.check()
        bindings = run_step(context, step, bindings)
        if context.trace is not None:
            context.trace.finished(step, bindings.length, time.perf_counter() - began)
    return bindings


def run_step(context: ExecutionContext, step: Step, bindings: BindingTable) -> BindingTable:
    match step:
        case NodeScan():
            return _product(bindings, step.variable, candidates(context, step.variable, step.predicates))
        case RankedScan():
            from omnigraph.engine.ranking import best_of_scan

            return _product(bindings, step.variable, best_of_scan(context, step))
        case Expand():
            return _expand(context, step, bindings)
        case ExpandDistinct():
            return _reach(context, step, bindings)
        case ExpandInto():
            return _connect(context, step.traversal, bindings)
        case Filter():
            return bindings.take(matching(context, step.predicates, bindings))
        case AntiJoin():
            return _anti(context, step, bindings)
        case OptionalMatch():
            return _extend(context, step, bindings)
        case Distinct():
            return bindings.distinct([variable.name for variable in step.variables])


def _product(bindings: BindingTable, variable: Variable, positions: Positions) -> BindingTable:
    if bindings.length == 1 and not bindings.columns and bindings.rows is None:
        return BindingTable(len(positions), {variable.name: positions})
    rows = np.repeat(np.arange(bindings.length), len(positions))
    return bindings.bind(variable, rows, np.tile(positions, bindings.length))


def _expand(context: ExecutionContext, step: Expand, bindings: BindingTable) -> BindingTable:
    traversal, topology = step.traversal, context.view.topology(step.traversal.edge_type)
    origins = bindings.of(step.origin)
    if traversal.edge is not None:
        rows, targets, edges = _incident(topology, traversal, step.origin, origins)
        keep = _passing(context, step.predicates, step.target, targets)
        found = bindings.bind(step.target, rows[keep], targets[keep])
        return BindingTable(found.length, {**found.columns, traversal.edge.name: edges[keep]}, found.outer, found.rows)
    neighbours = _neighbours(topology, traversal, step.origin)
    if (traversal.min_hops, traversal.max_hops) == (1, 1):
        rows, targets = neighbours(origins)
    else:
        rows, targets = _hops(context, traversal, step, origins, neighbours)
    if step.predicates:
        keep = _passing(context, step.predicates, step.target, targets)
        rows, targets = rows[keep], targets[keep]
    return bindings.bind(step.target, rows, targets)


def _reach(context: ExecutionContext, step: ExpandDistinct, bindings: BindingTable) -> BindingTable:
    direction = _direction(context.view.topology(step.traversal.edge_type), step.traversal, step.origin)
    found = direction.reached(bindings.of(step.origin), len(context.rows(step.target)))
    if step.predicates:
        found = found[_passing(context, step.predicates, step.target, found)]
    return BindingTable(len(found), {step.target.name: found})


def _hops(
    context: ExecutionContext,
    traversal: Traversal,
    step: Expand,
    origins: Positions,
    neighbours: Callable[[Positions], tuple[Positions, Positions]],
) -> tuple[Positions, Positions]:
    edge = context.view.catalog.edges[traversal.edge_type]
    if edge.source != edge.target:  # edges between different types cannot be chained
        return neighbours(origins) if traversal.min_hops == 1 else (origins[:0], origins[:0])
    from omnigraph.engine.adjacency import within, within_backwards

    unique, inverse = np.unique(origins[origins >= 0], return_inverse=True)
    nodes = len(context.rows(step.target))
    if step.origin == traversal.right and traversal.left != traversal.right:
        looped = context.view.topology(traversal.edge_type).out.connects(unique, unique)
        found_rows, found = within_backwards(neighbours, unique, looped, nodes, traversal.min_hops, traversal.max_hops)
    else:
        found_rows, found = within(neighbours, unique, nodes, traversal.min_hops, traversal.max_hops)
    order = np.argsort(found_rows, kind="stable")
    starts = np.searchsorted(found_rows[order], np.arange(len(unique) + 1))
    counts = starts[inverse + 1] - starts[inverse]
    base = np.repeat(starts[inverse] - (np.cumsum(counts) - counts), counts)
    entries = order[np.arange(int(counts.sum())) + base]
    rows = np.repeat(np.flatnonzero(origins >= 0), counts)
    return rows, found[entries]


def _passing(
    context: ExecutionContext, predicates: tuple[Predicate, ...], variable: Variable, positions: Positions
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which positions satisfy predicates about their variable, each row of the table tested at most once or so."""
    if not predicates:
        return np.ones(len(positions), np.bool_)
    if len(positions) > _WHOLE_TABLE * len(context.rows(variable)):
        return matching_rows(context, predicates, variable, None)[positions]
    return matching_rows(context, predicates, variable, positions)


def _direction(topology: Topology, traversal: Traversal, origin: Variable) -> DirectedAdjacency:
    """Edges as seen from a bound end."""
    return topology.out if _leaves(traversal, origin) else topology.into


def _leaves(traversal: Traversal, origin: Variable) -> bool:
    if traversal.reading is EdgeReading.UNDIRECTED or traversal.left == traversal.right:
        return True
    return traversal.source == origin


def _neighbours(
    topology: Topology, traversal: Traversal, origin: Variable
) -> Callable[[Positions], tuple[Positions, Positions]]:
    if traversal.reading is not EdgeReading.UNDIRECTED:
        return _direction(topology, traversal, origin).neighbours

    def both(frontier: Positions) -> tuple[Positions, Positions]:
        out_rows, out = topology.out.neighbours(frontier)
        in_rows, into = topology.into.neighbours(frontier)
        rows, targets = np.concatenate([out_rows, in_rows]), np.concatenate([out, into])
        width = int(targets.max()) + 1 if len(targets) else 1
        keys = np.unique(rows * width + targets)
        return keys // width, keys % width

    return both


def _incident(
    topology: Topology, traversal: Traversal, origin: Variable, frontier: Positions
) -> tuple[Positions, Positions, Positions]:
    if traversal.reading is not EdgeReading.UNDIRECTED:
        return _direction(topology, traversal, origin).incident(frontier)
    out, into = topology.out.incident(frontier), topology.into.incident(frontier)
    loops = into[1] == frontier[into[0]]  # a loop lies in both directions but is one edge
    rows, targets, edges = (np.concatenate([a, b[~loops]]) for a, b in zip(out, into, strict=True))
    return rows, targets, edges


def _connect(context: ExecutionContext, traversal: Traversal, bindings: BindingTable) -> BindingTable:
    left, right = bindings.of(traversal.left), bindings.of(traversal.right)
    topology = context.view.topology(traversal.edge_type)
    if traversal.edge is not None:
        rows, targets, edges = _incident(topology, traversal, traversal.left, left)
        keep = targets == right[rows]
        return bindings.extended(rows[keep], **{traversal.edge.name: edges[keep]})
    if (traversal.min_hops, traversal.max_hops) == (1, 1):
        if traversal.reading is EdgeReading.UNDIRECTED:
            return bindings.take(topology.out.connects(left, right) | topology.out.connects(right, left))
        forward = _leaves(traversal, traversal.left)
        return bindings.take(topology.out.connects(*((left, right) if forward else (right, left))))
    neighbours = _neighbours(topology, traversal, traversal.left)
    step = Expand(traversal, traversal.left, traversal.right)
    rows, targets = _hops(context, traversal, step, left, neighbours)
    return bindings.take(np.unique(rows[targets == right[rows]]))


def _seeds(bindings: BindingTable, outer: tuple[Variable, ...]) -> tuple[BindingTable, Positions]:
    """The different outer bindings an inner block depends on, and which one each binding has."""
    if not outer:
        return BindingTable(1, {}), np.zeros(bindings.length, np.int64)
    columns = np.stack([bindings.of(variable) for variable in outer], axis=1)
    if columns.shape[1] == 1:
        values, inverse = np.unique(columns[:, 0], return_inverse=True)
        return BindingTable(len(values), {outer[0].name: values}), inverse
    unique, inverse = np.unique(columns, axis=0, return_inverse=True)
    return BindingTable(len(unique), {v.name: unique[:, i] for i, v in enumerate(outer)}), inverse.reshape(-1)


def _inside(seeds: BindingTable) -> BindingTable:
    return BindingTable(seeds.length, {}, seeds, np.arange(seeds.length))


def _anti(context: ExecutionContext, step: AntiJoin, bindings: BindingTable) -> BindingTable:
    if bindings.length == 0:
        return bindings
    seeds, which = _seeds(bindings, step.negation.outer)
    found = run_steps(context, step.steps, _inside(seeds))
    matched = np.zeros(seeds.length, np.bool_)
    if found.rows is not None:
        matched[found.rows] = True
    return bindings.take(~matched[which])


def _extend(context: ExecutionContext, step: OptionalMatch, bindings: BindingTable) -> BindingTable:
    block = step.optional.block
    added = [*block.variables, *block.optional_variables]
    seeds, which = _seeds(bindings, step.optional.outer)
    found = run_steps(context, step.steps, _inside(seeds))
    assert found.rows is not None
    order = np.argsort(found.rows, kind="stable")
    starts = np.searchsorted(found.rows[order], np.arange(seeds.length + 1))
    counts = starts[which + 1] - starts[which]
    wide = np.maximum(counts, 1)
    rows = np.repeat(np.arange(bindings.length), wide)
    within_row = np.arange(len(rows)) - np.repeat(np.cumsum(wide) - wide, wide)
    empty = np.repeat(counts == 0, wide)
    entry = np.where(empty, 0, np.repeat(starts[which], wide) + within_row)
    columns = {}
    for variable in added:
        column = found.of(variable)[order] if found.length else np.zeros(1, np.int64)
        columns[variable.name] = np.where(empty, -1, column[entry] if found.length else -1)
    return bindings.extended(rows, **columns)
