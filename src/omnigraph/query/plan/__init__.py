"""Typed query → logical plan: what to do in which order. Both engines run the same plan.

`build.py` writes the plan down as the query says it, `rules/` make it good, `explain.py` prints it.
"""

from omnigraph.query.plan.build import build_plan
from omnigraph.query.plan.nodes import Plan, Statistics
from omnigraph.query.plan.rules import RULES, optimise

__all__ = ["RULES", "Plan", "Statistics", "build_plan", "optimise"]
