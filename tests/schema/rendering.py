"""Catalog → `.pg` text in one canonical layout; compiling it gives an equal catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.schema.catalog import (
    Annotation,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.schema.literals import bounds_text, literal_text

_INDENT = "    "


def render(catalog: Catalog) -> str:
    """The schema as text: interfaces, nodes, edges, each by name.

    >>> from omnigraph.schema.compiled_schema import compile_schema
    >>> print(render(compile_schema("node B{y:I32@index x:String}edge E:B->B").catalog), end="")
    node B {
        x: String
        y: I32 @index
    }
    <BLANKLINE>
    edge E: B -> B
    """
    declarations = [
        *(_interface(each) for each in catalog.interfaces.values()),
        *(_node(each) for each in catalog.nodes.values()),
        *(_edge(each) for each in catalog.edges.values()),
    ]
    return "\n\n".join(declarations) + "\n" if declarations else ""


def _interface(interface: InterfaceType) -> str:
    return _with_body(f"interface {interface.name}", _properties(interface.properties.values()))


def _node(node: NodeType) -> str:
    header = " ".join([f"node {node.name}", *map(_annotation, node.annotations)])
    if node.implements:
        header += f" implements {', '.join(node.implements)}"
    own = [each for name, each in node.properties.items() if name not in node.inherited]
    return _with_body(header, [*_properties(own), *_node_constraints(node)])


def _edge(edge: EdgeType) -> str:
    header = f"edge {edge.name}: {edge.source} -> {edge.target}"
    if not edge.cardinality.is_default:
        high = "" if edge.cardinality.high is None else edge.cardinality.high
        header += f" @card({edge.cardinality.low}..{high})"
    header = " ".join([header, *map(_annotation, edge.annotations)])
    body = [*_properties(edge.properties.values()), *_column_constraints(edge)]
    return _with_body(header, body) if body else header


def _with_body(header: str, lines: Iterable[str]) -> str:
    body = [f"{_INDENT}{line}\n" for line in lines]
    return f"{header} {{\n{''.join(body)}}}" if body else f"{header} {{}}"


def _properties(properties: Iterable[Property]) -> list[str]:
    return [" ".join([f"{each.name}: {each.type}", *map(_annotation, each.annotations)]) for each in properties]


def _node_constraints(node: NodeType) -> Iterator[str]:
    if node.key is not None and not _written_on_property(node, "key", node.key):
        yield f"@key({', '.join(node.key)})"
    yield from _column_constraints(node)
    yield from (f"@range({each.property}, {bounds_text(each)})" for each in node.ranges)
    yield from (f"@check({each.property}, {literal_text(each.pattern)})" for each in node.checks)


def _column_constraints(type_: NodeType | EdgeType) -> Iterator[str]:
    for rule, declared in (("unique", type_.uniques), ("index", type_.indexes)):
        for columns in declared:
            if not _written_on_property(type_, rule, columns):
                yield f"@{rule}({', '.join(columns)})"


def _written_on_property(type_: NodeType | EdgeType, rule: str, columns: tuple[str, ...]) -> bool:
    """Whether a bare annotation on a property already says it."""
    if len(columns) != 1 or columns[0] not in type_.properties:
        return False
    return any(each.name == rule for each in type_.properties[columns[0]].annotations)


def _annotation(annotation: Annotation) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={literal_text(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join([literal_text(annotation.value), *keywords])})"
