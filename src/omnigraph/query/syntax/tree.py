"""The syntax tree of a `.gq` file: what was written, before any schema is known.

Every node keeps the offset of its first character for messages; offsets do not take part in equality, so two texts that
differ only in layout give equal trees. `query_parser.py` makes these values, `omnigraph.query.check` reads them.
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
class QueryText:
    """A text and the file it came from, for messages."""

    text: str
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxNode:
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
class Literal(SyntaxNode):
    """One constant. Dates keep their text: the checker parses it, so that a bad one is a typed error with a place."""

    kind: LiteralKind
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ListLiteral(SyntaxNode):
    """``[a, b]``. Behind ``in`` the items may also be parameters and ``now()``; elsewhere they are literals."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class VariableRef(SyntaxNode):
    """``$name`` standing alone."""

    name: str


@dataclass(frozen=True, slots=True)
class PropertyAccess(SyntaxNode):
    """``$variable.property``."""

    variable: str
    property: str


@dataclass(frozen=True, slots=True)
class NameRef(SyntaxNode):
    """A bare word: an output column in ``order``; legal nowhere else."""

    name: str


@dataclass(frozen=True, slots=True)
class NowCall(SyntaxNode):
    """``now()``."""


@dataclass(frozen=True, slots=True)
class TextCall(SyntaxNode):
    """``search``, ``match_text`` or ``fuzzy``: a condition on one text field."""

    function: str
    field: Expr
    query: Expr
    max_edits: Expr | None = None


@dataclass(frozen=True, slots=True)
class NearestCall(SyntaxNode):
    """``nearest($x.vector, query)``."""

    target: PropertyAccess
    query: Expr


@dataclass(frozen=True, slots=True)
class Bm25Call(SyntaxNode):
    """``bm25(field, query)``."""

    field: Expr
    query: Expr


@dataclass(frozen=True, slots=True)
class RrfCall(SyntaxNode):
    """``rrf(first, second [, k])``."""

    first: NearestCall | Bm25Call
    second: NearestCall | Bm25Call
    k: Expr | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall(SyntaxNode):
    """``count``, ``sum``, ``avg``, ``min`` or ``max`` of one expression."""

    function: str
    argument: Expr


Value: TypeAlias = Literal | ListLiteral | VariableRef | NowCall
ScoreCall: TypeAlias = NearestCall | Bm25Call | RrfCall
Expr: TypeAlias = Value | PropertyAccess | NameRef | TextCall | ScoreCall | AggregateCall


@dataclass(frozen=True, slots=True)
class Comparison(SyntaxNode):
    """``left op right``; ``op`` is one of ``= != < <= > >= contains starts_with``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Membership(SyntaxNode):
    """``operand [not] in choices``."""

    operand: Expr
    choices: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class NullTest(SyntaxNode):
    """``operand is [not] null``."""

    operand: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Conjunction(SyntaxNode):
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Disjunction(SyntaxNode):
    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Membership | NullTest | TextCall | Conjunction | Disjunction


@dataclass(frozen=True, slots=True)
class PropertyTest(SyntaxNode):
    """``property: value`` inside a binding."""

    property: str
    value: Value


@dataclass(frozen=True, slots=True)
class NodePattern(SyntaxNode):
    """``$variable: Type { tests }``."""

    variable: str
    type_name: str
    tests: tuple[PropertyTest, ...] = ()


@dataclass(frozen=True, slots=True)
class HopRange(SyntaxNode):
    """``{low,high}``; ``high`` None is written ``{low,}``."""

    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class EdgePattern(SyntaxNode):
    """``$left [$edge_variable:] edge_word [hops] $right``."""

    left: VariableRef
    edge_word: str
    right: VariableRef
    edge_variable: VariableRef | None = None
    undirected: bool = False
    hops: HopRange | None = None


@dataclass(frozen=True, slots=True)
class FilterClause(SyntaxNode):
    condition: Condition


@dataclass(frozen=True, slots=True)
class NotClause(SyntaxNode):
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class OptionalClause(SyntaxNode):
    clauses: tuple[Clause, ...]


Clause: TypeAlias = NodePattern | EdgePattern | FilterClause | NotClause | OptionalClause


@dataclass(frozen=True, slots=True)
class Projection(SyntaxNode):
    expr: Expr
    alias: str | None = None


class SortDirection(StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


@dataclass(frozen=True, slots=True)
class OrderItem(SyntaxNode):
    expr: Expr
    direction: SortDirection | None = None


@dataclass(frozen=True, slots=True)
class ReadBody(SyntaxNode):
    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[OrderItem, ...] = ()
    limit: Literal | VariableRef | None = None
    skip: Literal | VariableRef | None = None  # written `offset n`


@dataclass(frozen=True, slots=True)
class PropertyAssignment(SyntaxNode):
    property: str
    value: Value


@dataclass(frozen=True, slots=True)
class WhereClause(SyntaxNode):
    """The one comparison of an update or delete."""

    property: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class Insert(SyntaxNode):
    type_name: str
    assignments: tuple[PropertyAssignment, ...]


@dataclass(frozen=True, slots=True)
class Update(SyntaxNode):
    type_name: str
    assignments: tuple[PropertyAssignment, ...]
    where: WhereClause


@dataclass(frozen=True, slots=True)
class Delete(SyntaxNode):
    type_name: str
    where: WhereClause


Statement: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class WriteBody(SyntaxNode):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ParamDecl(SyntaxNode):
    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class QueryDecl(SyntaxNode):
    """One ``query name(params) { body }``."""

    name: str
    params: tuple[ParamDecl, ...]
    body: ReadBody | WriteBody
    description: str | None = None
    instruction: str | None = None
    source: QueryText = field(default=QueryText(""), compare=False, repr=False)

    @property
    def is_write(self) -> bool:
        return isinstance(self.body, WriteBody)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of one text, in source order."""

    queries: tuple[QueryDecl, ...]
    source: QueryText = field(default=QueryText(""), compare=False, repr=False)

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
