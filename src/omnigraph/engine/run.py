"""The way into the engine: a typed query and its parameters in, a result out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph import ids
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.candidates import access_path
from omnigraph.engine.evaluate import Context
from omnigraph.engine.finish import finish, finish_tree
from omnigraph.engine.steps import Trace, run_steps
from omnigraph.engine.view import View
from omnigraph.query.plan import Plan, build_plan, optimise
from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.explain import Line, lines_of
from omnigraph.query.plan.nodes import Scan, Statistics, Step
from omnigraph.query.typed import TypedQuery
from omnigraph.schema.catalog import Catalog


def plan_query(sizes: Statistics, catalog: Catalog, query: TypedQuery) -> Plan:
    return optimise(build_plan(query), Estimator(sizes, catalog))


def run_plan(view: View, plan: Plan, params: dict[str, Any], trace: Trace | None = None) -> pa.Table:
    """Run a plan on a snapshot. All of it sees one state and one instant."""
    moment = ids.now()
    context = Context(view, params, moment.replace(microsecond=moment.microsecond // 1_000 * 1_000))
    if plan.tree is not None:
        return finish_tree(context, plan)
    return finish(context, plan, run_steps(context, plan.steps, Bindings(1), trace))


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan in words; with measured rows and times if it was run. ``str()`` shows it as an indented list."""

    plan: Plan
    lines: tuple[Line, ...]
    rows: int | None = None
    seconds: float | None = None
    measured: dict[int, tuple[int, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        shown = []
        for number, line in enumerate(self.lines):
            text = f"{'  ' * line.depth}{line.text}"
            if number in self.measured:
                rows, seconds = self.measured[number]
                text += f"  → {rows:,} rows, {seconds * 1e3:.2f} ms"
            shown.append(text)
        if self.rows is not None and self.seconds is not None:
            shown.append(f"{self.rows:,} rows in {self.seconds * 1e3:.2f} ms")
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: steps with their depth in the plan; rows and seconds where they were measured."""
        steps = []
        for number, line in enumerate(self.lines):
            rows, seconds = self.measured.get(number, (None, None))
            steps.append({"depth": line.depth, "text": line.text, "rows": rows, "seconds": seconds})
        return {"steps": steps, "row_count": self.rows, "seconds": self.seconds}


def explain(view: View, query: TypedQuery, params: dict[str, Any] | None) -> Explanation:
    """Show the plan of a query; with parameters also run it."""
    plan = plan_query(view, view.catalog, query)

    def access(step: Step) -> str | None:
        return access_path(view.catalog, step.variable, step.predicates).value if isinstance(step, Scan) else None

    lines = lines_of(plan, access)
    if params is None:
        return Explanation(plan, lines)
    trace = Trace()
    began = time.perf_counter()
    table = run_plan(view, plan, params, trace)
    seconds = time.perf_counter() - began
    place = {id(line.step): number for number, line in enumerate(lines) if line.step is not None}
    measured = {place[id(step)]: (rows, taken) for step, rows, taken in trace.steps if id(step) in place}
    return Explanation(plan, lines, table.num_rows, seconds, measured)
