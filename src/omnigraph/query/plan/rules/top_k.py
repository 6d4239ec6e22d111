"""An ordered result with a limit needs only its first rows."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.nodes import Plan


def top_k(plan: Plan, _: Estimator) -> Plan:
    query = plan.query
    if not query.order or query.limit is None or query.distinct:
        return plan
    if isinstance(query.limit, int) and isinstance(query.offset, int | None):
        return replace(plan, top=query.limit + (query.offset or 0))
    return plan
