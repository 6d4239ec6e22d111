"""How a query is run, in words, and on request with what each step did. Running it is `query_runner.py`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from omnigraph.engine.execution_context import ExecutionTrace
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.node_scan import access_path
from omnigraph.engine.query_runner import plan_query, run_plan
from omnigraph.query.plan import Plan
from omnigraph.query.plan.explain import PlanLine, lines_of
from omnigraph.query.plan.logical_plan import NodeScan, Step
from omnigraph.query.typed import TypedQuery
from omnigraph.read_budget import UNBOUNDED, ReadBudget


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan in words; with measured rows and times if it was run. ``str()`` shows it as an indented list."""

    plan: Plan | None  # None for one that a server made
    lines: tuple[PlanLine, ...]
    rows: int | None = None
    seconds: float | None = None
    measured: dict[int, tuple[int, float]] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        shown = []
        for number, line in enumerate(self.lines):
            text = f"{'  ' * line.depth}{line.text}"
            if number in self.measured:
                rows, seconds = self.measured[number]
                note = f"{self.notes[number]}  " if number in self.notes else ""
                text += f"  → {note}{rows:,} rows, {seconds * 1e3:.2f} ms"
            shown.append(text)
        if self.rows is not None and self.seconds is not None:
            shown.append(f"{self.rows:,} rows in {self.seconds * 1e3:.2f} ms")
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: steps with their depth in the plan; rows and seconds where they were measured."""
        steps = []
        for number, line in enumerate(self.lines):
            rows, seconds = self.measured.get(number, (None, None))
            step = {"depth": line.depth, "text": line.text, "rows": rows, "seconds": seconds}
            steps.append({**step, "note": self.notes[number]} if number in self.notes else step)
        return {"steps": steps, "row_count": self.rows, "seconds": self.seconds}


def explain(
    view: GraphView, query: TypedQuery, params: dict[str, Any] | None, budget: ReadBudget = UNBOUNDED
) -> Explanation:
    """Show the plan of a query; with parameters also run it."""
    plan = plan_query(view, view.catalog, query)

    def access(step: Step) -> str | None:
        return access_path(view.catalog, step.variable, step.predicates).value if isinstance(step, NodeScan) else None

    lines = lines_of(plan, access)
    if params is None:
        return Explanation(plan, lines)
    trace = ExecutionTrace()
    began = time.perf_counter()
    table = run_plan(view, plan, params, trace, budget=budget)
    seconds = time.perf_counter() - began
    place = {id(line.step): number for number, line in enumerate(lines) if line.step is not None}
    measured = {place[id(step)]: (rows, taken) for step, rows, taken in trace.steps if id(step) in place}
    notes = {place[step]: text for step, text in trace.notes.items() if step in place}
    return Explanation(plan, lines, table.num_rows, seconds, measured, notes)
