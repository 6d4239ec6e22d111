"""Typed query → logical plan: what to do in which order. Both engines run the same plan.

`logical_plan.py` writes the plan down as the query says it, `rules/` improve it, `explain.py` prints it.
"""

from omnigraph.query.plan.logical_plan import Plan, Statistics, build_plan
from omnigraph.query.plan.rules import RULES, optimise

__all__ = ["RULES", "Plan", "Statistics", "build_plan", "optimise"]
