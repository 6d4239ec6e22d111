"""Warnings for a schema that compiles: declarations that are accepted and have no effect.

`SchemaFinding` is the shape of every remark on a schema text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Catalog, Property
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.schema_rules import ANNOTATION_WORDS, KNOWN_ANNOTATIONS
from omnigraph.schema.syntax import ColumnsSyntax, ConstraintSyntax, Owner, SchemaSyntax

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """A remark with its place.

    Attributes:
        code: stable name that tools may match on.
        severity: an ``error`` keeps the schema from being used, a ``warning`` does not.
        message: one sentence for a person.
        entity: ``node:Person``, ``edge:Knows.since``, or None when the text could not be read that far.
        line: from 1, or None when the place is not known.
        column: from 1, or None.
    """

    code: str
    severity: Severity
    message: str
    entity: str | None = None
    line: int | None = None
    column: int | None = None


class SchemaWarning(UserWarning):
    """A new graph has a schema with declarations that have no effect."""


RENAME_HINT = "schema.warning.rename_hint"
OPAQUE = "schema.warning.opaque_annotation"
COMPOSITE_INDEX = "schema.warning.composite_index"
EDGE_INDEX = "schema.warning.edge_index"
LIST_INDEX = "schema.warning.list_index"
LIST_RULE = "schema.warning.list_rule"


def unknown_annotations(findings: Iterable[SchemaFinding]) -> tuple[SchemaFinding, ...]:
    """The findings that are likely to be mistakes, wherever a schema is used."""
    return tuple(each for each in findings if each.code == OPAQUE)


@dataclass(frozen=True, slots=True)
class _Remark:
    """A finding before its place in the text is known."""

    code: str
    entity: str
    message: str
    at: int


def warnings_of(syntax: SchemaSyntax, catalog: Catalog, source: SchemaText) -> tuple[SchemaFinding, ...]:
    """All warnings, in the order of the text."""
    return tuple(
        SchemaFinding(each.code, "warning", each.message, each.entity, *source.place(each.at))
        for each in sorted(_remarks(syntax, catalog), key=lambda each: (each.at, each.code))
    )


def _remarks(syntax: SchemaSyntax, catalog: Catalog) -> Iterator[_Remark]:
    yield from _on_annotations(syntax)
    for node in syntax.nodes:
        owner = Owner("node", node.name.text)
        yield from _on_constraints(owner, node.constraints, catalog.nodes[owner.name].properties)
    for edge in syntax.edges:
        owner = Owner("edge", edge.name.text)
        yield from _on_constraints(owner, edge.constraints, catalog.edges[owner.name].properties)


def _on_annotations(syntax: SchemaSyntax) -> Iterator[_Remark]:
    for entity, each in syntax.annotations():
        if each.name == "rename_from":
            message = "@rename_from is ignored when a graph is created; it matters only to a schema change"
            yield _Remark(RENAME_HINT, entity, message, each.at)
        elif each.name == "index" and entity.startswith("edge:"):
            yield _edge_index(entity, each.at)
        elif each.name not in KNOWN_ANNOTATIONS:
            yield _Remark(OPAQUE, entity, _opaque_message(each.name), each.at)


@lru_cache(maxsize=256)
def _opaque_message(name: str) -> str:
    message = f"@{name} is kept as it is and has no effect"
    hint = did_you_mean(f"@{name}", (f"@{known}" for known in ANNOTATION_WORDS))
    return f"{message}; {hint}" if hint else message


def _on_constraints(
    owner: Owner, constraints: Iterable[ConstraintSyntax], properties: Mapping[str, Property]
) -> Iterator[_Remark]:
    entity = f"{owner.kind}:{owner.name}"
    for each in constraints:
        if isinstance(each, ColumnsSyntax):
            if each.rule == "index":
                yield from _on_index(entity, each, properties)
        elif properties[each.property.text].type.list:
            message = f"the rule on list property '{each.property.text}' is never enforced"
            yield _Remark(LIST_RULE, f"{entity}.{each.property.text}", message, each.at)


def _on_index(entity: str, index: ColumnsSyntax, properties: Mapping[str, Property]) -> Iterator[_Remark]:
    names = [column.text for column in index.columns]
    if len(names) > 1:
        message = f"@index({', '.join(names)}) builds no index: only single columns are indexed"
        yield _Remark(COMPOSITE_INDEX, entity, message, index.at)
        return
    entity, column = f"{entity}.{names[0]}", names[0]
    if entity.startswith("edge:"):
        if column not in ENDPOINT_COLUMNS:
            yield _edge_index(entity, index.at)
    elif properties[column].type.list:
        yield _Remark(LIST_INDEX, entity, "@index on a list property builds no index", index.at)


def _edge_index(entity: str, at: int) -> _Remark:
    return _Remark(EDGE_INDEX, entity, "@index on an edge property builds no index", at)
