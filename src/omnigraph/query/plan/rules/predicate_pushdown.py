"""Test a condition as soon as its variables are bound: inside a scan or an expansion if it speaks of one variable."""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import AntiJoin, Expand, Filter, NodeScan, OptionalMatch, Plan, Step, bound_by
from omnigraph.query.typed import Predicate, Variable
from omnigraph.query.typed.walk import variables_in_predicate


def predicate_pushdown(plan: Plan, _: Estimator) -> Plan:
    return replace(plan, steps=_placed(plan.steps, frozenset())) if plan.factorized is None else plan


def _placed(steps: tuple[Step, ...], outer: frozenset[Variable]) -> tuple[Step, ...]:
    optional = {v for step in steps if isinstance(step, OptionalMatch) for v in bound_by(step)}
    waiting = [p for step in steps if isinstance(step, Filter) for p in step.predicates]
    placed: list[Step] = []
    bound = set(outer)
    for step in steps:
        if isinstance(step, Filter):
            continue
        if isinstance(step, AntiJoin | OptionalMatch):
            step = replace(step, steps=_placed(step.steps, frozenset(bound)))
        bound |= bound_by(step)
        ready = [p for p in waiting if variables_in_predicate(p) <= bound]
        waiting = [p for p in waiting if p not in ready]
        if isinstance(step, AntiJoin) and waiting:
            raise AssertionError("a predicate is left behind a negation")
        placed += _attach(step, ready, optional)
    return (*placed, Filter(tuple(waiting))) if waiting else tuple(placed)


def _attach(step: Step, ready: list[Predicate], optional: set[Variable]) -> list[Step]:
    own: tuple[Predicate, ...] = ()
    if isinstance(step, NodeScan | Expand):
        target = step.variable if isinstance(step, NodeScan) else step.target
        own = tuple(p for p in ready if variables_in_predicate(p) == {target} and target not in optional)
        step = replace(step, predicates=(*step.predicates, *own))
    other = tuple(p for p in ready if p not in own)
    return [step, Filter(other)] if other else [step]
