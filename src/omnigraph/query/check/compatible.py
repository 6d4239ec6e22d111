"""Which types go together, in comparisons and in assignments. Nullability never matters here; an enum is a String."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.typed import Constant, Operand
from omnigraph.schema.catalog import PropertyType, Scalar


def compatible(one: PropertyType, other: PropertyType) -> bool:
    """Both lists or both not, and the same scalar or both numeric. Vectors must agree in dimension."""
    return one.list == other.list and one.dimension == other.dimension and _comparable(one.scalar, other.scalar)


def element_type(of: PropertyType) -> PropertyType:
    """The type of a list's elements."""
    return replace(of, list=False)


def is_plain_scalar(kind: PropertyType) -> bool:
    """Neither list nor vector nor Blob: something that compares."""
    return not kind.list and kind.scalar not in (Scalar.VECTOR, Scalar.BLOB)


def is_text(kind: PropertyType) -> bool:
    return kind.scalar is Scalar.STRING and not kind.list


def is_whole_number(kind: PropertyType) -> bool:
    return kind.scalar.is_integer and not kind.list


def assignable(value: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be stored in a property of another; ranges and lengths are checked later."""
    if target.scalar is Scalar.VECTOR and value.list:
        return value.scalar.is_numeric
    if value.list != target.list or value.dimension != target.dimension:
        return False
    if target.scalar is Scalar.BLOB:
        return value.scalar in (Scalar.BLOB, Scalar.STRING)
    if target.scalar.is_integer:
        return value.scalar.is_integer
    return _comparable(value.scalar, target.scalar)


def is_null(operand: Operand) -> bool:
    return isinstance(operand, Constant) and operand.value is None


def shown_type(operand: Operand) -> str:
    """The type of an operand in a message."""
    return "null" if is_null(operand) else str(operand.type)


def _comparable(one: Scalar, other: Scalar) -> bool:
    return one is other or (one.is_numeric and other.is_numeric)
