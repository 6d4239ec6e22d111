"""Typed reads: blocks of patterns, columns, ranking and order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.query.typed.expressions import Aggregate, Expression, Parameter, ParamRef, Score, Variable
from omnigraph.query.typed.predicates import Predicate
from omnigraph.schema.catalog import PropertyType


class Reading(StrEnum):
    """How the edges of a traversal lie between its two ends as written."""

    FORWARD = "forward"  # from left to right
    REVERSE = "reverse"  # from right to left
    UNDIRECTED = "undirected"  # either way, each pair once


@dataclass(frozen=True, slots=True)
class Traversal:
    """Edges of one type between two node variables.

    Without an edge variable, parallel edges count once. Hops are breadth-first distances. Both ends may be bound
    elsewhere, also outside of the block; then this is a test.
    """

    edge_type: str
    left: Variable
    right: Variable
    reading: Reading = Reading.FORWARD
    min_hops: int = 1
    max_hops: int = 1
    edge: Variable | None = None

    @property
    def source(self) -> Variable:
        """The end that edges leave (``left`` when undirected)."""
        return self.right if self.reading is Reading.REVERSE else self.left

    @property
    def target(self) -> Variable:
        """The end that edges reach (``right`` when undirected)."""
        return self.left if self.reading is Reading.REVERSE else self.right


@dataclass(frozen=True, slots=True)
class Negation:
    """Keeps an assignment iff the block has no satisfying extension. ``outer``: variables of the surrounding blocks
    that it mentions, at any depth, sorted by name."""

    block: Block
    outer: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class OptionalBlock:
    """Extends an assignment in every way the block allows; with nulls for ``block.variables`` when there is none."""

    block: Block
    outer: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Block:
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
    negations: tuple[Negation, ...] = ()

    @property
    def optional_variables(self) -> tuple[Variable, ...]:
        """What the optional blocks add to the outside: their own variables and those of their optional blocks."""
        return tuple(
            variable for part in self.optionals for variable in (*part.block.variables, *part.block.optional_variables)
        )


@dataclass(frozen=True, slots=True)
class Column:
    """One output column. Names need not be unique."""

    name: str
    expression: Expression

    @property
    def type(self) -> PropertyType:
        return self.expression.type


@dataclass(frozen=True, slots=True)
class OrderKey:
    """``column`` is the output column that holds the key, if any; always set for aggregated and distinct queries."""

    expression: Expression
    descending: bool = False
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """Order by a search score, best first. Replaces all order keys and selects candidates (see the language)."""

    score: Score
    variable: Variable


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """A read. The steps in order: match, rank or order, columns or aggregates, distinct, offset, limit."""

    name: str
    params: tuple[Parameter, ...]
    match: Block
    columns: tuple[Column, ...]
    distinct: bool = False
    rank: Rank | None = None
    order: tuple[OrderKey, ...] = ()
    limit: int | ParamRef | None = None
    offset: int | ParamRef | None = None
    description: str | None = None
    instruction: str | None = None

    @property
    def is_aggregated(self) -> bool:
        return any(isinstance(column.expression, Aggregate) for column in self.columns)

    @property
    def group_keys(self) -> tuple[Column, ...]:
        """The columns that form the groups of an aggregated query; empty means one group."""
        return tuple(column for column in self.columns if not isinstance(column.expression, Aggregate))
