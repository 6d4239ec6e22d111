"""A plan as lines of text, outermost last, with the expected number of bindings.

Expressions and predicates are shown in the spelling of the language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.query.plan.logical_plan import (
    AntiJoin,
    Distinct,
    Expand,
    ExpandDistinct,
    ExpandInto,
    Filter,
    NodeScan,
    OptionalMatch,
    Plan,
    RankedScan,
    Step,
    TopK,
    TreeEdge,
    TreeNode,
)
from omnigraph.query.typed import (
    Aggregate,
    AllOf,
    AnyOf,
    Compare,
    Constant,
    Distance,
    EdgeReading,
    Expression,
    FusedScore,
    IsIn,
    IsNull,
    KeyId,
    NodeId,
    Not,
    Now,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    TextMatch,
    TextScore,
    TextVector,
    Traversal,
    Variable,
    written,
)

_WORDS = {Operator.LIST_CONTAINS: "contains", Operator.TEXT_CONTAINS: "contains"}


def expression_text(expression: Expression) -> str:
    match expression:
        case PropertyRef():
            return f"${written(expression)}"
        case NodeId():
            return f"${expression.variable.label}"
        case ParamRef():
            return f"${expression.name}"
        case Constant():
            return repr(expression.value) if not isinstance(expression.value, str) else f'"{expression.value}"'
        case Now():
            return "now()"
        case KeyId():
            return expression_text(expression.value)
        case Distance():
            query = expression.query.text if isinstance(expression.query, TextVector) else expression.query
            return f"nearest({expression_text(expression.field)}, {expression_text(query)})"
        case TextScore():
            return f"bm25({expression_text(expression.field)}, {expression_text(expression.query)})"
        case FusedScore():
            return f"rrf({expression_text(expression.first)}, {expression_text(expression.second)})"
        case Aggregate():
            distinct = "distinct " if expression.distinct else ""
            return f"{expression.function}({distinct}{expression_text(expression.argument)})"


def predicate_text(predicate: Predicate) -> str:
    match predicate:
        case Compare():
            word = _WORDS.get(predicate.operator, predicate.operator.value)
            return f"{expression_text(predicate.left)} {word} {expression_text(predicate.right)}"
        case IsIn():
            if not isinstance(predicate.choices, tuple):
                return f"{expression_text(predicate.operand)} in {expression_text(predicate.choices)}"
            choices = ", ".join(expression_text(choice) for choice in predicate.choices)
            return f"{expression_text(predicate.operand)} in [{choices}]"
        case IsNull():
            if isinstance(predicate.operand, Variable):
                return f"${predicate.operand.label} is null"
            return f"{expression_text(predicate.operand)} is null"
        case TextMatch():
            return f"{predicate.function}({expression_text(predicate.field)}, {expression_text(predicate.query)})"
        case Not():
            return f"not ({predicate_text(predicate.part)})"
        case AllOf():
            return f"({' and '.join(predicate_text(part) for part in predicate.parts)})"
        case AnyOf():
            return f"({' or '.join(predicate_text(part) for part in predicate.parts)})"


def traversal_text(traversal: Traversal) -> str:
    word = traversal.edge_type[0].lower() + traversal.edge_type[1:]
    word = f"<{word}>" if traversal.reading is EdgeReading.UNDIRECTED else word
    if (traversal.min_hops, traversal.max_hops) != (1, 1):
        word += f"{{{traversal.min_hops},{traversal.max_hops}}}"
    edge = f"${traversal.edge.label}:" if traversal.edge else ""
    return f"${traversal.left.label} {edge}{word} ${traversal.right.label}"


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One line of an explained plan."""

    depth: int
    text: str
    step: Step | TopK | None = None


def lines_of(plan: Plan, access: Callable[[Step], str | None] = lambda _: None) -> tuple[PlanLine, ...]:
    """The plan, a line per step; ``access`` names how a scan finds its rows."""
    lines: list[PlanLine] = []
    if plan.factorized is not None:
        lines.append(PlanLine(0, f"factorized aggregate from ${plan.factorized.root.variable.label}"))
        lines += _tree(plan.factorized.root, 1)
    lines += _steps(plan.steps, 0, access)
    lines += _projection(plan)
    if plan.applied:
        lines.append(PlanLine(0, f"rules: {', '.join(plan.applied)}"))
    return tuple(lines)


def _steps(steps: tuple[Step, ...], depth: int, access: Callable[[Step], str | None]) -> list[PlanLine]:
    lines: list[PlanLine] = []
    for step in steps:
        text = step_text(step)
        if isinstance(step, NodeScan) and (how := access(step)):
            text += f" by {how}"
        lines.append(PlanLine(depth, f"{text}  (about {step.estimate:,.0f})", step))
        if isinstance(step, AntiJoin | OptionalMatch):
            lines += _steps(step.steps, depth + 1, access)
    return lines


def step_text(step: Step) -> str:
    """One step in words."""
    match step:
        case NodeScan():
            return f"scan ${step.variable.label}: {step.variable.type_name}{_where(step.predicates)}"
        case RankedScan():
            text = f"rank ${step.variable.label}: {step.variable.type_name}{_where(step.predicates)}"
            return f"{text} by {expression_text(step.rank.score)}"
        case Expand():
            return f"expand {traversal_text(step.traversal)} from ${step.origin.label}{_where(step.predicates)}"
        case ExpandDistinct():
            where = _where(step.predicates)
            return f"expand distinct {traversal_text(step.traversal)} from ${step.origin.label}{where}"
        case ExpandInto():
            return f"expand into {traversal_text(step.traversal)}"
        case Filter():
            return f"filter {' and '.join(predicate_text(p) for p in step.predicates)}"
        case AntiJoin():
            return "anti join"
        case OptionalMatch():
            return "optional match"
        case Distinct():
            return f"distinct {', '.join(f'${v.label}' for v in step.variables) or 'outer bindings'}"


def _tree(node: TreeNode, depth: int) -> list[PlanLine]:
    lines = [PlanLine(depth, f"${node.variable.label}: {node.variable.type_name}{_where(node.predicates)}")]
    for branch in node.branches:
        lines += _branch(branch, depth)
    return lines


def _branch(branch: TreeEdge, depth: int) -> list[PlanLine]:
    text = f"{traversal_text(branch.traversal)}{_where(branch.edge_predicates)}"
    return [PlanLine(depth + 1, text), *_tree(branch.node, depth + 2)]


def _where(predicates: tuple[Predicate, ...]) -> str:
    return f" where {' and '.join(predicate_text(p) for p in predicates)}" if predicates else ""


def _projection(plan: Plan) -> list[PlanLine]:
    query = plan.query
    shown = ", ".join(f"{expression_text(column.expression)} as {column.name}" for column in query.columns)
    verb = "aggregate" if query.is_aggregated else "return distinct" if query.distinct else "return"
    lines = [PlanLine(0, f"{verb} {shown}")]
    if query.rank is not None and not any(isinstance(step, RankedScan) for step in plan.steps):
        lines.append(PlanLine(0, f"rank by {expression_text(query.rank.score)}"))
    if query.order:
        keys = ", ".join(expression_text(k.expression) + (" desc" if k.descending else "") for k in query.order)
        lines.append(PlanLine(0, f"top k by {keys}" if plan.top is not None else f"sort by {keys}", plan.top))
    for word, count in (("offset", query.offset), ("limit", query.limit)):
        if count is not None:
            lines.append(PlanLine(0, f"{word} {count if isinstance(count, int) else f'${count.name}'}"))
    return lines
