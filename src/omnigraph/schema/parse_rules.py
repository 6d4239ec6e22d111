"""Parses everything that starts with ``@``: annotations and body constraints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias, get_args

from omnigraph.schema.catalog import Annotation, Literal
from omnigraph.schema.lexer import IDENTIFIER, NUMBER, SIGNED_NUMBER, SPACE, STRING, TYPE_NAME, Cursor
from omnigraph.schema.parse_types import number_of
from omnigraph.schema.syntax import (
    AnnotationSyntax,
    CheckSyntax,
    ColumnRule,
    ColumnsSyntax,
    ConstraintSyntax,
    Name,
    RangeSyntax,
)

COLUMN_RULES: tuple[ColumnRule, ...] = get_args(ColumnRule)

_CONSTRAINT = re.compile(rf"@{SPACE}({'|'.join((*COLUMN_RULES, 'range', 'check'))})(?![A-Za-z0-9_]){SPACE}\(")
_RANGE = re.compile(rf"-?[0-9]++(?:\.[0-9]++)?+{SPACE}\.\.|\.\.")
_NAMED_AT = re.compile(rf"@{SPACE}([a-z_][A-Za-z0-9_]*+)")


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True)
class _Value:
    literal: Literal


_Argument: TypeAlias = _Bounds | _Value | Name


def sees_constraint(cursor: Cursor) -> bool:
    """Whether a body constraint comes next: ``@key(`` but not a bare ``@key``."""
    return cursor.peek(_CONSTRAINT) is not None


def annotation_name(cursor: Cursor) -> str | None:
    """The name in an ``@name`` that comes next."""
    match = cursor.peek(_NAMED_AT)
    return match.group(1) if match else None


def parse_annotations(cursor: Cursor) -> tuple[AnnotationSyntax, ...]:
    """All annotations up to the first thing that is none."""
    found = []
    while cursor.sees("@") and not sees_constraint(cursor):
        found.append(_annotation(cursor))
    return tuple(found)


def _annotation(cursor: Cursor) -> AnnotationSyntax:
    start = cursor.at
    if annotation_name(cursor) == "card":
        raise cursor.source.syntax(
            "@card must come directly after the endpoints of an edge", start, hint="edge E: A -> B @card(0..1)"
        )
    cursor.accept("@")
    name = cursor.take(IDENTIFIER, "an annotation name after '@'")
    if not cursor.accept("("):
        return AnnotationSyntax(Annotation(name), start)
    value = _positional(cursor, name)
    keywords: dict[str, Literal] = {}
    while cursor.accept(","):
        at = cursor.at
        keyword = cursor.take(IDENTIFIER, f"a named argument such as model=\"…\" after ',' in @{name}")
        cursor.expect("=", f"after argument name '{keyword}' of @{name}")
        if keyword in keywords:
            raise cursor.source.rule(f"@{name} repeats argument '{keyword}='", at)
        keywords[keyword] = _literal(cursor, f"a string, number, true or false for '{keyword}='")
    cursor.expect(")", f"or ',' after an argument of @{name}")
    return AnnotationSyntax(Annotation(name, value, tuple(sorted(keywords.items()))), start)


def _positional(cursor: Cursor, name: str) -> Literal:
    if cursor.peek(TYPE_NAME):
        raise cursor.failure(f"a value for @{name}", hint="put a type name in quotes")
    word = cursor.peek(IDENTIFIER)
    if word and word.group() not in ("true", "false"):
        return cursor.take(IDENTIFIER, "a name")
    return _literal(cursor, f"a string, a number, true, false or a property name as value of @{name}")


def _literal(cursor: Cursor, expected: str) -> Literal:
    if cursor.peek(STRING):
        return cursor.take_string(expected)
    if cursor.take_word("true"):
        return True
    if cursor.take_word("false"):
        return False
    start = cursor.at
    return number_of(cursor.take(NUMBER, expected), cursor, start)


def parse_constraint(cursor: Cursor) -> ConstraintSyntax:
    """``@key(…)``, ``@unique(…)``, ``@index(…)``, ``@range(…)`` or ``@check(…)``."""
    start = cursor.at
    cursor.accept("@")
    name = cursor.take(IDENTIFIER, "a constraint name")
    cursor.expect("(", f"after @{name}")
    arguments = [_argument(cursor, name)]
    while cursor.accept(","):
        arguments.append(_argument(cursor, name))
    cursor.expect(")", f"or ',' after an argument of @{name}")
    match name:
        case "range":
            return _range(cursor, arguments, start)
        case "check":
            return _check(cursor, arguments, start)
    rule = next(rule for rule in COLUMN_RULES if rule == name)
    return ColumnsSyntax(rule, tuple(_property_name(cursor, argument) for argument in arguments), start)


def _argument(cursor: Cursor, name: str) -> tuple[_Argument, int]:
    start = cursor.at
    if cursor.peek(_RANGE):
        return _bounds(cursor), start
    word = cursor.peek(IDENTIFIER)
    if word and word.group() not in ("true", "false"):
        return Name(cursor.take(IDENTIFIER, "a property name"), start), start
    return _Value(_literal(cursor, f"an argument of @{name}")), start


def _bounds(cursor: Cursor) -> _Bounds:
    low = None if cursor.sees("..") else _bound(cursor)
    cursor.expect("..", "between the bounds of a range")
    high = _bound(cursor) if low is None or cursor.peek(SIGNED_NUMBER) else None
    return _Bounds(low, high)


def _bound(cursor: Cursor) -> int | float:
    start = cursor.at
    return number_of(cursor.take(SIGNED_NUMBER, "a number as bound of a range"), cursor, start)


def _range(cursor: Cursor, arguments: list[tuple[_Argument, int]], start: int) -> RangeSyntax:
    if len(arguments) != 2:
        raise cursor.source.rule("@range requires property name and bounds: @range(prop, min..max)", start)
    name = _property_name(cursor, arguments[0])
    bounds, at = arguments[1]
    if not isinstance(bounds, _Bounds):
        raise cursor.source.rule("expected range bounds (min..max) in @range constraint", at)
    return RangeSyntax(name, bounds.low, bounds.high, start)


def _check(cursor: Cursor, arguments: list[tuple[_Argument, int]], start: int) -> CheckSyntax:
    if len(arguments) != 2:
        raise cursor.source.rule('@check requires property name and pattern: @check(prop, "regex")', start)
    name = _property_name(cursor, arguments[0])
    pattern, at = arguments[1]
    if not isinstance(pattern, _Value) or not isinstance(pattern.literal, str):
        raise cursor.source.rule("expected string argument in constraint", at)
    return CheckSyntax(name, pattern.literal, start)


def _property_name(cursor: Cursor, argument: tuple[_Argument, int]) -> Name:
    value, at = argument
    if not isinstance(value, Name):
        raise cursor.source.rule("expected property name in constraint", at)
    return value
