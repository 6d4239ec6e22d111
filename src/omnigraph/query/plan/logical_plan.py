"""The logical plan: a pipeline of operators that grow and shrink a table of bindings, then a projection.

A binding table has one column per variable. `build_plan` writes a typed query down in the order of its text. Every
operator is correct on its own: a plan in which no rule was applied gives the same answer, only later.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct

from omnigraph.query.typed import (
    Aggregate,
    Entity,
    MatchBlock,
    NegatedBlock,
    OptionalBlock,
    OutputColumn,
    ParamRef,
    Predicate,
    Rank,
    Traversal,
    TypedQuery,
    Variable,
)
from omnigraph.query.typed.walk import variables_in_predicate


class Statistics(Protocol):
    """What a planner may know about the data."""

    def count(self, table_key: str) -> int:
        """Rows of a table."""


class NodeScan(Struct, frozen=True):
    """Bind a variable to every node of its type that passes the predicates; a product with what is bound already."""

    variable: Variable
    predicates: tuple[Predicate, ...] = ()
    estimate: float = 0.0


class RankedScan(Struct, frozen=True):
    """Bind the ranked variable to its best rows among those that pass the predicates: up to ``offset`` + ``limit``."""

    rank: Rank
    predicates: tuple[Predicate, ...]
    limit: int | ParamRef | None = None
    offset: int | ParamRef | None = None
    estimate: float = 0.0

    @property
    def variable(self) -> Variable:
        return self.rank.variable


class Expand(Struct, frozen=True):
    """Follow a traversal from a bound end to the other one, which passes the predicates."""

    traversal: Traversal
    origin: Variable
    target: Variable
    predicates: tuple[Predicate, ...] = ()
    estimate: float = 0.0


class ExpandDistinct(Struct, frozen=True):
    """As `Expand`, when only where one arrives counts: each target once, nothing else is remembered."""

    traversal: Traversal
    origin: Variable
    target: Variable
    predicates: tuple[Predicate, ...] = ()
    estimate: float = 0.0


class ExpandInto(Struct, frozen=True):
    """Keep bindings whose two ends are connected; binds the edge variable, if there is one."""

    traversal: Traversal
    estimate: float = 0.0


class Filter(Struct, frozen=True):
    """Keep bindings that satisfy all predicates."""

    predicates: tuple[Predicate, ...]
    estimate: float = 0.0


class AntiJoin(Struct, frozen=True):
    """Keep bindings for which the inner steps find nothing."""

    negation: NegatedBlock
    steps: tuple[Step, ...]
    estimate: float = 0.0


class OptionalMatch(Struct, frozen=True):
    """Add what the inner steps find, or nulls."""

    optional: OptionalBlock
    steps: tuple[Step, ...]
    estimate: float = 0.0


class Distinct(Struct, frozen=True):
    """Forget all other variables; equal bindings become one."""

    variables: tuple[Variable, ...]
    estimate: float = 0.0


Step: TypeAlias = (
    NodeScan | RankedScan | Expand | ExpandDistinct | ExpandInto | Filter | AntiJoin | OptionalMatch | Distinct
)


class TreeEdge(Struct, frozen=True):
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


class TreeNode(Struct, frozen=True):
    variable: Variable
    predicates: tuple[Predicate, ...]
    branches: tuple[TreeEdge, ...] = ()


class FactorizedAggregate(Struct, frozen=True):
    """Aggregates over a tree pattern, by multiplying and summing along the edges instead of listing bindings.

    Attributes:
        root: variable that the groups are made of, or any if there is one group.
    """

    root: TreeNode
    estimate: float = 0.0


class TopK(Struct, frozen=True):
    """Select the first rows of an order instead of sorting all of them: those up to ``offset`` + ``limit``."""

    limit: int | ParamRef
    offset: int | ParamRef | None = None
    estimate: float = 0.0


class Plan(Struct, frozen=True):
    """A whole read.

    Attributes:
        steps: the pipeline; empty when ``factorized`` answers the query.
        top: set when only the first rows of the order are needed.
    """

    query: TypedQuery
    steps: tuple[Step, ...]
    factorized: FactorizedAggregate | None = None
    top: TopK | None = None
    applied: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        return self.query.columns

    @property
    def rank(self) -> Rank | None:
        return self.query.rank

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(column.expression for column in self.columns if isinstance(column.expression, Aggregate))


def build_plan(query: TypedQuery) -> Plan:
    return Plan(query, block_steps(query.match))


def block_steps(block: MatchBlock) -> tuple[Step, ...]:
    """Every node variable, every traversal as a test, then predicates, optional blocks and negations."""
    late = frozenset(block.optional_variables)
    early = tuple(p for p in block.predicates if not variables_in_predicate(p) & late)
    after = tuple(p for p in block.predicates if variables_in_predicate(p) & late)
    steps: list[Step] = [NodeScan(variable) for variable in block.variables if variable.entity is Entity.NODE]
    steps += [ExpandInto(traversal) for traversal in block.traversals]
    steps += _filters(early)
    steps += [OptionalMatch(optional, block_steps(optional.block)) for optional in block.optionals]
    steps += _filters(after)
    steps += [AntiJoin(negation, block_steps(negation.block)) for negation in block.negations]
    return tuple(steps)


def _filters(predicates: tuple[Predicate, ...]) -> list[Step]:
    return [Filter(predicates)] if predicates else []


def bound_by(step: Step) -> frozenset[Variable]:
    """Variables that a step adds to the bindings."""
    match step:
        case NodeScan() | RankedScan():
            return frozenset({step.variable})
        case ExpandInto():
            return frozenset({step.traversal.edge} if step.traversal.edge else ())
        case OptionalMatch():
            block = step.optional.block
            return frozenset({*block.variables, *block.optional_variables})
        case Expand() | ExpandDistinct():
            return frozenset({step.target} | ({step.traversal.edge} if step.traversal.edge else set()))
        case Filter() | AntiJoin() | Distinct():
            return frozenset()
