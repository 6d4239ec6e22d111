"""Parts of typed queries, and what they mention: for planners that place predicates, and for correlated variables."""

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
    Operand,
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


def columns_in_predicate(predicate: Predicate) -> frozenset[str]:
    """The properties that a predicate about one row reads."""
    return frozenset(each.property for each in _operands(predicate) if isinstance(each, PropertyRef))


def conjuncts(whole: Predicate) -> Iterator[Predicate]:
    """The parts of a condition that must all hold."""
    if isinstance(whole, AllOf):
        for part in whole.parts:
            yield from conjuncts(part)
    else:
        yield whole


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


def tables_of(block: MatchBlock) -> frozenset[str]:
    """Keys of the tables whose rows decide what a block matches, at any depth."""
    variables = {variable for each in blocks_of(block) for variable in each.variables}
    edges = {f"edge:{hop.edge_type}" for each in blocks_of(block) for hop in each.traversals}
    return frozenset({f"{variable.entity.value}:{variable.type_name}" for variable in variables} | edges)


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
    for each in _operands(predicate):
        if isinstance(each, Variable):
            yield each
        else:
            yield from _in_expression(each)


def _operands(predicate: Predicate) -> Iterator[Operand | Variable]:
    match predicate:
        case Compare():
            yield predicate.left
            yield predicate.right
        case IsIn():
            yield predicate.operand
            yield from predicate.choices if isinstance(predicate.choices, tuple) else ()
        case IsNull():
            yield predicate.operand
        case TextMatch():
            yield predicate.field
        case Not():
            yield from _operands(predicate.part)
        case AllOf() | AnyOf():
            for part in predicate.parts:
                yield from _operands(part)


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
