"""The parsed form of a schema text: what was written and where, before any rule is applied.

The parser makes these values, `build_catalog.py` turns them into a catalog. ``at`` is always a character offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from omnigraph.schema.catalog import Annotation, Cardinality, PropertyType

ColumnRule: TypeAlias = Literal["key", "unique", "index"]


class Name(Struct, frozen=True):
    text: str
    at: int


class Owner(Struct, frozen=True):
    """The declaration that a property or a rule belongs to. ``str()`` gives ``node Person``."""

    kind: Literal["interface", "node", "edge"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class AnnotationSyntax(Struct, frozen=True):
    value: Annotation
    at: int

    @property
    def name(self) -> str:
        return self.value.name


class PropertySyntax(Struct, frozen=True):
    name: str
    at: int
    type: PropertyType
    annotations: tuple[AnnotationSyntax, ...]


class ColumnsSyntax(Struct, frozen=True):
    """``@key(a, b)``, ``@unique(a)``, ``@index(a)``; also made of a bare ``@key`` on a property."""

    rule: ColumnRule
    columns: tuple[Name, ...]
    at: int


class RangeSyntax(Struct, frozen=True):
    property: Name
    low: int | float | None
    high: int | float | None
    at: int


class CheckSyntax(Struct, frozen=True):
    property: Name
    pattern: str
    at: int


ConstraintSyntax: TypeAlias = ColumnsSyntax | RangeSyntax | CheckSyntax


class InterfaceSyntax(Struct, frozen=True):
    name: Name
    properties: tuple[PropertySyntax, ...]


class NodeSyntax(Struct, frozen=True):
    name: Name
    annotations: tuple[AnnotationSyntax, ...]
    implements: tuple[Name, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


class EdgeSyntax(Struct, frozen=True):
    name: Name
    source: Name
    target: Name
    cardinality: Cardinality
    annotations: tuple[AnnotationSyntax, ...]
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


class SchemaSyntax(Struct, frozen=True):
    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]

    def annotations(self) -> Iterator[tuple[str, AnnotationSyntax]]:
        """Every annotation with what it stands on: ``node:Person``, ``edge:Knows.since``."""
        for kind, declarations in (("interface", self.interfaces), ("node", self.nodes), ("edge", self.edges)):
            for declared in declarations:
                entity = f"{kind}:{declared.name.text}"
                yield from ((entity, each) for each in getattr(declared, "annotations", ()))
                for prop in declared.properties:
                    yield from ((f"{entity}.{prop.name}", each) for each in prop.annotations)
