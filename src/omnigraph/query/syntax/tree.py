"""The syntax tree of a `.gq` file: what was written, before any schema is known.

Every node keeps the offset of its first character for messages; offsets do not take part in equality, so two texts that
differ only in layout give equal trees. `query_parser.py` makes these values, `omnigraph.query.check` reads them. The
nodes are structs, not dataclasses, because every command defines all of them (decision 12).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from omnigraph import limits
from omnigraph.errors import QueryNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import PropertyType

#: Fields that say where something was written, and not what.
_PLACE = frozenset({"offset", "source"})


class QueryText(Struct, frozen=True):
    """A text and the file it came from, for messages."""

    text: str
    file: str | None = None


class SyntaxNode(Struct, frozen=True, kw_only=True, eq=False):
    """A node, and where it stands in its text."""

    offset: int = 0

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash((type(self), self._said()))

    def _said(self) -> tuple[object, ...]:
        """Everything but the place."""
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in _PLACE)


class LiteralKind(StrEnum):
    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"
    NULL = "null"


class Literal(SyntaxNode, frozen=True):
    """One constant. Dates keep their text: the checker parses it, so that a bad one is a typed error with a place."""

    kind: LiteralKind
    value: str | int | float | bool | None


class ListLiteral(SyntaxNode, frozen=True):
    """``[a, b]``. Behind ``in`` the items may also be parameters and ``now()``; elsewhere they are literals."""

    items: tuple[Value, ...]


class VariableRef(SyntaxNode, frozen=True):
    """``$name`` standing alone."""

    name: str


class PropertyAccess(SyntaxNode, frozen=True):
    """``$variable.property``."""

    variable: str
    property: str


class EveryProperty(SyntaxNode, frozen=True):
    """``$variable.*``, as a whole column of ``return``."""

    variable: str


class NameRef(SyntaxNode, frozen=True):
    """A bare word: an output column in ``order``, a property in ``where``; legal nowhere else."""

    name: str


class NowCall(SyntaxNode, frozen=True):
    """``now()``."""


class TextCall(SyntaxNode, frozen=True):
    """``search``, ``match_text`` or ``fuzzy``: a condition on one text field."""

    function: str
    field: Expr
    query: Expr
    max_edits: Expr | None = None


class NearestCall(SyntaxNode, frozen=True):
    """``nearest($x.vector, query)``."""

    target: PropertyAccess
    query: Expr


class Bm25Call(SyntaxNode, frozen=True):
    """``bm25(field, query)``."""

    field: Expr
    query: Expr


class RrfCall(SyntaxNode, frozen=True):
    """``rrf(first, second [, k])``."""

    first: NearestCall | Bm25Call
    second: NearestCall | Bm25Call
    k: Expr | None = None


class AggregateCall(SyntaxNode, frozen=True):
    """``count``, ``sum``, ``avg``, ``min`` or ``max`` of one expression; ``count`` also of its different values."""

    function: str
    argument: Expr
    distinct: bool = False


Value: TypeAlias = Literal | ListLiteral | VariableRef | NowCall
ScoreCall: TypeAlias = NearestCall | Bm25Call | RrfCall
Expr: TypeAlias = Value | PropertyAccess | NameRef | TextCall | ScoreCall | AggregateCall


class Comparison(SyntaxNode, frozen=True):
    """``left op right``; ``op`` is one of ``= != < <= > >= contains starts_with``."""

    op: str
    left: Expr
    right: Expr


class Membership(SyntaxNode, frozen=True):
    """``operand [not] in choices``."""

    operand: Expr
    choices: Expr
    negated: bool = False


class NullTest(SyntaxNode, frozen=True):
    """``operand is [not] null``."""

    operand: Expr
    negated: bool = False


class Negation(SyntaxNode, frozen=True):
    """``not ( condition )``."""

    part: Condition


class Conjunction(SyntaxNode, frozen=True):
    parts: tuple[Condition, ...]


class Disjunction(SyntaxNode, frozen=True):
    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Membership | NullTest | TextCall | Negation | Conjunction | Disjunction


class PropertyTest(SyntaxNode, frozen=True):
    """``property: value`` inside a binding."""

    property: str
    value: Value


class NodePattern(SyntaxNode, frozen=True):
    """``$variable: Type { tests }``."""

    variable: str
    type_name: str
    tests: tuple[PropertyTest, ...] = ()


class HopRange(SyntaxNode, frozen=True):
    """``{low,high}``; ``high`` None is written ``{low,}``."""

    low: int
    high: int | None


class EdgePattern(SyntaxNode, frozen=True):
    """``$left [$edge_variable:] edge_word [hops] $right``."""

    left: VariableRef
    edge_word: str
    right: VariableRef
    edge_variable: VariableRef | None = None
    undirected: bool = False
    hops: HopRange | None = None


class FilterClause(SyntaxNode, frozen=True):
    condition: Condition


class NotClause(SyntaxNode, frozen=True):
    clauses: tuple[Clause, ...]


class OptionalClause(SyntaxNode, frozen=True):
    clauses: tuple[Clause, ...]


Clause: TypeAlias = NodePattern | EdgePattern | FilterClause | NotClause | OptionalClause


class Projection(SyntaxNode, frozen=True):
    """One column, or with ``$x.*`` one for each property; ``is_spread`` marks those that the checker made of it."""

    expr: Expr | EveryProperty
    alias: str | None = None
    is_spread: bool = False


class SortDirection(StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


class OrderItem(SyntaxNode, frozen=True):
    expr: Expr
    direction: SortDirection | None = None


class ReadBody(SyntaxNode, frozen=True):
    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[OrderItem, ...] = ()
    limit: Literal | VariableRef | None = None
    skip: Literal | VariableRef | None = None  # written `offset n`


class PropertyAssignment(SyntaxNode, frozen=True):
    property: str
    value: Value


class Insert(SyntaxNode, frozen=True):
    type_name: str
    assignments: tuple[PropertyAssignment, ...]


class Update(SyntaxNode, frozen=True):
    type_name: str
    assignments: tuple[PropertyAssignment, ...]
    where: Condition


class Delete(SyntaxNode, frozen=True):
    type_name: str
    where: Condition


class UpdateFound(SyntaxNode, frozen=True):
    """``update $variable set { … }`` below a ``match``."""

    variable: VariableRef
    assignments: tuple[PropertyAssignment, ...]


class DeleteFound(SyntaxNode, frozen=True):
    """``delete $variable`` below a ``match``."""

    variable: VariableRef


class MatchChange(SyntaxNode, frozen=True):
    """``match { … }`` and the changes of what it finds."""

    match: tuple[Clause, ...]
    changes: tuple[UpdateFound | DeleteFound, ...]


Statement: TypeAlias = Insert | Update | Delete | MatchChange


class WriteBody(SyntaxNode, frozen=True):
    statements: tuple[Statement, ...]


class ParamDecl(SyntaxNode, frozen=True):
    name: str
    type: PropertyType


class QueryDecl(SyntaxNode, frozen=True):
    """One ``query name(params) { body }``."""

    name: str
    params: tuple[ParamDecl, ...]
    body: ReadBody | WriteBody
    description: str | None = None
    instruction: str | None = None
    source: QueryText = QueryText("")

    @property
    def is_write(self) -> bool:
        return isinstance(self.body, WriteBody)


class QueryFile(SyntaxNode, frozen=True):
    """All queries of one text, in source order."""

    queries: tuple[QueryDecl, ...]
    source: QueryText = QueryText("")

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
            if not names:
                raise QueryNotFound("the text holds no query", query=None)
            raise QueryNotFound(message, hint=f"it has {names}", query=None)
        for query in self.queries:
            if query.name == name:
                return query
        hint = did_you_mean(name, (query.name for query in self.queries))
        raise QueryNotFound(f"query '{name}' not found", hint=hint, query=name)
