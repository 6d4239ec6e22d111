"""An ordered result with a limit needs only its first rows: they are selected, the others are never sorted."""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import Plan, TopK


def top_k(plan: Plan, _: Estimator) -> Plan:
    query = plan.query
    if not query.order or query.limit is None:
        return plan
    return replace(plan, top=TopK(query.limit, query.offset))
