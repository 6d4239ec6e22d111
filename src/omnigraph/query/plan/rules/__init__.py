"""The rules that make a plan good, in the order in which they apply. Each keeps the meaning of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.nodes import Plan
from omnigraph.query.plan.rules.aggregate_along_tree import aggregate_along_tree
from omnigraph.query.plan.rules.early_distinct import early_distinct
from omnigraph.query.plan.rules.order_pattern import order_pattern
from omnigraph.query.plan.rules.place_predicates import place_predicates
from omnigraph.query.plan.rules.semi_join import semi_join
from omnigraph.query.plan.rules.top_k import top_k

Rule: TypeAlias = Callable[[Plan, Estimator], Plan]

RULES: tuple[Rule, ...] = (
    aggregate_along_tree,  # aggregates over a tree pattern need no list of bindings
    order_pattern,  # start where few nodes match, follow edges from what is bound
    place_predicates,  # test a condition as soon as its variables are bound
    semi_join,  # inside `not`, only whether there is a match counts
    early_distinct,  # forget variables that a distinct result does not need
    top_k,  # an ordered result with a limit needs only its first rows
)


def optimise(plan: Plan, estimator: Estimator, rules: tuple[Rule, ...] = RULES) -> Plan:
    for rule in rules:
        changed = rule(plan, estimator)
        if changed is not plan:
            plan = replace(changed, applied=(*changed.applied, rule.__name__))
    return plan
