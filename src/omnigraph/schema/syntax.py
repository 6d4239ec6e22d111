"""The parsed form of a schema text: what was written and where, before any rule is applied.

The parser makes these values, `build_catalog.py` turns them into a catalog. ``at`` is always a character offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from omnigraph.schema.catalog import Annotation, Cardinality, PropertyType

ColumnRule: TypeAlias = Literal["key", "unique", "index"]


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Owner:
    """The declaration that a property or a rule belongs to. ``str()`` gives ``node Person``."""

    kind: Literal["interface", "node", "edge"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class AnnotationSyntax:
    value: Annotation
    at: int

    @property
    def name(self) -> str:
        return self.value.name


@dataclass(frozen=True, slots=True)
class PropertySyntax:
    name: str
    at: int
    type: PropertyType
    annotations: tuple[AnnotationSyntax, ...]


@dataclass(frozen=True, slots=True)
class ColumnsSyntax:
    """``@key(a, b)``, ``@unique(a)``, ``@index(a)``; also made of a bare ``@key`` on a property."""

    rule: ColumnRule
    columns: tuple[Name, ...]
    at: int


@dataclass(frozen=True, slots=True)
class RangeSyntax:
    property: Name
    low: int | float | None
    high: int | float | None
    at: int


@dataclass(frozen=True, slots=True)
class CheckSyntax:
    property: Name
    pattern: str
    at: int


ConstraintSyntax: TypeAlias = ColumnsSyntax | RangeSyntax | CheckSyntax


@dataclass(frozen=True, slots=True)
class InterfaceSyntax:
    name: Name
    properties: tuple[PropertySyntax, ...]


@dataclass(frozen=True, slots=True)
class NodeSyntax:
    name: Name
    annotations: tuple[AnnotationSyntax, ...]
    implements: tuple[Name, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    name: Name
    source: Name
    target: Name
    cardinality: Cardinality
    annotations: tuple[AnnotationSyntax, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


@dataclass(frozen=True, slots=True)
class SchemaSyntax:
    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]
