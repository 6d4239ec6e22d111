"""A ranked variable that leads its pattern is bound to its best rows only; nothing is matched for the others."""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import NodeScan, Plan, RankedScan
from omnigraph.query.typed import TextScore, TypedQuery, Variable

#: Rows that a limit which is not known yet is taken for.
_USUAL_LIMIT = 16


def rank_first(plan: Plan, _: Estimator) -> Plan:
    query, rank = plan.query, plan.query.rank
    if rank is None or not leads(query, rank.variable):
        return plan
    limit, offset = (query.limit, query.offset) if selects_rows(query) else (None, None)
    steps = tuple(
        RankedScan(rank, step.predicates, limit, offset, step.estimate)
        if isinstance(step, NodeScan) and step.variable == rank.variable
        else step
        for step in plan.steps
    )
    return replace(plan, steps=steps) if steps != plan.steps else plan


def leads(query: TypedQuery, variable: Variable) -> bool:
    """Whether a variable is the first of its connected pattern."""
    together = {variable}
    for _ in query.match.traversals:
        for traversal in query.match.traversals:
            if {traversal.left, traversal.right} & together:
                together |= {traversal.left, traversal.right}
    return next(each for each in query.match.variables if each in together) == variable


def selects_rows(query: TypedQuery) -> bool:
    """Whether only the first rows of the ranked variable count, however many matches each of them has.

    `nearest` and `rrf` choose so many before anything else is matched. `bm25` orders all matches; there it makes no
    difference when every row is one match and one row of the result.
    """
    if query.rank is None or not isinstance(query.rank.score, TextScore):
        return True
    block = query.match
    alone = block.variables == (query.rank.variable,) and not block.optionals and not block.negations
    return alone and not block.traversals and not query.distinct and not query.is_aggregated


def most_ranked(query: TypedQuery) -> float:
    """How many rows of the ranked variable can be in the result."""
    if query.rank is None or query.limit is None or not leads(query, query.rank.variable) or not selects_rows(query):
        return float("inf")
    counts = (count if isinstance(count, int) else _USUAL_LIMIT for count in (query.limit, query.offset or 0))
    return float(sum(counts))
