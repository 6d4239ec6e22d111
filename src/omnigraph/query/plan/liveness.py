"""Which variables are still needed at each point of a pipeline, and a pipeline that forgets the others."""

from __future__ import annotations

from omnigraph.query.plan.build import bound_by
from omnigraph.query.plan.nodes import Anti, Connect, Expand, Extend, Filter, Keep, Scan, Step
from omnigraph.query.typed import Variable
from omnigraph.query.typed.walk import variables_in_predicate


def forget(steps: tuple[Step, ...], wanted: frozenset[Variable]) -> tuple[Step, ...]:
    """The pipeline with a `Keep` after every expansion that leaves a variable without use.

    Only for results in which equal bindings count once. ``wanted`` are the variables needed at the end.
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
        kept.append(step)
        bound = bound | bound_by(step)
        if isinstance(step, Expand | Connect) and bound - after:
            bound &= after
            kept.append(Keep(tuple(sorted(bound, key=lambda variable: variable.name)), step.estimate))
    return tuple(kept)


def uses(step: Step) -> frozenset[Variable]:
    """Variables whose binding a step reads."""
    match step:
        case Scan():
            return frozenset()
        case Expand():
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
