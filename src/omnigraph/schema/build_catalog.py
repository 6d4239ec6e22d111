"""Syntax → catalog: puts the declarations together and applies every rule that needs more than one of them.

Rules about one type live in `schema_rules.py`. What comes out is
canonical: names in ascending order, so that equal schemas are equal catalogs however they were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Catalog, EdgeType, InterfaceType, NodeType, Property, Scalar
from omnigraph.schema.parse_schema import COLUMN_RULES
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.schema_rules import (
    ConstraintChecker,
    PatternChecker,
    checked_property,
    in_canonical_order,
    type_texts,
)
from omnigraph.schema.stable_ids import table_path
from omnigraph.schema.syntax import (
    ColumnsSyntax,
    ConstraintSyntax,
    EdgeSyntax,
    Name,
    NodeSyntax,
    Owner,
    PropertySyntax,
    SchemaSyntax,
)

_Named = TypeVar("_Named", InterfaceType, NodeType, EdgeType)

_EDGE_WORDS = frozenset({*ENDPOINT_COLUMNS, "from", "to"})


@dataclass(frozen=True, slots=True)
class _Declared:
    """A checked property and the syntax it came from, which knows the places."""

    value: Property
    syntax: PropertySyntax


def build_catalog(syntax: SchemaSyntax, source: SchemaText) -> Catalog:
    """Check a parsed schema and give its catalog.

    Raises:
        SchemaError: a declaration breaks a rule of the language.
        CatalogError: the declarations do not fit together.
    """
    return _Builder(source).build(syntax)


class _Builder:
    def __init__(self, source: SchemaText) -> None:
        self._source = source
        self._patterns = PatternChecker(source)
        self._interfaces: dict[str, dict[str, _Declared]] = {}

    def build(self, syntax: SchemaSyntax) -> Catalog:
        self._refuse_repeated_names(syntax)
        for interface in syntax.interfaces:
            owner = Owner("interface", interface.name.text)
            self._interfaces[owner.name] = self._properties(owner, interface.properties)
        nodes = _by_name(self._node(node) for node in syntax.nodes)
        edges = _by_name(self._edge(edge) for edge in syntax.edges)
        self._check_edges(syntax.edges, nodes)
        interfaces = _by_name(InterfaceType(name, _values(found)) for name, found in self._interfaces.items())
        return Catalog(interfaces, nodes, edges)

    def _refuse_repeated_names(self, syntax: SchemaSyntax) -> None:
        for names, message in (
            ([each.name for each in syntax.interfaces], "duplicate interface name in schema shape"),
            ([each.name for each in syntax.nodes], "duplicate node type: {}"),
            ([each.name for each in syntax.edges], "duplicate edge type: {}"),
        ):
            seen: set[str] = set()
            for name in names:
                if name.text in seen:
                    raise self._source.misfit(message.format(name.text), name.at)
                seen.add(name.text)
        self._refuse_shared_paths("node", [each.name for each in syntax.nodes])
        self._refuse_shared_paths("edge", [each.name for each in syntax.edges])

    def _refuse_shared_paths(self, kind: str, names: list[Name]) -> None:
        owners: dict[str, str] = {}
        for name in names:
            first = owners.setdefault(table_path(kind, name.text), name.text)
            if first != name.text:
                problem = f"{kind} types '{first}' and '{name.text}' would share the table path"
                raise self._source.misfit(
                    f"{problem} {table_path(kind, name.text)}", name.at, hint="rename one of them"
                )

    def _properties(self, owner: Owner, properties: Iterable[PropertySyntax]) -> dict[str, _Declared]:
        found: dict[str, _Declared] = {}
        for each in properties:
            if each.name in found:
                node_form = f"duplicate property '{owner.name}.{each.name}'"
                other_form = f"duplicate property in schema shape for '{owner.name}'"
                raise self._source.misfit(node_form if owner.kind == "node" else other_form, each.at)
            found[each.name] = _Declared(checked_property(owner, each, self._source), each)
        return found

    def _node(self, syntax: NodeSyntax) -> NodeType:
        owner = Owner("node", syntax.name.text)
        description, instruction = type_texts(owner, syntax.annotations, self._source)
        own = self._properties(owner, syntax.properties)
        found = own | self._inherited(owner, syntax.implements, own)
        self._refuse_table_columns(owner, found)
        properties = _values(found)
        self._check_embeds(owner, found)
        rules = ConstraintChecker(owner, properties, self._source, self._patterns).check(
            _constraints(found, syntax.constraints)
        )
        return NodeType(
            name=owner.name,
            properties=properties,
            implements=tuple(sorted({name.text for name in syntax.implements})),
            key=rules.key,
            uniques=rules.uniques,
            indexes=rules.indexes,
            ranges=rules.ranges,
            checks=rules.checks,
            annotations=in_canonical_order(syntax.annotations),
            description=description,
            instruction=instruction,
            inherited=tuple(sorted(found.keys() - own.keys())),
            restated=rules.restated,
        )

    def _inherited(self, owner: Owner, names: Iterable[Name], own: Mapping[str, _Declared]) -> dict[str, _Declared]:
        """The properties that the listed interfaces add to a node."""
        injected: dict[str, _Declared] = {}
        for name in names:
            if name.text not in self._interfaces:
                problem = f"node {owner.name} implements unknown interface '{name.text}'"
                raise self._source.rule(problem, name.at)
            for prop, wanted in self._interfaces[name.text].items():
                present = own.get(prop) or injected.get(prop)
                if present is None:
                    injected[prop] = wanted
                    continue
                if present.value.type != wanted.value.type:
                    raise self._source.rule(
                        f"node {owner.name} property '{prop}' has type {present.value.type} "
                        f"but interface {name.text} declares it as {wanted.value.type}",
                        present.syntax.at if prop in own else name.at,
                    )
                if prop in injected and present.value.annotations != wanted.value.annotations:
                    problem = f"interfaces contributing '{owner.name}.{prop}' have incompatible property semantics"
                    raise self._source.rule(problem, name.at)
        return injected

    def _refuse_table_columns(self, owner: Owner, found: Mapping[str, _Declared]) -> None:
        """Refuse properties whose column the table has already, or that a mutation would read as an endpoint."""
        for name, declared in found.items():
            if name == "id":
                problem = "property name 'id' is reserved: every node and every edge has an id already"
                raise self._source.rule(f"{problem} ({owner})", declared.syntax.at)
            if owner.kind == "edge" and name in _EDGE_WORDS:
                problem = f"property name '{name}' is reserved for the endpoints of an edge"
                raise self._source.rule(f"{problem} ({owner})", declared.syntax.at)

    def _check_embeds(self, owner: Owner, found: Mapping[str, _Declared]) -> None:
        for name, declared in found.items():
            embed = declared.value.embed
            if embed is None:
                continue
            at = next(each.at for each in declared.syntax.annotations if each.name == "embed")
            origin = found.get(embed.source)
            if origin is None:
                problem = f"references unknown source property {embed.source}"
                raise self._source.rule(f"@embed on {owner.name}.{name} {problem}", at)
            if origin.value.type.scalar is not Scalar.STRING or origin.value.type.list:
                raise self._source.rule(f"@embed source property {owner.name}.{embed.source} must be String", at)

    def _edge(self, syntax: EdgeSyntax) -> EdgeType:
        owner = Owner("edge", syntax.name.text)
        description, instruction = type_texts(owner, syntax.annotations, self._source)
        found = self._properties(owner, syntax.properties)
        self._refuse_table_columns(owner, found)
        properties = _values(found)
        rules = ConstraintChecker(owner, properties, self._source, self._patterns).check(
            _constraints(found, syntax.constraints)
        )
        return EdgeType(
            name=owner.name,
            source=syntax.source.text,
            target=syntax.target.text,
            properties=properties,
            cardinality=syntax.cardinality,
            uniques=rules.uniques,
            indexes=rules.indexes,
            annotations=in_canonical_order(syntax.annotations),
            description=description,
            instruction=instruction,
        )

    def _check_edges(self, edges: Iterable[EdgeSyntax], nodes: Mapping[str, NodeType]) -> None:
        folded: dict[str, str] = {}
        for edge in edges:
            name = edge.name.text
            first = folded.setdefault(name.lower(), name)
            if first != name:
                problem = f"edge name collision after case folding: '{name}' conflicts with '{first}'"
                raise self._source.misfit(problem, edge.name.at)
            for role, end in (("source", edge.source), ("target", edge.target)):
                if end.text not in nodes:
                    hint = "an interface has no rows of its own" if end.text in self._interfaces else None
                    problem = f"edge {name} references unknown {role} type: {end.text}"
                    raise self._source.misfit(problem, end.at, hint=hint)


def _constraints(found: Mapping[str, _Declared], body: Iterable[ConstraintSyntax]) -> list[ConstraintSyntax]:
    """All constraints of a type: those written as bare annotations, by property name, then those in its body."""
    from_annotations: list[ConstraintSyntax] = [
        ColumnsSyntax(rule, (Name(name, each.at),), each.at)
        for name in sorted(found)
        for each in found[name].syntax.annotations
        for rule in COLUMN_RULES
        if each.name == rule
    ]
    return [*from_annotations, *body]


def _values(found: Mapping[str, _Declared]) -> dict[str, Property]:
    return {name: found[name].value for name in sorted(found)}


def _by_name(types: Iterable[_Named]) -> dict[str, _Named]:
    return {each.name: each for each in sorted(types, key=lambda each: each.name)}
