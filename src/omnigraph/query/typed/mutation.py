"""Typed writes: statements whose values fit their properties up to what only a value can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.query.typed.expressions import Constant, Now, Parameter, ParamRef
from omnigraph.query.typed.predicates import Operator
from omnigraph.schema.catalog import PropertyType

MutationValue: TypeAlias = ParamRef | Constant | Now


@dataclass(frozen=True, slots=True)
class Assignment:
    """``type`` is the type of the property; the value fits it up to range, length, enum and null checks."""

    property: str
    value: MutationValue
    type: PropertyType


@dataclass(frozen=True, slots=True)
class RowTest:
    """The one comparison of a ``where``. ``column`` is the stored column: ``from`` is ``src``, ``to`` is ``dst``."""

    column: str
    operator: Operator
    value: MutationValue
    type: PropertyType


@dataclass(frozen=True, slots=True)
class InsertNode:
    type_name: str
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class InsertEdge:
    type_name: str
    source: MutationValue
    target: MutationValue
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class UpdateNode:
    type_name: str
    assignments: tuple[Assignment, ...]
    where: RowTest


@dataclass(frozen=True, slots=True)
class DeleteNode:
    type_name: str
    where: RowTest


@dataclass(frozen=True, slots=True)
class DeleteEdge:
    type_name: str
    where: RowTest


Statement: TypeAlias = InsertNode | InsertEdge | UpdateNode | DeleteNode | DeleteEdge


@dataclass(frozen=True, slots=True)
class TypedMutation:
    """A write: statements in order, either all constructive or all destructive."""

    name: str
    params: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    description: str | None = None
    instruction: str | None = None
