"""Drops variables that nothing needs any more, where equal bindings count once.

`early_distinct` does it for a distinct result and for distinct counts: reaching a node in many ways counts once.
`semi_join` does it inside `not`, where only whether there is a match counts.
"""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import (
    AntiJoin,
    Distinct,
    Expand,
    ExpandDistinct,
    ExpandInto,
    Filter,
    NodeScan,
    OptionalMatch,
    Plan,
    RankedScan,
    Step,
    bound_by,
)
from omnigraph.query.typed import EdgeReading, Variable
from omnigraph.query.typed.walk import variables_in_expression, variables_in_predicate


def forget(steps: tuple[Step, ...], wanted: frozenset[Variable], *, nested: bool) -> tuple[Step, ...]:
    """The pipeline with a `Distinct` after every expansion that leaves a variable without use.

    Only for results in which equal bindings count once.

    Args:
        wanted: the variables needed at the end.
        nested: the pipeline extends bindings of a surrounding block, which it has to tell apart.
    """
    needed_after: list[frozenset[Variable]] = []
    needed = wanted
    for step in reversed(steps):
        needed_after.append(needed)
        needed = needed | uses(step)
    needed_after.reverse()
    kept: list[Step] = []
    bound: frozenset[Variable] = frozenset()
    for step, after in zip(steps, needed_after, strict=True):
        before, bound = bound, bound | bound_by(step)
        if isinstance(step, Expand) and not nested and _only_arrives(step, before, bound & after):
            bound &= after
            kept.append(ExpandDistinct(step.traversal, step.origin, step.target, step.predicates, step.estimate))
            continue
        kept.append(step)
        if isinstance(step, Expand | ExpandInto) and bound - after:
            bound &= after
            kept.append(Distinct(tuple(sorted(bound, key=lambda variable: variable.name)), step.estimate))
    return tuple(kept)


def _only_arrives(step: Expand, before: frozenset[Variable], after: frozenset[Variable]) -> bool:
    single = (step.traversal.min_hops, step.traversal.max_hops) == (1, 1) and step.traversal.edge is None
    directed = step.traversal.reading is not EdgeReading.UNDIRECTED
    return single and directed and before == {step.origin} and after == {step.target}


def uses(step: Step) -> frozenset[Variable]:
    """Variables whose binding a step reads."""
    match step:
        case NodeScan() | RankedScan():
            return frozenset()
        case Expand() | ExpandDistinct():
            return frozenset({step.origin})
        case ExpandInto():
            return frozenset({step.traversal.left, step.traversal.right})
        case Filter():
            return frozenset(v for predicate in step.predicates for v in variables_in_predicate(predicate))
        case AntiJoin():
            return frozenset(step.negation.outer)
        case OptionalMatch():
            return frozenset(step.optional.outer)
        case Distinct():
            return frozenset(step.variables)


def early_distinct(plan: Plan, _: Estimator) -> Plan:
    query = plan.query
    if query.rank is not None or plan.factorized is not None or not _counts_once(plan):
        return plan
    wanted = frozenset(
        variable
        for expression in (*(c.expression for c in query.columns), *(key.expression for key in query.order))
        for variable in variables_in_expression(expression)
    )
    return replace(plan, steps=forget(plan.steps, wanted, nested=False))


def _counts_once(plan: Plan) -> bool:
    """Whether equal bindings make no difference: a distinct result, or aggregates that do not see repetitions."""
    if not plan.query.is_aggregated:
        return plan.query.distinct
    return all(each.distinct or each.function in ("min", "max") for each in plan.aggregates)


def semi_join(plan: Plan, _: Estimator) -> Plan:
    steps = tuple(_inside(step) for step in plan.steps)
    return replace(plan, steps=steps) if steps != plan.steps else plan


def _inside(step: Step) -> Step:
    if isinstance(step, AntiJoin):
        inner = tuple(_inside(each) for each in step.steps)
        return replace(step, steps=forget(inner, frozenset(), nested=True))
    if isinstance(step, OptionalMatch):
        return replace(step, steps=tuple(_inside(each) for each in step.steps))
    return step
