"""Results that are more than their bindings: ordered, ranked, distinct or aggregated, and cut afterwards.

Properties are fetched for the rows that are returned, and for those that compete with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.engine import grouping
from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import values
from omnigraph.engine.exact_sums import IntegerParts, cut
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.factorized_aggregation import Factor, matches, weigh
from omnigraph.engine.grouping import Groups
from omnigraph.engine.ordering import SortColumn, first_rows, sorted_rows
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.ranking import ranked
from omnigraph.engine.result_table import column_of, number_of, page, projected, table_of, typed
from omnigraph.query.plan.explain import expression_text
from omnigraph.query.plan.logical_plan import Plan, TreeNode
from omnigraph.query.typed import (
    Aggregate,
    Entity,
    NodeId,
    Operand,
    OutputColumn,
    PropertyRef,
    SortKey,
    Variable,
)
from omnigraph.query.typed.walk import variables_in_expression
from omnigraph.read_budget import ReadBudget


def finish_arranged(context: ExecutionContext, plan: Plan, bindings: BindingTable) -> pa.Table:
    """The rows of a plan that orders, ranks, aggregates or wants different rows."""
    if plan.rank is not None:
        return _by_rank(context, plan, bindings)
    if plan.query.is_aggregated:
        return _cut(context, plan, _aggregated(context, plan, bindings))
    if plan.query.distinct:
        return _cut(context, plan, _distinct(context, plan, bindings))
    return projected(context, plan, bindings.take(_ordered(context, plan, bindings)))


def _by_rank(context: ExecutionContext, plan: Plan, bindings: BindingTable) -> pa.Table:
    query = plan.query
    skip = number_of(context, query.offset) or 0
    limit = number_of(context, query.limit)
    end = None if limit is None else skip + limit
    best = ranked(context, query, bindings, end)
    if query.is_aggregated or query.distinct:
        output = (_aggregated if query.is_aggregated else _distinct)(context, plan, best)
        return output.table(np.arange(output.length)[skip:end], context.budget)
    return projected(context, plan, best.take(np.arange(best.length)[skip:end]))


def finish_tree(context: ExecutionContext, plan: Plan) -> pa.Table:
    """The rows of a plan that aggregates along a tree pattern."""
    assert plan.factorized is not None
    root = plan.factorized.root
    positions, weights = matches(context, root)
    bindings = BindingTable(len(positions), {root.variable.name: positions})
    factors = _TreeFactors(context, root, weights, positions)
    return _cut(context, plan, _aggregated(context, plan, bindings, factors))


@dataclass(frozen=True, slots=True)
class _Output:
    """Output columns that are fetched for the rows that are asked for."""

    columns: list[Callable[[Any], pa.Array]]
    length: int

    def column(self, number: int, rows: Any = None) -> pa.Array:
        return self.columns[number](np.arange(self.length) if rows is None else rows)

    def table(self, rows: Any, budget: ReadBudget) -> pa.Table:
        budget.require_rows(len(rows))
        columns = []
        for column in self.columns:
            budget.check()
            columns.append(column(rows))
        return table_of(columns, len(rows))


def _distinct(context: ExecutionContext, plan: Plan, bindings: BindingTable) -> _Output:
    """Different rows, in the order of a ranking. Where the columns name their nodes, different nodes are enough."""
    expressions = [column.expression for column in plan.columns]
    used = {v.name: v for e in expressions for v in variables_in_expression(e)}
    bindings = bindings.distinct(list(used), in_order=plan.rank is not None, budget=context.budget)
    if not all(any(_names_node(context, e, v) for e in expressions) for v in used.values()):
        columns = [column_of(context, plan, number, bindings) for number in range(len(expressions))]
        firsts = (
            grouping.group(columns, bindings.length, context.budget).examples
            if bindings.length
            else np.zeros(0, np.int64)
        )
        bindings = bindings.take(np.sort(firsts))

    def fetch(number: int) -> Callable[[Any], pa.Array]:
        return lambda rows: column_of(context, plan, number, bindings.take(rows))

    return _Output([fetch(number) for number in range(len(expressions))], bindings.length)


def _ordered(context: ExecutionContext, plan: Plan, bindings: BindingTable) -> Positions:
    """The bindings that are returned, in order."""
    keys = [_binding_key(context, key.expression, bindings, key.descending) for key in plan.query.order]
    ties = [_tie_key(context, variable, bindings) for variable in _tie_breakers(plan, bindings)]
    return _in_order(context, plan, [*keys, *ties], bindings.length)


def _in_order(context: ExecutionContext, plan: Plan, keys: list[SortColumn], length: int) -> Positions:
    """Row numbers in order, without those before the offset and behind the limit."""
    if plan.top is None:
        return page(context, plan, sorted_rows(keys, length, context.budget))
    began = time.perf_counter()
    skipped = number_of(context, plan.top.offset) or 0
    limit = number_of(context, plan.top.limit)
    assert limit is not None
    wanted = min(skipped + limit, length)
    found = first_rows(keys, length, wanted, context.budget)
    if context.trace is not None:
        context.trace.finished(plan.top, len(found), time.perf_counter() - began)
    return found[skipped:]


def _binding_key(context: ExecutionContext, expression: Any, bindings: BindingTable, descending: bool) -> SortColumn:
    return SortColumn(lambda rows: values(context, expression, bindings.take(rows)), descending)


def _tie_key(context: ExecutionContext, variable: Variable, bindings: BindingTable) -> SortColumn:
    positions = bindings.of(variable)
    return SortColumn(lambda rows: context.fetch(variable, "id", positions[rows]))


def _tie_breakers(plan: Plan, bindings: BindingTable) -> list[Variable]:
    """All bound variables in name order; the order of rows is total and does not depend on the plan."""
    block = plan.query.match
    bound = [*block.variables, *block.optional_variables]
    return sorted((v for v in bound if bindings.has(v)), key=lambda variable: variable.name)


def _cut(context: ExecutionContext, plan: Plan, output: _Output) -> pa.Table:
    """Order, offset and limit of output columns; only what is returned is fetched."""

    def key(order: SortKey) -> SortColumn:
        number = order.column
        assert number is not None
        return SortColumn(lambda rows: output.column(number, rows), order.descending)

    if not plan.query.order:
        return output.table(page(context, plan, np.arange(output.length)), context.budget)
    rows = _in_order(context, plan, [key(each) for each in plan.query.order], output.length)
    return output.table(rows, context.budget)


class _TreeFactors:
    """Weights of an aggregated tree: in how many matches each row of the root takes part."""

    def __init__(self, context: ExecutionContext, root: TreeNode, weights: Any, positions: Any) -> None:
        self._context = context
        self._root = root
        self.weights = weights
        self._positions = positions

    @property
    def variable(self) -> Variable:
        return self._root.variable

    def along(self, variable: Variable, amounts: Any) -> Any:
        """The sum of amounts at another variable, over all matches, for each row of the root."""
        return weigh(self._context, self._root, Factor(variable, amounts))[self._positions]


def _aggregated(
    context: ExecutionContext, plan: Plan, bindings: BindingTable, tree: _TreeFactors | None = None
) -> _Output:
    keys: list[Any] = [column.expression for column in plan.query.group_keys]
    if keys and bindings.length == 0:
        groups = Groups(np.zeros(0, np.int64), np.zeros(0, np.int64))
    elif tree is not None and any(_names_node(context, key, tree.variable) for key in keys):
        groups = Groups(np.arange(bindings.length), np.arange(bindings.length))
    else:
        groups = grouping.group([values(context, key, bindings) for key in keys], bindings.length, context.budget)

    def fetch(number: int, column: OutputColumn) -> Callable[[Any], pa.Array]:
        context.budget.check()
        if not isinstance(column.expression, Aggregate):
            return lambda rows: column_of(context, plan, number, bindings.take(groups.examples[rows]))
        found = typed(_aggregate(context, column.expression, bindings, groups, tree), column.type)
        return lambda rows: found.take(pa.array(rows))

    return _Output([fetch(number, column) for number, column in enumerate(plan.columns)], groups.count)


def _names_node(context: ExecutionContext, expression: Any, variable: Variable) -> bool:
    """Whether an expression is the node's id or its only key property: different nodes, different values."""
    if isinstance(expression, NodeId):
        return expression.variable == variable
    node = context.view.catalog.nodes.get(variable.type_name)
    return (
        isinstance(expression, PropertyRef)
        and expression.variable == variable
        and variable.entity is Entity.NODE
        and node is not None
        and (expression.property == "id" or node.key == (expression.property,))
    )


def _aggregate(
    context: ExecutionContext, aggregate: Aggregate, bindings: BindingTable, groups: Groups, tree: _TreeFactors | None
) -> pa.Array:
    variable = _variable(aggregate.argument)
    if tree is not None and variable is not None and variable != tree.variable:
        return _along(context, aggregate, variable, groups, tree)
    weights = tree.weights if tree is not None else None
    if aggregate.distinct:
        return _count_distinct(context, aggregate.argument, bindings, groups)
    if aggregate.function == "count":
        return grouping.count(groups, _present(context, aggregate.argument, bindings), weights)
    column = values(context, aggregate.argument, bindings)
    if _adds_integers(aggregate):
        terms = len(column) if weights is None else int(weights.sum())

        def add(part: Any) -> Any:
            return grouping.added(groups, part if weights is None else part * weights)

        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.int64)
        return _exact(aggregate, cut(column, terms).summed(add), grouping.added(groups, present))
    return _FUNCTIONS[aggregate.function](groups, column, weights)


def _adds_integers(aggregate: Aggregate) -> bool:
    return aggregate.function == "sum" and aggregate.type.scalar.is_integer


def _exact(aggregate: Aggregate, sums: IntegerParts, counts: Any) -> pa.Array:
    """Sums of integers as a column; null for a group without values."""
    return pa.array(sums.whole(aggregate.type.scalar, expression_text(aggregate)), mask=counts == 0)


def _count_distinct(context: ExecutionContext, argument: Operand, bindings: BindingTable, groups: Groups) -> pa.Array:
    if isinstance(argument, NodeId):  # rows differ where their positions do
        positions = bindings.of(argument.variable)
        return grouping.count_distinct(groups, positions, positions >= 0, context.budget)
    column = values(context, argument, bindings)
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return grouping.count_distinct(groups, grouping.codes_of(column, context.budget), valid, context.budget)


def _present(context: ExecutionContext, argument: Operand, bindings: BindingTable) -> Any:
    if isinstance(argument, NodeId):
        return bindings.of(argument.variable) >= 0
    return np.asarray(values(context, argument, bindings).is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _along(
    context: ExecutionContext, aggregate: Aggregate, variable: Variable, groups: Groups, tree: _TreeFactors
) -> pa.Array:
    """An aggregate of another variable than the root."""
    if isinstance(aggregate.argument, NodeId):
        return grouping.count(groups, np.ones(len(groups.of), np.bool_), tree.weights)
    assert isinstance(aggregate.argument, PropertyRef)
    column = context.rows(variable).column(aggregate.argument.property, context.budget)
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    counts = tree.along(variable, valid.astype(np.int64)) if column.null_count else tree.weights
    per_group = grouping.added(groups, counts)
    if aggregate.function == "count":
        return pa.array(per_group, pa.int64())
    if _adds_integers(aggregate):
        parts = cut(column, int(tree.weights.sum()))
        return _exact(
            aggregate, parts.summed(lambda part: grouping.added(groups, tree.along(variable, part))), per_group
        )
    amounts = np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(), np.float64)
    sums = np.bincount(groups.of, weights=tree.along(variable, amounts), minlength=groups.count)
    if aggregate.function == "avg":
        sums = np.divide(sums, per_group, out=np.zeros(groups.count), where=per_group > 0)
    return pa.array(sums, mask=per_group == 0)


def _variable(operand: Operand) -> Variable | None:
    return operand.variable if isinstance(operand, PropertyRef | NodeId) else None


_FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "sum": grouping.total,
    "avg": grouping.mean,
    "min": lambda groups, column, _: grouping.extreme(groups, column, largest=False),
    "max": lambda groups, column, _: grouping.extreme(groups, column, largest=True),
}
