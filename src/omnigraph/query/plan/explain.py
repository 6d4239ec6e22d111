"""A plan as lines of text, outermost last, with the expected number of bindings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.query.plan.nodes import (
    Anti,
    Branch,
    Connect,
    Expand,
    Extend,
    Filter,
    Keep,
    Plan,
    Reach,
    Scan,
    Step,
    TreeNode,
)
from omnigraph.query.plan.text import expression_text, predicate_text, traversal_text
from omnigraph.query.typed import Predicate


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an explained plan."""

    depth: int
    text: str
    step: Step | None = None


def lines_of(plan: Plan, access: Callable[[Step], str | None] = lambda _: None) -> tuple[Line, ...]:
    """The plan, a line per step; ``access`` names how a scan finds its rows."""
    lines: list[Line] = []
    if plan.tree is not None:
        lines.append(Line(0, f"sum along the pattern from ${plan.tree.root.variable.label}"))
        lines += _tree(plan.tree.root, 1)
    lines += _steps(plan.steps, 0, access)
    lines += _finish(plan)
    if plan.applied:
        lines.append(Line(0, f"rules: {', '.join(plan.applied)}"))
    return tuple(lines)


def _steps(steps: tuple[Step, ...], depth: int, access: Callable[[Step], str | None]) -> list[Line]:
    lines: list[Line] = []
    for step in steps:
        match step:
            case Scan():
                how = access(step)
                text = f"scan ${step.variable.label}: {step.variable.type_name}{_where(step.predicates)}"
                text += f" by {how}" if how else ""
            case Expand():
                text = f"expand {traversal_text(step.traversal)} from ${step.origin.label}{_where(step.predicates)}"
            case Reach():
                text = f"reach {traversal_text(step.traversal)} from ${step.origin.label}{_where(step.predicates)}"
            case Connect():
                text = f"connect {traversal_text(step.traversal)}"
            case Filter():
                text = f"filter {' and '.join(predicate_text(p) for p in step.predicates)}"
            case Anti():
                text = "keep those without"
            case Extend():
                text = "extend optionally with"
            case Keep():
                text = f"keep {', '.join(f'${v.label}' for v in step.variables) or 'nothing'} once"
        lines.append(Line(depth, f"{text}  (about {step.estimate:,.0f})", step))
        if isinstance(step, Anti | Extend):
            lines += _steps(step.steps, depth + 1, access)
    return lines


def _tree(node: TreeNode, depth: int) -> list[Line]:
    lines = [Line(depth, f"${node.variable.label}: {node.variable.type_name}{_where(node.predicates)}")]
    for branch in node.branches:
        lines += _branch(branch, depth)
    return lines


def _branch(branch: Branch, depth: int) -> list[Line]:
    text = f"{traversal_text(branch.traversal)}{_where(branch.edge_predicates)}"
    return [Line(depth + 1, text), *_tree(branch.node, depth + 2)]


def _where(predicates: tuple[Predicate, ...]) -> str:
    return f" where {' and '.join(predicate_text(p) for p in predicates)}" if predicates else ""


def _finish(plan: Plan) -> list[Line]:
    query = plan.query
    shown = ", ".join(f"{expression_text(column.expression)} as {column.name}" for column in query.columns)
    verb = "aggregate" if query.is_aggregated else "return distinct" if query.distinct else "return"
    lines = [Line(0, f"{verb} {shown}")]
    if query.rank is not None:
        lines.append(Line(0, f"rank by {expression_text(query.rank.score)}"))
    if query.order:
        keys = ", ".join(expression_text(k.expression) + (" desc" if k.descending else "") for k in query.order)
        lines.append(Line(0, f"order {keys}" + (f", first {plan.top}" if plan.top is not None else "")))
    if query.limit is not None:
        lines.append(Line(0, f"limit {query.limit if isinstance(query.limit, int) else f'${query.limit.name}'}"))
    return lines
