"""Start where few nodes match, then follow edges from what is bound."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import AntiJoin, Expand, ExpandInto, Filter, NodeScan, OptionalMatch, Plan, Step
from omnigraph.query.plan.rules.rank_first import most_ranked
from omnigraph.query.typed import Predicate, Traversal, Variable
from omnigraph.query.typed.walk import variables_in_predicate


def join_order(plan: Plan, estimator: Estimator) -> Plan:
    if plan.factorized is not None:
        return plan
    ranked = {plan.rank.variable: most_ranked(plan.query)} if plan.rank is not None else {}
    return replace(plan, steps=_ordered(plan.steps, frozenset(), 1.0, estimator, ranked))


def _ordered(
    steps: tuple[Step, ...],
    outer: frozenset[Variable],
    rows: float,
    estimator: Estimator,
    ranked: Mapping[Variable, float],
) -> tuple[Step, ...]:
    scans = [step for step in steps if isinstance(step, NodeScan)]
    connects = [step for step in steps if isinstance(step, ExpandInto)]
    rest = [step for step in steps if not isinstance(step, NodeScan | ExpandInto)]
    predicates = tuple(p for step in rest if isinstance(step, Filter) for p in step.predicates)
    pattern = _Pattern(
        [s.variable for s in scans], [c.traversal for c in connects], predicates, outer, estimator, ranked
    )
    ordered = pattern.order(rows)
    bound = outer | {scan.variable for scan in scans}
    inner: list[Step] = []
    for step in rest:
        inner.append(_inner(step, bound, pattern.rows, estimator))
        if isinstance(step, OptionalMatch):
            block = step.optional.block
            bound |= {*block.variables, *block.optional_variables}
    return (*ordered, *inner)


def _inner(step: Step, bound: frozenset[Variable], rows: float, estimator: Estimator) -> Step:
    if isinstance(step, AntiJoin | OptionalMatch):
        return replace(step, steps=_ordered(step.steps, bound, rows, estimator, {}), estimate=rows)
    return replace(step, estimate=rows)


class _Pattern:
    """Variables and traversals that are not placed yet."""

    def __init__(
        self,
        variables: list[Variable],
        traversals: list[Traversal],
        predicates: tuple[Predicate, ...],
        outer: frozenset[Variable],
        estimator: Estimator,
        ranked: Mapping[Variable, float],
    ) -> None:
        self._variables = variables
        self._traversals = traversals
        self._own = {
            variable: tuple(p for p in predicates if variables_in_predicate(p) == {variable}) for variable in variables
        }
        self._bound = set(outer)
        self._estimator = estimator
        self._ranked = ranked  # how many rows of a variable can be in the result
        self.rows = 1.0

    def order(self, rows: float) -> list[Step]:
        self.rows = rows
        steps: list[Step] = []
        while self._variables or self._traversals:
            steps.append(self._next())
        return steps

    def _next(self) -> Step:
        closing = next((t for t in self._traversals if {t.left, t.right} <= self._bound), None)
        if closing is not None:
            self._traversals.remove(closing)
            self.rows = max(self.rows * 0.1, 0.01)
            return ExpandInto(closing, self.rows)
        reachable = [t for t in self._traversals if t.left in self._bound or t.right in self._bound]
        if reachable:
            return self._expand(min(reachable, key=self._growth))
        return self._scan(min(self._variables, key=self._candidates))

    def _candidates(self, variable: Variable) -> float:
        found = self._estimator.candidates(variable, self._own.get(variable, ()))
        return min(found, self._ranked.get(variable, found))

    def _growth(self, traversal: Traversal) -> float:
        origin, target = self._ends(traversal)
        share = self._candidates(target) / max(self._estimator.rows(target), 1.0)
        return self._estimator.fanout(traversal, origin) * share

    def _ends(self, traversal: Traversal) -> tuple[Variable, Variable]:
        if traversal.left in self._bound:
            return traversal.left, traversal.right
        return traversal.right, traversal.left

    def _expand(self, traversal: Traversal) -> Step:
        origin, target = self._ends(traversal)
        self.rows = max(self.rows * self._growth(traversal), 0.01)
        self._traversals.remove(traversal)
        self._bind(target)
        return Expand(traversal, origin, target, (), self.rows)

    def _scan(self, variable: Variable) -> Step:
        self.rows *= self._candidates(variable)
        self._bind(variable)
        return NodeScan(variable, (), self.rows)

    def _bind(self, variable: Variable) -> None:
        self._bound.add(variable)
        if variable in self._variables:
            self._variables.remove(variable)
