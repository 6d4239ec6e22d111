"""Inside `not`, only whether there is a match counts: variables that nothing needs any more are forgotten."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.liveness import forget
from omnigraph.query.plan.nodes import Anti, Extend, Plan, Step


def semi_join(plan: Plan, _: Estimator) -> Plan:
    steps = tuple(_inside(step) for step in plan.steps)
    return replace(plan, steps=steps) if steps != plan.steps else plan


def _inside(step: Step) -> Step:
    if isinstance(step, Anti):
        inner = tuple(_inside(each) for each in step.steps)
        return replace(step, steps=forget(inner, frozenset(), nested=True))
    if isinstance(step, Extend):
        return replace(step, steps=tuple(_inside(each) for each in step.steps))
    return step
