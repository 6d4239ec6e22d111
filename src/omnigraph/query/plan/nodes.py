"""The logical plan: a pipeline of steps that grow and shrink a table of bindings, then a finish.

A binding table has one column per variable. Every step is correct on its own: a plan in which no rule was applied
gives the same answer, only later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from omnigraph.query.typed import (
    Aggregate,
    Column,
    Negation,
    OptionalBlock,
    OrderKey,
    ParamRef,
    Predicate,
    Rank,
    Traversal,
    TypedQuery,
    Variable,
)


class Statistics(Protocol):
    """What a planner may know about the data."""

    def count(self, table_key: str) -> int:
        """Rows of a table."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Bind a variable to every node of its type that passes the predicates; a product with what is bound already."""

    variable: Variable
    predicates: tuple[Predicate, ...] = ()
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Expand:
    """Follow a traversal from a bound end to the other one, which passes the predicates."""

    traversal: Traversal
    origin: Variable
    target: Variable
    predicates: tuple[Predicate, ...] = ()
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Reach:
    """As `Expand`, when only where one arrives counts: each target once, nothing else is remembered."""

    traversal: Traversal
    origin: Variable
    target: Variable
    predicates: tuple[Predicate, ...] = ()
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Connect:
    """Keep bindings whose two ends are connected; binds the edge variable, if there is one."""

    traversal: Traversal
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep bindings that satisfy all predicates."""

    predicates: tuple[Predicate, ...]
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Anti:
    """Keep bindings for which the inner steps find nothing."""

    negation: Negation
    steps: tuple[Step, ...]
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Extend:
    """Add what the inner steps find, or nulls."""

    optional: OptionalBlock
    steps: tuple[Step, ...]
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Keep:
    """Forget all other variables; equal bindings become one."""

    variables: tuple[Variable, ...]
    estimate: float = 0.0


Step: TypeAlias = Scan | Expand | Reach | Connect | Filter | Anti | Extend | Keep


@dataclass(frozen=True, slots=True)
class Branch:
    """One edge of a tree pattern, seen from the variable nearer to the root.

    Attributes:
        node: the child and everything below it.
        forward: edges leave the parent.
        edge_predicates: conditions on the edge variable of the traversal.
    """

    traversal: Traversal
    forward: bool
    node: TreeNode
    edge_predicates: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeNode:
    variable: Variable
    predicates: tuple[Predicate, ...]
    branches: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """Aggregates over a tree pattern, by multiplying and summing along the edges instead of listing bindings.

    Attributes:
        root: variable that the groups are made of, or any if there is one group.
    """

    root: TreeNode
    estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole read.

    Attributes:
        steps: the pipeline; empty when ``tree`` answers the query.
        top: rows that are needed at all, when that is known before ordering.
    """

    query: TypedQuery
    steps: tuple[Step, ...]
    tree: Tree | None = None
    top: int | ParamRef | None = None
    applied: tuple[str, ...] = field(default=())

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.query.columns

    @property
    def order(self) -> tuple[OrderKey, ...]:
        return self.query.order

    @property
    def rank(self) -> Rank | None:
        return self.query.rank

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(column.expression for column in self.columns if isinstance(column.expression, Aggregate))
