"""What a query mentions: properties that must be read, and searches in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from omnigraph.query.typed import (
    Aggregate,
    AllOf,
    AnyOf,
    Compare,
    Distance,
    Expression,
    FusedScore,
    IsIn,
    IsNull,
    Not,
    Predicate,
    PropertyRef,
    TextMatch,
    TextScore,
    TypedQuery,
    Variable,
)
from omnigraph.query.typed.walk import blocks_of

#: A search function that is computed from one row and what is known about all.
RowFunction: TypeAlias = TextMatch | Distance | TextScore


def properties_of(query: TypedQuery) -> Iterator[tuple[Variable, str]]:
    """Every property that something in the query reads, perhaps more than once."""
    for part in _parts(query):
        if isinstance(part, PropertyRef):
            yield part.variable, part.property


def searches_of(query: TypedQuery) -> Iterator[RowFunction]:
    """Every search function of the query that is about one row, each once."""
    parts = (query.rank.score if query.rank else None, *_parts(query))
    fused = [arm for part in parts if isinstance(part, FusedScore) for arm in (part.first, part.second)]
    yield from dict.fromkeys(part for part in (*parts, *fused) if isinstance(part, RowFunction))


def _parts(query: TypedQuery) -> Iterator[Expression | TextMatch]:
    for column in query.columns:
        yield from _of_expression(column.expression)
    for key in query.order:
        yield from _of_expression(key.expression)
    for block in blocks_of(query.match):
        for predicate in block.predicates:
            yield from _of_predicate(predicate)


def _of_expression(expression: Expression) -> Iterator[Expression]:
    yield expression.argument if isinstance(expression, Aggregate) else expression


def _of_predicate(predicate: Predicate) -> Iterator[Expression | TextMatch]:
    match predicate:
        case Compare():
            yield predicate.left
            yield predicate.right
        case IsIn():
            yield predicate.operand
            if isinstance(predicate.choices, tuple):
                yield from predicate.choices
        case IsNull():
            if not isinstance(predicate.operand, Variable):
                yield predicate.operand
        case TextMatch():
            yield predicate
        case Not():
            yield from _of_predicate(predicate.part)
        case AllOf() | AnyOf():
            for part in predicate.parts:
                yield from _of_predicate(part)
