"""Typed reads and typed writes.

A read has blocks of patterns, columns, ranking and order. A write has statements whose values fit their properties up
to what only a value can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from omnigraph.query.typed.expressions import (
    Aggregate,
    Constant,
    Expression,
    KeyId,
    Now,
    Operator,
    Parameter,
    ParamRef,
    Predicate,
    Score,
    TextVector,
    Variable,
)
from omnigraph.schema.catalog import PropertyType


class EdgeReading(StrEnum):
    """How the edges of a traversal lie between its two ends as written."""

    FORWARD = "forward"  # from left to right
    REVERSE = "reverse"  # from right to left
    UNDIRECTED = "undirected"  # either way, each pair once


class Traversal(Struct, frozen=True):
    """Edges of one type between two node variables.

    Without an edge variable, parallel edges count once. Hops are breadth-first distances. Both ends may be bound
    elsewhere, also outside of the block; then this is a test.
    """

    edge_type: str
    left: Variable
    right: Variable
    reading: EdgeReading = EdgeReading.FORWARD
    min_hops: int = 1
    max_hops: int = 1
    edge: Variable | None = None

    @property
    def source(self) -> Variable:
        """The end that edges leave (``left`` when undirected)."""
        return self.right if self.reading is EdgeReading.REVERSE else self.left

    @property
    def target(self) -> Variable:
        """The end that edges reach (``right`` when undirected)."""
        return self.left if self.reading is EdgeReading.REVERSE else self.right


class NegatedBlock(Struct, frozen=True):
    """Keeps an assignment iff the block has no satisfying extension. ``outer``: variables of the surrounding blocks
    that it mentions, at any depth, sorted by name."""

    block: MatchBlock
    outer: tuple[Variable, ...]


class OptionalBlock(Struct, frozen=True):
    """Extends an assignment in every way the block allows; with nulls for ``block.variables`` when there is none."""

    block: MatchBlock
    outer: tuple[Variable, ...]


class MatchBlock(Struct, frozen=True):
    """A conjunction of everything in it.

    It means: ``variables`` under ``traversals`` and those ``predicates`` that mention no optional variable; then
    ``optionals`` as listed; then the other predicates and the ``negations``.

    Attributes:
        variables: introduced by this block, nodes and edges, in source order. Each ranges over its whole type.
        traversals: their ends are variables of this block or of a surrounding one.
    """

    variables: tuple[Variable, ...] = ()
    traversals: tuple[Traversal, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    optionals: tuple[OptionalBlock, ...] = ()
    negations: tuple[NegatedBlock, ...] = ()

    @property
    def optional_variables(self) -> tuple[Variable, ...]:
        """What the optional blocks add to the outside: their own variables and those of their optional blocks."""
        return tuple(
            variable for part in self.optionals for variable in (*part.block.variables, *part.block.optional_variables)
        )


class OutputColumn(Struct, frozen=True):
    """One output column. Names need not be unique."""

    name: str
    expression: Expression

    @property
    def type(self) -> PropertyType:
        return self.expression.type


class SortKey(Struct, frozen=True):
    """``column`` is the output column that holds the key, if any; always set for aggregated and distinct queries."""

    expression: Expression
    descending: bool = False
    column: int | None = None


class Rank(Struct, frozen=True):
    """Order by a search score, best first. Replaces all order keys and selects candidates (see the language)."""

    score: Score
    variable: Variable


class TypedQuery(Struct, frozen=True):
    """A read. The steps in order: match, rank or order, columns or aggregates, distinct, offset, limit.

    Attributes:
        texts: what has to be embedded before it can run.
    """

    name: str
    params: tuple[Parameter, ...]
    match: MatchBlock
    columns: tuple[OutputColumn, ...]
    distinct: bool = False
    rank: Rank | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | ParamRef | None = None
    offset: int | ParamRef | None = None
    description: str | None = None
    instruction: str | None = None
    texts: tuple[TextVector, ...] = ()

    @property
    def is_aggregated(self) -> bool:
        return any(isinstance(column.expression, Aggregate) for column in self.columns)

    @property
    def group_keys(self) -> tuple[OutputColumn, ...]:
        """The columns that form the groups of an aggregated query; empty means one group."""
        return tuple(column for column in self.columns if not isinstance(column.expression, Aggregate))


MutationValue: TypeAlias = ParamRef | Constant | Now | KeyId


class Assignment(Struct, frozen=True):
    """``type`` is the type of the property; the value fits it up to range, length, enum and null checks."""

    property: str
    value: MutationValue
    type: PropertyType


class RowTest(Struct, frozen=True):
    """A ``where`` of one comparison. ``column`` is the stored column: ``from`` is ``src``, ``to`` is ``dst``."""

    column: str
    operator: Operator
    value: MutationValue
    type: PropertyType


class RowCondition(Struct, frozen=True):
    """Any other ``where``: a condition about one row. Its `PropertyRef` name stored columns."""

    row: Variable
    predicate: Predicate


#: The rows that an update or a delete is about: a ``where``, or a read that gives the ids of what a pattern finds.
Where: TypeAlias = RowTest | RowCondition | TypedQuery


class InsertNode(Struct, frozen=True):
    type_name: str
    assignments: tuple[Assignment, ...]


class InsertEdge(Struct, frozen=True):
    type_name: str
    source: MutationValue
    target: MutationValue
    assignments: tuple[Assignment, ...]


class UpdateNode(Struct, frozen=True):
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Where


class UpdateEdge(Struct, frozen=True):
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Where


class DeleteNode(Struct, frozen=True):
    type_name: str
    where: Where


class DeleteEdge(Struct, frozen=True):
    type_name: str
    where: Where


RowStatement: TypeAlias = UpdateNode | UpdateEdge | DeleteNode | DeleteEdge


class ForMatched(Struct, frozen=True):
    """Changes of what one pattern finds. All of it is found before the first of them is made."""

    changes: tuple[RowStatement, ...]


Statement: TypeAlias = InsertNode | InsertEdge | RowStatement | ForMatched


class TypedMutation(Struct, frozen=True):
    """A write: statements in order, either all constructive or all destructive. ``changes`` are the same one by one."""

    name: str
    params: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    description: str | None = None
    instruction: str | None = None

    @property
    def changes(self) -> Iterator[InsertNode | InsertEdge | RowStatement]:
        for statement in self.statements:
            if isinstance(statement, ForMatched):
                yield from statement.changes
            else:
                yield statement
