"""Text → syntax: a recursive descent parser, one function per rule of the grammar.

It knows the grammar and the rules that concern a single token or type; whether declarations make sense together is
decided in `build.py`. The grammar does not nest, so neither does the parser.
"""

from __future__ import annotations

from omnigraph.schema.catalog import Cardinality
from omnigraph.schema.lexer import IDENTIFIER, TYPE_NAME, WORD, Cursor
from omnigraph.schema.parse_rules import annotation_name, parse_annotations, parse_constraint, sees_constraint
from omnigraph.schema.parse_types import parse_type, parse_u32
from omnigraph.schema.source import Source
from omnigraph.schema.syntax import (
    ConstraintSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    Name,
    NodeSyntax,
    PropertySyntax,
    SchemaSyntax,
)


def parse(source: Source) -> SchemaSyntax:
    """Parse a whole schema text.

    Raises:
        SchemaSyntaxError: the text does not follow the grammar.
        SchemaError: a type, number or constraint is well-formed but not allowed.
    """
    cursor = Cursor(source)
    interfaces, nodes, edges = [], [], []
    while not cursor.at_end:
        if cursor.take_word("interface"):
            interfaces.append(_interface(cursor))
        elif cursor.take_word("node"):
            nodes.append(_node(cursor))
        elif cursor.take_word("edge"):
            edges.append(_edge(cursor))
        else:
            raise _not_a_declaration(cursor)
    return SchemaSyntax(tuple(interfaces), tuple(nodes), tuple(edges))


def _not_a_declaration(cursor: Cursor) -> Exception:
    hint = None
    if sees_constraint(cursor):
        hint = f"@{annotation_name(cursor)}(…) belongs inside the braces of a node or edge"
    elif cursor.sees("@"):
        hint = "annotations of a type stand before its body"
    return cursor.failure("'interface', 'node' or 'edge'", hint=hint)


def _interface(cursor: Cursor) -> InterfaceSyntax:
    name = _type_name(cursor, "interface")
    cursor.expect("{", f"after the name of interface {name.text}")
    properties = []
    while not cursor.accept("}"):
        if cursor.sees("@"):
            raise cursor.failure(
                f"a property or '}}' in interface {name.text}",
                hint="an interface holds properties only; constraints belong to the nodes that implement it",
            )
        properties.append(_property(cursor, f"interface {name.text}"))
    return InterfaceSyntax(name, tuple(properties))


def _node(cursor: Cursor) -> NodeSyntax:
    name = _type_name(cursor, "node")
    annotations = parse_annotations(cursor)
    implements = []
    if cursor.take_word("implements"):
        implements.append(_type_name(cursor, "interface"))
        while cursor.accept(","):
            implements.append(_type_name(cursor, "interface"))
    if not cursor.accept("{"):
        raise _no_node_body(cursor, name.text, bool(implements))
    properties, constraints = _body(cursor, f"node {name.text}")
    return NodeSyntax(name, annotations, tuple(implements), properties, constraints)


def _no_node_body(cursor: Cursor, name: str, implements: bool) -> Exception:
    hint = None
    if sees_constraint(cursor):
        hint = f"@{annotation_name(cursor)}(…) belongs inside the braces"
    elif cursor.sees("@"):
        hint = "annotations stand before 'implements'"
    return cursor.failure("'{'" if implements else f"'{{' or 'implements' after node {name}", hint=hint)


def _edge(cursor: Cursor) -> EdgeSyntax:
    name = _type_name(cursor, "edge")
    cursor.expect(":", f"after the name of edge {name.text} (edge {name.text}: From -> To)")
    source = _type_name(cursor, "node")
    cursor.expect("->", f"between the endpoints of edge {name.text}")
    target = _type_name(cursor, "node")
    cardinality = _cardinality(cursor) if annotation_name(cursor) == "card" else Cardinality()
    annotations = parse_annotations(cursor)
    properties: tuple[PropertySyntax, ...] = ()
    constraints: tuple[ConstraintSyntax, ...] = ()
    if cursor.accept("{"):
        properties, constraints = _body(cursor, f"edge {name.text}")
    return EdgeSyntax(name, source, target, cardinality, annotations, properties, constraints)


def _cardinality(cursor: Cursor) -> Cardinality:
    start = cursor.at
    cursor.accept("@")
    cursor.take_word("card")
    cursor.expect("(", "after @card, as in @card(0..1)")
    low = parse_u32(cursor, "invalid cardinality")
    cursor.expect("..", "after the minimum in @card")
    high = None if cursor.sees(")") else parse_u32(cursor, "invalid cardinality")
    cursor.expect(")", "after the bounds of @card")
    if high is not None and low > high:
        raise cursor.source.rule(f"cardinality min ({low}) exceeds max ({high})", start)
    return Cardinality(low, high)


def _body(cursor: Cursor, owner: str) -> tuple[tuple[PropertySyntax, ...], tuple[ConstraintSyntax, ...]]:
    """The items up to the closing brace; the opening one is already read."""
    properties: list[PropertySyntax] = []
    constraints: list[ConstraintSyntax] = []
    while not cursor.accept("}"):
        if sees_constraint(cursor):
            constraints.append(parse_constraint(cursor))
        elif cursor.sees("@"):
            raise cursor.failure(
                f"a property, a constraint or '}}' in {owner}",
                hint="an annotation directly follows the property it belongs to; a constraint names its properties, "
                "as in @key(a)",
            )
        else:
            properties.append(_property(cursor, owner))
    return tuple(properties), tuple(constraints)


def _property(cursor: Cursor, owner: str) -> PropertySyntax:
    start = cursor.at
    if not cursor.peek(IDENTIFIER):
        hint = "property names start with a lower-case letter or '_'" if cursor.peek(WORD) else None
        raise cursor.failure(f"a property name or '}}' in {owner}", hint=hint)
    name = cursor.take(IDENTIFIER, "a property name")
    cursor.expect(":", f"after property name '{name}'")
    return PropertySyntax(name, start, parse_type(cursor), parse_annotations(cursor))


def _type_name(cursor: Cursor, kind: str) -> Name:
    start = cursor.at
    return Name(cursor.take(TYPE_NAME, f"the name of {_ARTICLE[kind]} (it starts with a capital letter)"), start)


_ARTICLE = {"interface": "an interface", "node": "a node type", "edge": "an edge type"}
