"""Which variables are still needed at each point of a pipeline, and a pipeline that forgets the others."""

from __future__ import annotations

from omnigraph.query.plan.build import bound_by
from omnigraph.query.plan.nodes import Anti, Connect, Expand, Extend, Filter, Keep, Reach, Scan, Step
from omnigraph.query.typed import Reading, Variable
from omnigraph.query.typed.walk import variables_in_predicate


def forget(steps: tuple[Step, ...], wanted: frozenset[Variable], *, nested: bool) -> tuple[Step, ...]:
    """The pipeline with a `Keep` after every expansion that leaves a variable without use.

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
            kept.append(Reach(step.traversal, step.origin, step.target, step.predicates, step.estimate))
            continue
        kept.append(step)
        if isinstance(step, Expand | Connect) and bound - after:
            bound &= after
            kept.append(Keep(tuple(sorted(bound, key=lambda variable: variable.name)), step.estimate))
    return tuple(kept)


def _only_arrives(step: Expand, before: frozenset[Variable], after: frozenset[Variable]) -> bool:
    single = (step.traversal.min_hops, step.traversal.max_hops) == (1, 1) and step.traversal.edge is None
    directed = step.traversal.reading is not Reading.UNDIRECTED
    return single and directed and before == {step.origin} and after == {step.target}


def uses(step: Step) -> frozenset[Variable]:
    """Variables whose binding a step reads."""
    match step:
        case Scan():
            return frozenset()
        case Expand() | Reach():
            return frozenset({step.origin})
        case Connect():
            return frozenset({step.traversal.left, step.traversal.right})
        case Filter():
            return frozenset(v for predicate in step.predicates for v in variables_in_predicate(predicate))
        case Anti():
            return frozenset(step.negation.outer)
        case Extend():
            return frozenset(step.optional.outer)
        case Keep():
            return frozenset(step.variables)
