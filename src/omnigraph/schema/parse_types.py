"""Parses property types and numbers: the leaves of the grammar."""

from __future__ import annotations

import math
from dataclasses import replace

from omnigraph.integers import INTEGER_BOUNDS, LITERAL_BOUNDS
from omnigraph.schema.catalog import PropertyType, Scalar
from omnigraph.schema.lexer import ENUM_VALUE, INTEGER, WORD, Cursor

MAX_DIMENSION = INTEGER_BOUNDS["I32"].high

_MOST_DIGITS = len(
    str(LITERAL_BOUNDS.high)
)  # of an integer in 64 bits; longer ones are refused unread, since reading them takes quadratic time

_BASE_TYPES = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.VECTOR}
_EXPECTED_TYPE = f"a type ({', '.join(_BASE_TYPES)}, enum(…), Vector(…) or […])"
_INLINE_ENUM = "enums have no name, write the values where they are used: enum(a, b)"


def parse_type(cursor: Cursor) -> PropertyType:
    """``core_type [ "?" ]``, with the rules that concern the type alone."""
    core = _core_type(cursor)
    return replace(core, nullable=True) if cursor.accept("?") else core


def _core_type(cursor: Cursor) -> PropertyType:
    if cursor.sees("["):
        return PropertyType(_list_item(cursor), list=True)
    word = cursor.peek(WORD)
    spelling = word.group() if word else ""
    if spelling == "enum":
        return PropertyType(Scalar.STRING, enum_values=_enum_values(cursor))
    if spelling == "Vector":
        return PropertyType(Scalar.VECTOR, dimension=_dimension(cursor))
    if spelling not in _BASE_TYPES:
        raise cursor.failure(_EXPECTED_TYPE, hint=_INLINE_ENUM if spelling[:1].isupper() else None)
    return PropertyType(_BASE_TYPES[cursor.take(WORD, _EXPECTED_TYPE)])


def _list_item(cursor: Cursor) -> Scalar:
    cursor.expect("[", "before the item type of a list")
    start = cursor.at
    word = cursor.peek(WORD)
    if word is None or word.group() not in _BASE_TYPES:
        raise cursor.failure(f"a base type as list item ({', '.join(_BASE_TYPES)})")
    scalar = _BASE_TYPES[cursor.take(WORD, "a base type")]
    cursor.expect("]", "after the item type of a list")
    if scalar is Scalar.BLOB:
        raise cursor.source.rule("list of Blob is not supported", start)
    return scalar


def _enum_values(cursor: Cursor) -> tuple[str, ...]:
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


def _dimension(cursor: Cursor) -> int:
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


def parse_u32(cursor: Cursor, complaint: str) -> int:
    """An integer of at most 32 bits; ``complaint`` opens the message for a larger one."""
    start = cursor.at
    digits = cursor.take(INTEGER, "an integer").lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(digits) not in INTEGER_BOUNDS["U32"]:
        raise cursor.source.rule(f"{complaint}: the number does not fit 32 bits", start)
    return int(digits)


def number_of(text: str, cursor: Cursor, at: int) -> int | float:
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
