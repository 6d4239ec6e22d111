"""The syntax tree of a `.gq` file: what was written, before any schema is known.

Every node keeps the offset of its first character for messages; offsets do not take part in equality, so two texts that
differ only in layout give equal trees. `parse.py` makes these values, `omnigraph.query.check` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from omnigraph import limits
from omnigraph.errors import QueryNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import PropertyType


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the file it came from, for messages."""

    text: str
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    offset: int = field(default=0, compare=False, repr=False)


class LiteralKind(StrEnum):
    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """One constant. Dates keep their text: the checker parses it, so that a bad one is a typed error with a place."""

    kind: LiteralKind
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    """``[a, b]``. Behind ``in`` the items may also be parameters and ``now()``; elsewhere they are literals."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class VariableRef(Node):
    """``$name`` standing alone."""

    name: str


@dataclass(frozen=True, slots=True)
class PropertyAccess(Node):
    """``$variable.property``."""

    variable: str
    property: str


@dataclass(frozen=True, slots=True)
class NameRef(Node):
    """A bare word: an output column in ``order``; legal nowhere else."""

    name: str


@dataclass(frozen=True, slots=True)
class NowCall(Node):
    """``now()``."""


@dataclass(frozen=True, slots=True)
class TextCall(Node):
    """``search``, ``match_text`` or ``fuzzy``: a condition on one text field."""

    function: str
    field: Expr
    query: Expr
    max_edits: Expr | None = None


@dataclass(frozen=True, slots=True)
class NearestCall(Node):
    """``nearest($x.vector, query)``."""

    target: PropertyAccess
    query: Expr


@dataclass(frozen=True, slots=True)
class Bm25Call(Node):
    """``bm25(field, query)``."""

    field: Expr
    query: Expr


@dataclass(frozen=True, slots=True)
class RrfCall(Node):
    """``rrf(first, second [, k])``."""

    first: NearestCall | Bm25Call
    second: NearestCall | Bm25Call
    k: Expr | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall(Node):
    """``count``, ``sum``, ``avg``, ``min`` or ``max`` of one expression."""

    function: str
    argument: Expr


Value: TypeAlias = Literal | ListLiteral | VariableRef | NowCall
ScoreCall: TypeAlias = NearestCall | Bm25Call | RrfCall
Expr: TypeAlias = Value | PropertyAccess | NameRef | TextCall | ScoreCall | AggregateCall


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """``left op right``; ``op`` is one of ``= != < <= > >= contains starts_with``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Membership(Node):
    """``operand [not] in choices``."""

    operand: Expr
    choices: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    """``operand is [not] null``."""

    operand: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Conjunction(Node):
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Disjunction(Node):
    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Membership | NullTest | TextCall | Conjunction | Disjunction


@dataclass(frozen=True, slots=True)
class PropertyTest(Node):
    """``property: value`` inside a binding."""

    property: str
    value: Value


@dataclass(frozen=True, slots=True)
class Binding(Node):
    """``$variable: Type { tests }``."""

    variable: str
    type_name: str
    tests: tuple[PropertyTest, ...] = ()


@dataclass(frozen=True, slots=True)
class Hops(Node):
    """``{low,high}``; ``high`` None is written ``{low,}``."""

    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Traversal(Node):
    """``$left [$edge_variable:] edge_word [hops] $right``."""

    left: VariableRef
    edge_word: str
    right: VariableRef
    edge_variable: VariableRef | None = None
    undirected: bool = False
    hops: Hops | None = None


@dataclass(frozen=True, slots=True)
class Filter(Node):
    condition: Condition


@dataclass(frozen=True, slots=True)
class Negation(Node):
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class OptionalPart(Node):
    clauses: tuple[Clause, ...]


Clause: TypeAlias = Binding | Traversal | Filter | Negation | OptionalPart


@dataclass(frozen=True, slots=True)
class Projection(Node):
    expr: Expr
    alias: str | None = None


class Direction(StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


@dataclass(frozen=True, slots=True)
class Ordering(Node):
    expr: Expr
    direction: Direction | None = None


@dataclass(frozen=True, slots=True)
class ReadBody(Node):
    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    limit: Literal | VariableRef | None = None
    skip: Literal | VariableRef | None = None  # written `offset n`


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    property: str
    value: Value


@dataclass(frozen=True, slots=True)
class Where(Node):
    """The one comparison of an update or delete."""

    property: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class Insert(Node):
    type_name: str
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update(Node):
    type_name: str
    assignments: tuple[Assignment, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Delete(Node):
    type_name: str
    where: Where


Statement: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class WriteBody(Node):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ParamDecl(Node):
    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class QueryDecl(Node):
    """One ``query name(params) { body }``."""

    name: str
    params: tuple[ParamDecl, ...]
    body: ReadBody | WriteBody
    description: str | None = None
    instruction: str | None = None
    source: Source = field(default=Source(""), compare=False, repr=False)

    @property
    def is_write(self) -> bool:
        return isinstance(self.body, WriteBody)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of one text, in source order."""

    queries: tuple[QueryDecl, ...]
    source: Source = field(default=Source(""), compare=False, repr=False)

    def find(self, name: str | None = None) -> QueryDecl:
        """The first query called ``name``; without a name the only query of the file.

        Raises:
            QueryNotFound: no query has that name, or none was named and the file does not hold exactly one.
        """
        if name is None:
            if len(self.queries) == 1:
                return self.queries[0]
            names = ", ".join(query.name for query in self.queries[: limits.NAMES_LISTED])
            message = f"the text holds {len(self.queries)} queries; say which one by name"
            raise QueryNotFound(message, hint=f"it has {names}" if names else None, query=None)
        for query in self.queries:
            if query.name == name:
                return query
        hint = did_you_mean(name, (query.name for query in self.queries))
        raise QueryNotFound(f"query '{name}' not found", hint=hint, query=name)
