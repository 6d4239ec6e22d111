"""Runs the operators of a plan: each turns one binding table into the next."""

from __future__ import annotations

import time

import numpy as np

from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import matching
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.node_scan import candidates
from omnigraph.engine.pieces import cuts, different_rows, slices
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.traversal import TargetTest, connected, followed, leaves
from omnigraph.errors import QueryTimeout, ResourceLimitExceeded
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
from omnigraph.query.typed import Traversal, Variable
from omnigraph.read_budget import PIECE_ROWS

#: Bytes that a new binding takes while it is made, besides those it had: the variable, and which row it extends.
_BOUND = 16


def run_steps(context: ExecutionContext, steps: tuple[Step, ...], start: BindingTable) -> BindingTable:
    bindings = start
    for step in steps:
        began = time.perf_counter()
        context.budget.check()
        try:
            bindings = run_step(context, step, bindings)
        except (QueryTimeout, ResourceLimitExceeded) as error:
            _say_where(error, step)
            raise
        if context.trace is not None:
            context.trace.finished(step, bindings.length, time.perf_counter() - began)
    return bindings


def _say_where(error: QueryTimeout | ResourceLimitExceeded, step: Step) -> None:
    """Name the innermost step that was too much."""
    if "step" in error.details or error.details.get("resource", "query_bytes") != "query_bytes":
        return
    from omnigraph.query.plan.explain import step_text

    error.details["step"] = text = step_text(step)
    error.hint = f"at the step: {text}; see explain, and ask for less with a condition, fewer hops or a limit"


def run_step(context: ExecutionContext, step: Step, bindings: BindingTable) -> BindingTable:
    match step:
        case NodeScan():
            return _product(context, bindings, step.variable, candidates(context, step.variable, step.predicates))
        case RankedScan():
            from omnigraph.engine.ranking import best_of_scan

            return _product(context, bindings, step.variable, best_of_scan(context, step))
        case Expand():
            return _expand(context, step, bindings)
        case ExpandDistinct():
            return _reach(context, step, bindings)
        case ExpandInto():
            return _connect(context, step.traversal, bindings)
        case Filter():
            return bindings.kept(matching(context, step.predicates, bindings), context.budget)
        case AntiJoin():
            return _anti(context, step, bindings)
        case OptionalMatch():
            return _extend(context, step, bindings)
        case Distinct():
            return bindings.distinct([variable.name for variable in step.variables], budget=context.budget)


def _product(
    context: ExecutionContext, bindings: BindingTable, variable: Variable, positions: Positions
) -> BindingTable:
    if bindings.length == 1 and not bindings.columns and bindings.rows is None:
        return BindingTable(len(positions), {variable.name: positions})
    length = bindings.length * len(positions)
    context.budget.hold(length * (bindings.width + _BOUND))
    if length <= PIECE_ROWS:
        rows = np.repeat(np.arange(bindings.length), len(positions))
        return bindings.bind(variable, rows, np.tile(positions, bindings.length))
    parts = []
    for piece in slices(bindings.length, max(1, PIECE_ROWS // len(positions))):
        context.budget.check()
        rows = np.repeat(np.arange(piece.start, piece.stop), len(positions))
        parts.append(bindings.bind(variable, rows, np.tile(positions, piece.stop - piece.start)))
    return BindingTable.stacked(parts, context.budget.check)


def _expand(context: ExecutionContext, step: Expand, bindings: BindingTable) -> BindingTable:
    traversal, parts, held = step.traversal, [], 0
    origins = bindings.of(step.origin)
    test = TargetTest(context, step.predicates, step.target)
    for rows, targets, edges in followed(context, step, origins, 0 if step.predicates else bindings.width + _BOUND):
        if step.predicates:
            keep = test.passing(targets)
            rows, targets, edges = rows[keep], targets[keep], None if edges is None else edges[keep]
        found = bindings.bind(step.target, rows, targets)
        if edges is not None and traversal.edge is not None:
            columns = {**found.columns, traversal.edge.name: edges}
            found = BindingTable(found.length, columns, found.outer, found.rows)
        parts.append(found)
        held += found.length * found.width
        context.budget.hold(held)
    return BindingTable.stacked(parts, context.budget.check)


def _reach(context: ExecutionContext, step: ExpandDistinct, bindings: BindingTable) -> BindingTable:
    topology = context.view.topology(step.traversal.edge_type)
    direction = topology.out if leaves(step.traversal, step.origin) else topology.into
    found = direction.reached(bindings.of(step.origin), len(context.rows(step.target)))
    if step.predicates:
        found = found[TargetTest(context, step.predicates, step.target).passing(found)]
    return BindingTable(len(found), {step.target.name: found})


def _connect(context: ExecutionContext, traversal: Traversal, bindings: BindingTable) -> BindingTable:
    left, right = bindings.of(traversal.left), bindings.of(traversal.right)
    if traversal.edge is None and (traversal.min_hops, traversal.max_hops) == (1, 1):
        return bindings.kept(connected(context, traversal, left, right), context.budget)
    kept: list[Positions] = []
    kept_edges: list[Positions] = []
    for rows, targets, edges in followed(context, Expand(traversal, traversal.left, traversal.right), left, 0):
        keep = targets == right[rows]
        kept.append(rows[keep])
        if edges is not None:
            kept_edges.append(edges[keep])
    if traversal.edge is None:
        return bindings.take(np.unique(np.concatenate(kept)))
    return bindings.extended(np.concatenate(kept), **{traversal.edge.name: np.concatenate(kept_edges)})


def _seeds(
    context: ExecutionContext, bindings: BindingTable, outer: tuple[Variable, ...]
) -> tuple[BindingTable, Positions]:
    """The different outer bindings an inner block depends on, and which one each binding has."""
    if not outer:
        return BindingTable(1, {}), np.zeros(bindings.length, np.int64)
    columns = [bindings.of(variable) for variable in outer]
    unique, inverse = different_rows(columns, context.budget)
    return BindingTable(len(unique[0]), {v.name: unique[i] for i, v in enumerate(outer)}), inverse


def _inside(seeds: BindingTable) -> BindingTable:
    return BindingTable(seeds.length, {}, seeds, np.arange(seeds.length))


def _anti(context: ExecutionContext, step: AntiJoin, bindings: BindingTable) -> BindingTable:
    if bindings.length == 0:
        return bindings
    seeds, which = _seeds(context, bindings, step.negation.outer)
    found = run_steps(context, step.steps, _inside(seeds))
    matched = np.zeros(seeds.length, np.bool_)
    if found.rows is not None:
        matched[found.rows] = True
    return bindings.kept(~matched[which], context.budget)


def _extend(context: ExecutionContext, step: OptionalMatch, bindings: BindingTable) -> BindingTable:
    block = step.optional.block
    added = [*block.variables, *block.optional_variables]
    seeds, which = _seeds(context, bindings, step.optional.outer)
    found = run_steps(context, step.steps, _inside(seeds))
    assert found.rows is not None
    order = np.argsort(found.rows, kind="stable")
    starts = np.searchsorted(found.rows[order], np.arange(seeds.length + 1))
    counts = starts[which + 1] - starts[which]
    context.budget.hold(int(np.maximum(counts, 1).sum()) * (bindings.width + 8 * len(added)))
    inner = {each.name: found.of(each)[order] if found.length else np.full(1, -1) for each in added}
    parts = []
    for piece in cuts(counts):
        context.budget.check()
        begins, sizes = starts[which[piece]], counts[piece]
        wide = np.maximum(sizes, 1)
        rows = np.repeat(np.arange(len(sizes)), wide)
        within_row = np.arange(len(rows)) - np.repeat(np.cumsum(wide) - wide, wide)
        empty = np.repeat(sizes == 0, wide)
        entry = np.where(empty, 0, np.repeat(begins, wide) + within_row)
        columns = {}
        for name, column in inner.items():
            columns[name] = np.where(empty, -1, column[entry])
        parts.append(bindings.part(piece).extended(rows, **columns))
    if not parts:
        return bindings.extended(np.zeros(0, np.int64), **{each.name: np.zeros(0, np.int64) for each in added})
    return BindingTable.stacked(parts, context.budget.check)
