"""The rules that make a plan good, in the order in which they apply. Each keeps the meaning of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import Plan
from omnigraph.query.plan.rules.factorized_aggregate import factorized_aggregate
from omnigraph.query.plan.rules.join_order import join_order
from omnigraph.query.plan.rules.predicate_pushdown import predicate_pushdown
from omnigraph.query.plan.rules.prune_variables import early_distinct, semi_join
from omnigraph.query.plan.rules.rank_first import rank_first
from omnigraph.query.plan.rules.top_k import top_k

Rule: TypeAlias = Callable[[Plan, Estimator], Plan]

RULES: tuple[Rule, ...] = (
    factorized_aggregate,  # aggregates over a tree pattern need no list of bindings
    join_order,  # start where few nodes match, follow edges from what is bound
    predicate_pushdown,  # test a condition as soon as its variables are bound
    rank_first,  # match only what the best rows of a ranking lead to
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
