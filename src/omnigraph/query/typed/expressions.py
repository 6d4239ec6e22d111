"""Variables, the expressions over them, and conditions. Every expression knows its type.

Conditions follow SQL's three-valued logic: unknown is no match.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import TypeAlias

from omnigraph.schema.catalog import PropertyType, Scalar

Atom: TypeAlias = str | int | float | bool | date | datetime | None
ConstantValue: TypeAlias = Atom | tuple[Atom, ...]

_INSTANT = PropertyType(Scalar.DATETIME)
_SCORE = PropertyType(Scalar.F64, nullable=True)


class Entity(StrEnum):
    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Variable:
    """A node or an edge that ranges over the rows of one type.

    Attributes:
        name: unique in the whole query. Anonymous variables and those local to a negation hold a ``#``.
        label: as written, without ``$``; ``_`` for an anonymous one.
    """

    name: str
    label: str
    entity: Entity
    type_name: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """``at_least`` bounds an integer that is used as a limit, an offset, a number of edits or the k of ``rrf``."""

    name: str
    type: PropertyType
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """A property of a variable. The type is nullable too when the variable is bound by an ``optional`` block."""

    variable: Variable
    property: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class NodeId:
    """The id string of a node; null when an ``optional`` block found none."""

    variable: Variable
    type: PropertyType


@dataclass(frozen=True, slots=True)
class ParamRef:
    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. Dates are ``date``, instants are UTC ``datetime`` in whole milliseconds, lists are tuples."""

    value: ConstantValue
    type: PropertyType


@dataclass(frozen=True, slots=True)
class Now:
    """The one instant of the query."""

    type: PropertyType = _INSTANT


@dataclass(frozen=True, slots=True)
class Distance:
    """``nearest``: L2 distance between a vector property and a vector, or a String to be embedded."""

    field: PropertyRef
    query: ParamRef | Constant
    type: PropertyType = _SCORE


@dataclass(frozen=True, slots=True)
class TextScore:
    """``bm25``: null for rows without any of the query's tokens."""

    field: PropertyRef
    query: ParamRef | Constant
    type: PropertyType = _SCORE


@dataclass(frozen=True, slots=True)
class FusedScore:
    """``rrf``: both arms rank the same variable. Occurs as a column only when it is also the rank of the query."""

    first: Distance | TextScore
    second: Distance | TextScore
    k: ParamRef | Constant
    type: PropertyType = _SCORE


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count``, ``sum``, ``avg``, ``min`` or ``max``. Counting a `NodeId` counts assignments that have it."""

    function: str
    argument: Operand
    type: PropertyType


Score: TypeAlias = Distance | TextScore | FusedScore
Operand: TypeAlias = PropertyRef | NodeId | ParamRef | Constant | Now | Distance | TextScore | FusedScore
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


@dataclass(frozen=True, slots=True)
class Compare:
    operator: Operator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class IsIn:
    """Equal to one of the choices. Null choices are ignored; a null operand or a null list is unknown."""

    operand: Operand
    choices: tuple[Operand, ...] | ParamRef


@dataclass(frozen=True, slots=True)
class IsNull:
    """Never unknown. A variable is null when its ``optional`` block found no extension."""

    operand: Operand | Variable


@dataclass(frozen=True, slots=True)
class TextMatch:
    """``search``, ``match_text`` or ``fuzzy`` on one text property; unknown when the property is null."""

    function: str
    field: PropertyRef
    query: ParamRef | Constant
    max_edits: ParamRef | Constant | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued: the negation of unknown is unknown. Not the same as a `Negation` of a block."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Compare | IsIn | IsNull | TextMatch | Not | AllOf | AnyOf
