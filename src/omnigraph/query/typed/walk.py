"""Which variables does it mention? For planners that place predicates, and for the checker's correlated variables."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.query.typed.expressions import (
    Aggregate,
    AllOf,
    AnyOf,
    Compare,
    Distance,
    Expression,
    FusedScore,
    IsIn,
    IsNull,
    NodeId,
    Not,
    Predicate,
    PropertyRef,
    TextMatch,
    TextScore,
    Variable,
)
from omnigraph.query.typed.typed_query import MatchBlock


def variables_in_expression(expression: Expression) -> frozenset[Variable]:
    """The variables whose values the expression reads."""
    return frozenset(_in_expression(expression))


def variables_in_predicate(predicate: Predicate) -> frozenset[Variable]:
    """The variables the predicate reads."""
    return frozenset(_in_predicate(predicate))


def outer_variables(block: MatchBlock) -> tuple[Variable, ...]:
    """The variables a block mentions, at any depth, without introducing them; sorted by name."""
    return tuple(sorted(_in_block(block) - _introduced(block), key=lambda variable: variable.name))


def blocks_of(block: MatchBlock) -> Iterator[MatchBlock]:
    """The block and all blocks inside it."""
    yield block
    for optional in block.optionals:
        yield from blocks_of(optional.block)
    for negation in block.negations:
        yield from blocks_of(negation.block)


def _in_expression(expression: Expression) -> Iterator[Variable]:
    match expression:
        case PropertyRef() | NodeId():
            yield expression.variable
        case Distance() | TextScore():
            yield expression.field.variable
        case FusedScore():
            yield expression.first.field.variable
        case Aggregate():
            yield from _in_expression(expression.argument)


def _in_predicate(predicate: Predicate) -> Iterator[Variable]:
    match predicate:
        case Compare():
            yield from _in_expression(predicate.left)
            yield from _in_expression(predicate.right)
        case IsIn():
            yield from _in_expression(predicate.operand)
            if isinstance(predicate.choices, tuple):
                for choice in predicate.choices:
                    yield from _in_expression(choice)
        case IsNull():
            if isinstance(predicate.operand, Variable):
                yield predicate.operand
            else:
                yield from _in_expression(predicate.operand)
        case TextMatch():
            yield predicate.field.variable
        case Not():
            yield from _in_predicate(predicate.part)
        case AllOf() | AnyOf():
            for part in predicate.parts:
                yield from _in_predicate(part)


def _in_block(block: MatchBlock) -> set[Variable]:
    found: set[Variable] = set()
    for inner in blocks_of(block):
        for traversal in inner.traversals:
            found.update((traversal.left, traversal.right))
        for predicate in inner.predicates:
            found.update(_in_predicate(predicate))
    return found


def _introduced(block: MatchBlock) -> set[Variable]:
    return {variable for inner in blocks_of(block) for variable in inner.variables}
