"""Variables, the expressions over them, and conditions. Every expression knows its type.

Conditions follow SQL's three-valued logic: unknown is no match.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from omnigraph.schema.catalog import SOURCE_COLUMN, TARGET_COLUMN, PropertyType, Scalar
from omnigraph.tokenizer import ENGLISH, Tokenizer

Atom: TypeAlias = str | int | float | bool | date | datetime | None
ConstantValue: TypeAlias = Atom | tuple[Atom, ...]

#: The endpoint columns of an edge in the words of queries.
END_WORDS: Final = {"from": SOURCE_COLUMN, "to": TARGET_COLUMN}
_WRITTEN_ENDS = {column: word for word, column in END_WORDS.items()}

_INSTANT = PropertyType(Scalar.DATETIME)
_SCORE = PropertyType(Scalar.F64, nullable=True)


class Entity(StrEnum):
    NODE = "node"
    EDGE = "edge"


class Variable(Struct, frozen=True):
    """A node or an edge that ranges over the rows of one type.

    Attributes:
        name: unique in the whole query. Anonymous variables and those local to a negation hold a ``#``.
        label: as written, without ``$``; ``_`` for an anonymous one.
    """

    name: str
    label: str
    entity: Entity
    type_name: str


class Parameter(Struct, frozen=True):
    """``at_least`` bounds an integer that is used as a limit, an offset, a number of edits or the k of ``rrf``."""

    name: str
    type: PropertyType
    at_least: int | None = None


class PropertyRef(Struct, frozen=True):
    """A stored column of a variable: a property, or what every row has beside them (``$x.id``, ``$e.from``, ``$e.to``).

    The type is nullable too when the variable is bound by an ``optional`` block.
    """

    variable: Variable
    property: str
    type: PropertyType


def written(ref: PropertyRef) -> str:
    """As queries spell it, without ``$``."""
    is_edge = ref.variable.entity is Entity.EDGE
    return f"{ref.variable.label}.{_WRITTEN_ENDS.get(ref.property, ref.property) if is_edge else ref.property}"


class NodeId(Struct, frozen=True):
    """A variable on its own: the id string of a node, null when an ``optional`` block found none. An edge can be
    counted in this way, nothing else."""

    variable: Variable
    type: PropertyType


class ParamRef(Struct, frozen=True):
    name: str
    type: PropertyType


class Constant(Struct, frozen=True):
    """A literal. Dates are ``date``, instants are UTC ``datetime`` in whole milliseconds, lists are tuples."""

    value: ConstantValue
    type: PropertyType


class Now(Struct, frozen=True):
    """The one instant of the query."""

    type: PropertyType = _INSTANT


class KeyId(Struct, frozen=True):
    """The id of the node whose key has a value, or the ids for a list of values.

    Attributes:
        key: the type of the key property, which is not text.
    """

    value: ParamRef | Constant | Now
    key: PropertyType
    type: PropertyType


class TextVector(Struct, frozen=True):
    """The vector of a String, made by the embedding provider when parameters are bound.

    Attributes:
        key: its name among the bound parameters; no text can spell it.
        model: the model that ``@embed`` declares for the property it is compared with.
    """

    text: ParamRef | Constant
    key: str
    type: PropertyType
    model: str | None = None


class Distance(Struct, frozen=True):
    """``nearest``: L2 distance between a vector property and a vector, or a String to be embedded."""

    field: PropertyRef
    query: ParamRef | Constant | TextVector
    type: PropertyType = _SCORE


class TextScore(Struct, frozen=True):
    """``bm25``: null for rows without any of the query's tokens."""

    field: PropertyRef
    query: ParamRef | Constant
    type: PropertyType = _SCORE


class FusedScore(Struct, frozen=True):
    """``rrf``: both arms rank the same variable. Occurs as a column only when it is also the rank of the query."""

    first: Distance | TextScore
    second: Distance | TextScore
    k: ParamRef | Constant
    type: PropertyType = _SCORE


class Aggregate(Struct, frozen=True):
    """``count``, ``sum``, ``avg``, ``min`` or ``max``. Counting a `NodeId` counts assignments that have it; with
    ``distinct`` a value, a node or an edge counts once in its group."""

    function: str
    argument: Operand
    type: PropertyType
    distinct: bool = False


Score: TypeAlias = Distance | TextScore | FusedScore
Operand: TypeAlias = PropertyRef | NodeId | ParamRef | Constant | Now | KeyId | Distance | TextScore | FusedScore
Expression: TypeAlias = Operand | Aggregate


class Operator(StrEnum):
    """``contains`` is two operators: membership in a list and substring of a text."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    LIST_CONTAINS = "list_contains"
    TEXT_CONTAINS = "text_contains"
    STARTS_WITH = "starts_with"


class Compare(Struct, frozen=True):
    operator: Operator
    left: Operand
    right: Operand


class IsIn(Struct, frozen=True):
    """Equal to one of the choices. Null choices are ignored; a null operand or a null list is unknown."""

    operand: Operand
    choices: tuple[Operand, ...] | ParamRef | KeyId


class IsNull(Struct, frozen=True):
    """Never unknown. A variable is null when its ``optional`` block found no extension."""

    operand: Operand | Variable


class TextMatch(Struct, frozen=True):
    """``search``, ``match_text`` or ``fuzzy`` on one text property; unknown when the property is null.

    ``tokenizer`` is the property's: it takes the texts and the query apart.
    """

    function: str
    field: PropertyRef
    query: ParamRef | Constant
    max_edits: ParamRef | Constant | None = None
    tokenizer: Tokenizer = ENGLISH


class Not(Struct, frozen=True):
    """Three-valued: the negation of unknown is unknown. Not the same as a `Negation` of a block."""

    part: Predicate


class AllOf(Struct, frozen=True):
    parts: tuple[Predicate, ...]


class AnyOf(Struct, frozen=True):
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Compare | IsIn | IsNull | TextMatch | Not | AllOf | AnyOf
