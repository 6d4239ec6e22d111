"""Typed expressions and predicates as short text, in the spelling of the language."""

from __future__ import annotations

from omnigraph.query.typed import (
    Aggregate,
    AllOf,
    AnyOf,
    Compare,
    Constant,
    Distance,
    Expression,
    FusedScore,
    IsIn,
    IsNull,
    NodeId,
    Not,
    Now,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    Reading,
    TextMatch,
    TextScore,
    Traversal,
    Variable,
)

_WORDS = {Operator.LIST_CONTAINS: "contains", Operator.TEXT_CONTAINS: "contains"}


def expression_text(expression: Expression) -> str:
    match expression:
        case PropertyRef():
            return f"${expression.variable.label}.{expression.property}"
        case NodeId():
            return f"${expression.variable.label}"
        case ParamRef():
            return f"${expression.name}"
        case Constant():
            return repr(expression.value) if not isinstance(expression.value, str) else f'"{expression.value}"'
        case Now():
            return "now()"
        case Distance():
            return f"nearest({expression_text(expression.field)}, {expression_text(expression.query)})"
        case TextScore():
            return f"bm25({expression_text(expression.field)}, {expression_text(expression.query)})"
        case FusedScore():
            return f"rrf({expression_text(expression.first)}, {expression_text(expression.second)})"
        case Aggregate():
            return f"{expression.function}({expression_text(expression.argument)})"


def predicate_text(predicate: Predicate) -> str:
    match predicate:
        case Compare():
            word = _WORDS.get(predicate.operator, predicate.operator.value)
            return f"{expression_text(predicate.left)} {word} {expression_text(predicate.right)}"
        case IsIn():
            if isinstance(predicate.choices, ParamRef):
                return f"{expression_text(predicate.operand)} in ${predicate.choices.name}"
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
    word = f"<{word}>" if traversal.reading is Reading.UNDIRECTED else word
    if (traversal.min_hops, traversal.max_hops) != (1, 1):
        word += f"{{{traversal.min_hops},{traversal.max_hops}}}"
    edge = f"${traversal.edge.label}:" if traversal.edge else ""
    return f"${traversal.left.label} {edge}{word} ${traversal.right.label}"
