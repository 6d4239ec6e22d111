"""Forget variables that a distinct result does not need: reaching a node in many ways counts once."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.liveness import forget
from omnigraph.query.plan.nodes import Plan
from omnigraph.query.typed.walk import variables_in_expression


def early_distinct(plan: Plan, _: Estimator) -> Plan:
    query = plan.query
    if not query.distinct or query.is_aggregated or query.rank is not None or plan.tree is not None:
        return plan
    wanted = frozenset(
        variable
        for expression in (*(c.expression for c in query.columns), *(key.expression for key in query.order))
        for variable in variables_in_expression(expression)
    )
    return replace(plan, steps=forget(plan.steps, wanted, nested=False))
