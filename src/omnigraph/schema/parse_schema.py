"""Text → syntax: a recursive descent parser, one function per rule of the grammar.

It knows the grammar and the rules that concern a single token or type; whether declarations make sense together is
decided in `build_catalog.py`. The grammar does not nest, so neither does the parser. First come types and numbers, then
annotations and constraints, then declarations.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args

from omnigraph.integers import INTEGER_BOUNDS, LITERAL_BOUNDS
from omnigraph.schema.catalog import Annotation, Cardinality, Literal, PropertyType, Scalar
from omnigraph.schema.scanner import (
    ENUM_VALUE,
    IDENTIFIER,
    INTEGER,
    NUMBER,
    SIGNED_NUMBER,
    SPACE,
    STRING,
    TYPE_NAME,
    WORD,
    Scanner,
    SchemaText,
)
from omnigraph.schema.syntax import (
    AnnotationSyntax,
    CheckSyntax,
    ColumnRule,
    ColumnsSyntax,
    ConstraintSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    Name,
    NodeSyntax,
    PropertySyntax,
    RangeSyntax,
    SchemaSyntax,
)
from omnigraph.schema.word_hints import nearest, type_hint

MAX_DIMENSION = INTEGER_BOUNDS["I32"].high

#: Digits of an integer in 64 bits; longer ones are refused unread, since reading them takes quadratic time.
_MOST_DIGITS = len(str(LITERAL_BOUNDS.high))

_BASE_TYPES = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.VECTOR}
_TYPE_WORDS = (*_BASE_TYPES, "Vector", "enum")
_EXPECTED_TYPE = f"a type ({', '.join(_BASE_TYPES)}, enum(…), Vector(…) or […])"
_FULLTEXT_HINT = "how texts are searched stands behind their property: body: String @index @fulltext(german)"
_INLINE_ENUM = "enums have no name, write the values where they are used: enum(a, b)"


def parse_type(cursor: Scanner) -> PropertyType:
    """``core_type [ "?" ]``, with the rules that concern the type alone."""
    core = _core_type(cursor)
    return replace(core, nullable=True) if cursor.accept("?") else core


def _core_type(cursor: Scanner) -> PropertyType:
    if cursor.sees("["):
        return PropertyType(_list_item(cursor), list=True)
    word = cursor.peek(WORD)
    spelling = word.group() if word else ""
    if spelling == "enum":
        return PropertyType(Scalar.STRING, enum_values=_enum_values(cursor))
    if spelling == "Vector":
        return PropertyType(Scalar.VECTOR, dimension=_dimension(cursor))
    if spelling not in _BASE_TYPES:
        hint = type_hint(spelling, _TYPE_WORDS) if spelling else None
        raise cursor.failure(_EXPECTED_TYPE, hint=hint or (_INLINE_ENUM if spelling[:1].isupper() else None))
    return PropertyType(_BASE_TYPES[cursor.take(WORD, _EXPECTED_TYPE)])


def _list_item(cursor: Scanner) -> Scalar:
    cursor.expect("[", "before the item type of a list")
    start = cursor.at
    word = cursor.peek(WORD)
    if word is None or word.group() not in _BASE_TYPES:
        hint = type_hint(word.group(), _BASE_TYPES) if word and word.group() not in _TYPE_WORDS else None
        raise cursor.failure(f"a base type as list item ({', '.join(_BASE_TYPES)})", hint=hint)
    scalar = _BASE_TYPES[cursor.take(WORD, "a base type")]
    cursor.expect("]", "after the item type of a list")
    if scalar is Scalar.BLOB:
        raise cursor.source.rule("list of Blob is not supported", start)
    return scalar


def _enum_values(cursor: Scanner) -> tuple[str, ...]:
    start = cursor.at
    cursor.take_word("enum")
    cursor.expect("(", "before the values of an enum")
    values = [cursor.take(ENUM_VALUE, "an enum value (letters, digits, '_' and '-')")]
    while cursor.accept(","):
        values.append(cursor.take(ENUM_VALUE, "an enum value (letters, digits, '_' and '-')"))
    cursor.expect(")", "or ',' after an enum value")
    if len(set(values)) < len(values):
        raise cursor.source.rule("enum type cannot include duplicate values", start)
    return tuple(sorted(values))


def _dimension(cursor: Scanner) -> int:
    cursor.take_word("Vector")
    cursor.expect("(", "before the dimension of a vector")
    start = cursor.at
    dimension = parse_u32(cursor, "invalid Vector dimension")
    cursor.expect(")", "after the dimension of a vector")
    if dimension == 0:
        raise cursor.source.rule("Vector dimension must be greater than zero", start)
    if dimension > MAX_DIMENSION:
        raise cursor.source.rule(f"Vector dimension {dimension} exceeds maximum supported {MAX_DIMENSION}", start)
    return dimension


def parse_u32(cursor: Scanner, complaint: str) -> int:
    """An integer of at most 32 bits; ``complaint`` opens the message for a larger one."""
    start = cursor.at
    digits = cursor.take(INTEGER, "an integer").lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(digits) not in INTEGER_BOUNDS["U32"]:
        raise cursor.source.rule(f"{complaint}: the number does not fit 32 bits", start)
    return int(digits)


def number_of(text: str, cursor: Scanner, at: int) -> int | float:
    """The value of a number literal that was read at offset ``at``."""
    if "." in text:
        value = float(text)
        if math.isinf(value):
            raise cursor.source.rule("the number is too large for a 64-bit float", at)
        return value + 0.0  # turns -0.0 into 0.0
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(sign + digits) not in LITERAL_BOUNDS:
        raise cursor.source.rule("the number does not fit 64 bits", at)
    return int(sign + digits)


COLUMN_RULES: tuple[ColumnRule, ...] = get_args(ColumnRule)

CONSTRAINTS = (*COLUMN_RULES, "range", "check")

_CONSTRAINT = re.compile(rf"@{SPACE}({'|'.join(CONSTRAINTS)})(?![A-Za-z0-9_]){SPACE}\(")
_RANGE = re.compile(rf"-?[0-9]++(?:\.[0-9]++)?+{SPACE}\.\.|\.\.")
_NAMED_AT = re.compile(rf"@{SPACE}([a-z_][A-Za-z0-9_]*+)")


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What ``@range`` is given."""

    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal as an argument."""

    literal: Literal


_Argument: TypeAlias = _Bounds | _Value | Name


def sees_constraint(cursor: Scanner) -> bool:
    """Whether a body constraint comes next: ``@key(`` but not a bare ``@key``."""
    return cursor.peek(_CONSTRAINT) is not None


def annotation_name(cursor: Scanner) -> str | None:
    """The name in an ``@name`` that comes next."""
    match = cursor.peek(_NAMED_AT)
    return match.group(1) if match else None


def parse_annotations(cursor: Scanner) -> tuple[AnnotationSyntax, ...]:
    """All annotations up to the first thing that is none."""
    found = []
    while cursor.sees("@") and not sees_constraint(cursor):
        found.append(_annotation(cursor))
    return tuple(found)


def _annotation(cursor: Scanner) -> AnnotationSyntax:
    start = cursor.at
    if annotation_name(cursor) == "card":
        raise cursor.source.syntax(
            "@card must come directly after the endpoints of an edge", start, hint="edge E: A -> B @card(0..1)"
        )
    cursor.accept("@")
    if cursor.peek(IDENTIFIER) is None and (word := cursor.peek(WORD)) is not None:
        raise cursor.failure("an annotation name after '@'", hint=_constraint_hint(word.group()))
    name = cursor.take(IDENTIFIER, "an annotation name after '@'")
    if not cursor.accept("("):
        return AnnotationSyntax(Annotation(name), start)
    value = _positional(cursor, name)
    keywords: dict[str, Literal] = {}
    while cursor.accept(","):
        at = cursor.at
        expected = f"a named argument such as model=\"…\" after ',' in @{name}"
        if cursor.peek(IDENTIFIER) is None:
            raise cursor.failure(expected, hint=_constraint_hint(name))
        keyword = cursor.take(IDENTIFIER, expected)
        if not cursor.accept("="):
            raise cursor.failure(f"'=' after argument name '{keyword}' of @{name}", hint=_constraint_hint(name))
        if keyword in keywords:
            raise cursor.source.rule(f"@{name} repeats argument '{keyword}='", at)
        keywords[keyword] = _literal(cursor, f"a string, number, true or false for '{keyword}='")
    if not cursor.accept(")"):
        hint = f"the first argument of @{name} has no name" if cursor.sees("=") else _constraint_hint(name)
        raise cursor.failure(f"')' or ',' after an argument of @{name}", hint=hint)
    return AnnotationSyntax(Annotation(name, value, tuple(sorted(keywords.items()))), start)


def _constraint_hint(name: str) -> str | None:
    """What an annotation with the arguments of a rule may have been meant to be."""
    near = nearest(name, (*CONSTRAINTS, "card"), most=2)
    return None if near is None else f"did you mean '@{near}'?"


def _positional(cursor: Scanner, name: str) -> Literal:
    if cursor.peek(TYPE_NAME):
        raise cursor.failure(f"a value for @{name}", hint="put a type name in quotes")
    word = cursor.peek(IDENTIFIER)
    if word and word.group() not in ("true", "false"):
        return cursor.take(IDENTIFIER, "a name")
    expected = f"a string, a number, true, false or a property name as value of @{name}"
    return _literal(cursor, expected, SIGNED_NUMBER if name == "default" else NUMBER)


def _literal(cursor: Scanner, expected: str, number: re.Pattern[str] = NUMBER) -> Literal:
    if cursor.peek(STRING):
        return cursor.take_string(expected)
    if cursor.take_word("true"):
        return True
    if cursor.take_word("false"):
        return False
    start = cursor.at
    return number_of(cursor.take(number, expected), cursor, start)


def parse_constraint(cursor: Scanner) -> ConstraintSyntax:
    """``@key(…)``, ``@unique(…)``, ``@index(…)``, ``@range(…)`` or ``@check(…)``."""
    start = cursor.at
    cursor.accept("@")
    name = cursor.take(IDENTIFIER, "a constraint name")
    cursor.expect("(", f"after @{name}")
    arguments = [_argument(cursor, name)]
    while cursor.accept(","):
        arguments.append(_argument(cursor, name))
    if name == "index" and cursor.sees("="):
        raise cursor.failure("')' or ',' after a property of @index", hint=_FULLTEXT_HINT)
    cursor.expect(")", f"or ',' after an argument of @{name}")
    match name:
        case "range":
            return _range(cursor, arguments, start)
        case "check":
            return _check(cursor, arguments, start)
    rule = next(rule for rule in COLUMN_RULES if rule == name)
    return ColumnsSyntax(rule, tuple(_property_name(cursor, argument) for argument in arguments), start)


def _argument(cursor: Scanner, name: str) -> tuple[_Argument, int]:
    start = cursor.at
    if cursor.peek(_RANGE):
        return _bounds(cursor), start
    word = cursor.peek(IDENTIFIER)
    if word and word.group() not in ("true", "false"):
        return Name(cursor.take(IDENTIFIER, "a property name"), start), start
    return _Value(_literal(cursor, f"an argument of @{name}")), start


def _bounds(cursor: Scanner) -> _Bounds:
    low = None if cursor.sees("..") else _bound(cursor)
    cursor.expect("..", "between the bounds of a range")
    high = _bound(cursor) if low is None or cursor.peek(SIGNED_NUMBER) else None
    return _Bounds(low, high)


def _bound(cursor: Scanner) -> int | float:
    start = cursor.at
    return number_of(cursor.take(SIGNED_NUMBER, "a number as bound of a range"), cursor, start)


def _range(cursor: Scanner, arguments: list[tuple[_Argument, int]], start: int) -> RangeSyntax:
    if len(arguments) != 2:
        raise cursor.source.rule("@range requires property name and bounds: @range(prop, min..max)", start)
    name = _property_name(cursor, arguments[0])
    bounds, at = arguments[1]
    if not isinstance(bounds, _Bounds):
        raise cursor.source.rule("expected range bounds (min..max) in @range constraint", at)
    return RangeSyntax(name, bounds.low, bounds.high, start)


def _check(cursor: Scanner, arguments: list[tuple[_Argument, int]], start: int) -> CheckSyntax:
    if len(arguments) != 2:
        raise cursor.source.rule('@check requires property name and pattern: @check(prop, "regex")', start)
    name = _property_name(cursor, arguments[0])
    pattern, at = arguments[1]
    if not isinstance(pattern, _Value) or not isinstance(pattern.literal, str):
        raise cursor.source.rule("expected string argument in constraint", at)
    return CheckSyntax(name, pattern.literal, start)


def _property_name(cursor: Scanner, argument: tuple[_Argument, int]) -> Name:
    value, at = argument
    if not isinstance(value, Name):
        raise cursor.source.rule("expected property name in constraint", at)
    return value


def parse_schema(source: SchemaText) -> SchemaSyntax:
    """Parse a whole schema text.

    Raises:
        SchemaSyntaxError: the text does not follow the grammar.
        SchemaError: a type, number or constraint is well-formed but not allowed.
    """
    cursor = Scanner(source)
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


def _not_a_declaration(cursor: Scanner) -> Exception:
    hint = None
    if sees_constraint(cursor):
        hint = f"@{annotation_name(cursor)}(…) belongs inside the braces of a node or edge"
    elif cursor.sees("@"):
        hint = "annotations of a type stand before its body"
    return cursor.failure("'interface', 'node' or 'edge'", hint=hint)


def _interface(cursor: Scanner) -> InterfaceSyntax:
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


def _node(cursor: Scanner) -> NodeSyntax:
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


def _no_node_body(cursor: Scanner, name: str, implements: bool) -> Exception:
    hint = None
    if sees_constraint(cursor):
        hint = f"@{annotation_name(cursor)}(…) belongs inside the braces"
    elif cursor.sees("@"):
        hint = "annotations stand before 'implements'"
    return cursor.failure("'{'" if implements else f"'{{' or 'implements' after node {name}", hint=hint)


def _edge(cursor: Scanner) -> EdgeSyntax:
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


def _cardinality(cursor: Scanner) -> Cardinality:
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


def _body(cursor: Scanner, owner: str) -> tuple[tuple[PropertySyntax, ...], tuple[ConstraintSyntax, ...]]:
    """The items up to the closing brace; the opening one is already read."""
    properties: list[PropertySyntax] = []
    constraints: list[ConstraintSyntax] = []
    while not cursor.accept("}"):
        if sees_constraint(cursor):
            constraints.append(parse_constraint(cursor))
        elif cursor.sees("@"):
            raise cursor.failure(
                f"a property, a constraint or '}}' in {owner}",
                hint=_constraint_hint(annotation_name(cursor) or "")
                or "an annotation directly follows the property it "
                "belongs to; a constraint names its properties, as in @key(a)",
            )
        else:
            properties.append(_property(cursor, owner))
    return tuple(properties), tuple(constraints)


def _property(cursor: Scanner, owner: str) -> PropertySyntax:
    start = cursor.at
    if not cursor.peek(IDENTIFIER):
        hint = "property names start with a lower-case letter or '_'" if cursor.peek(WORD) else None
        raise cursor.failure(f"a property name or '}}' in {owner}", hint=hint)
    name = cursor.take(IDENTIFIER, "a property name")
    cursor.expect(":", f"after property name '{name}'")
    return PropertySyntax(name, start, parse_type(cursor), parse_annotations(cursor))


def _type_name(cursor: Scanner, kind: str) -> Name:
    start = cursor.at
    return Name(cursor.take(TYPE_NAME, f"the name of {_ARTICLE[kind]} (it starts with a capital letter)"), start)


_ARTICLE = {"interface": "an interface", "node": "a node type", "edge": "an edge type"}
