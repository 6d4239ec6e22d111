"""Conditions on one assignment, in SQL's three-valued logic: unknown is no match."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from omnigraph.query.typed.expressions import Constant, Operand, ParamRef, PropertyRef, Variable


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
