"""Aggregates over a tree pattern need no list of bindings: counts multiply and sum along the edges.

Applies when the pattern is one tree of single hops, every condition speaks of one variable, every aggregate of one
variable, and the group keys of one. Everything else is left to the pipeline.
"""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import FactorizedAggregate, Plan, TreeEdge, TreeNode
from omnigraph.query.typed import (
    Aggregate,
    Constant,
    EdgeReading,
    Entity,
    MatchBlock,
    NodeId,
    ParamRef,
    Predicate,
    PropertyRef,
    TextMatch,
    Traversal,
    Variable,
)
from omnigraph.query.typed.walk import variables_in_expression, variables_in_predicate

_SUMMABLE = {"count", "sum", "avg"}

#: A start is worth it when it visits fewer rows than one in this many of its table, or fewer than this.
_FEW = 64


def factorized_aggregate(plan: Plan, estimator: Estimator) -> Plan:
    query, block = plan.query, plan.query.match
    if not query.is_aggregated or query.rank or block.optionals or block.negations:
        return plan
    nodes = [variable for variable in block.variables if variable.entity is Entity.NODE]
    if not _is_tree(nodes, block.traversals) or not all(_is_simple(p) for p in block.predicates):
        return plan
    root = _root(plan, nodes, block, estimator)
    if root is None:
        return plan
    return replace(
        plan, steps=(), factorized=FactorizedAggregate(_node(root, None, block), estimator.candidates(root, ()))
    )


def _is_tree(nodes: list[Variable], traversals: tuple[Traversal, ...]) -> bool:
    if len(traversals) != len(nodes) - 1:
        return False
    joined = {node: node for node in nodes}

    def top(node: Variable) -> Variable:
        while joined[node] != node:
            node = joined[node]
        return node

    for traversal in traversals:
        if (traversal.min_hops, traversal.max_hops) != (1, 1) or traversal.reading is EdgeReading.UNDIRECTED:
            return False
        if traversal.left not in joined or traversal.right not in joined or top(traversal.left) == top(traversal.right):
            return False
        joined[top(traversal.left)] = top(traversal.right)
    return True


def _is_simple(predicate: Predicate) -> bool:
    return len(variables_in_predicate(predicate)) == 1 and not isinstance(predicate, TextMatch)


def _root(plan: Plan, nodes: list[Variable], block: MatchBlock, estimator: Estimator) -> Variable | None:
    """The variable of the group keys; without keys the one whose neighbours need the least work."""
    keys = {v for column in plan.query.group_keys for v in variables_in_expression(column.expression)}
    if len(keys) > 1 or not all(isinstance(c.expression, PropertyRef | NodeId) for c in plan.query.group_keys):
        return None
    if not all(_is_summable(aggregate, keys) for aggregate in plan.aggregates):
        return None
    if any(variable.entity is Entity.EDGE for variable in keys):
        return None
    if keys:
        return next(iter(keys))
    work = {node: _work(node, block, estimator) for node in nodes}
    lightest = min(nodes, key=lambda node: work[node])
    if work[lightest] * _FEW < estimator.rows(lightest) or work[lightest] < _FEW:
        return lightest
    degree = {node: sum(node in (t.left, t.right) for t in block.traversals) for node in nodes}
    return max(nodes, key=lambda node: (degree[node], estimator.rows(node)))


def _work(node: Variable, block: MatchBlock, estimator: Estimator) -> float:
    """Neighbours to visit when starting from the rows of a variable that pass its conditions."""
    own = tuple(p for p in block.predicates if variables_in_predicate(p) == {node})
    fanout = [estimator.fanout(t, node) for t in block.traversals if node in (t.left, t.right)]
    return estimator.candidates(node, own) * max([1.0, *fanout])


def _is_summable(aggregate: Aggregate, keys: set[Variable]) -> bool:
    if aggregate.function == "count" and isinstance(aggregate.argument, NodeId) and not aggregate.distinct:
        return True  # every match has a row of every variable
    used = variables_in_expression(aggregate.argument)
    if any(variable.entity is Entity.EDGE for variable in used):
        return False
    if not isinstance(aggregate.argument, PropertyRef | NodeId | Constant | ParamRef):
        return False
    is_summable = aggregate.function in _SUMMABLE and not aggregate.distinct
    return is_summable or (used == keys and len(keys) == 1)


def _node(variable: Variable, parent: Traversal | None, block: MatchBlock) -> TreeNode:
    own = tuple(p for p in block.predicates if variables_in_predicate(p) == {variable})
    branches = tuple(
        TreeEdge(
            traversal,
            traversal.source == variable,
            _node(traversal.right if traversal.left == variable else traversal.left, traversal, block),
            tuple(p for p in block.predicates if traversal.edge and variables_in_predicate(p) == {traversal.edge}),
        )
        for traversal in block.traversals
        if traversal is not parent and variable in (traversal.left, traversal.right)
    )
    return TreeNode(variable, own, branches)
