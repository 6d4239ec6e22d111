"""Row filters, built from values. The only module that makes one.

User data reaches Lance as Arrow values inside an expression, never as text, so nothing in a key or a property can
change what a filter means. `row_lookup.py` runs them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integers import arrow_bounds

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A test on one column. Rows for which it is null do not pass.

    Attributes:
        equal_to: the one value that passes, if there is just one.
    """

    column: str
    expression: Any
    equal_to: pa.Scalar | None = None


def one_of(column: str, values: pa.Array) -> ColumnFilter:
    """Rows whose column equals one of the values."""
    return ColumnFilter(column, pc.field(column).isin(values))


def with_row_id(row_ids: Iterable[int]) -> str:
    """Rows with these row ids. Numbers of the storage, never user data; Lance takes such a test as text only."""
    return f"_rowid IN ({_listed(row_ids)})"


def at_row_address(addresses: Iterable[int]) -> str:
    """The same for rows that lie at these addresses."""
    return f"_rowaddr IN ({_listed(addresses)})"


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(str(int(each)) for each in numbers)


def equals(column: str, value: str) -> Any:
    return pc.field(column) == pa.scalar(value, pa.string())


def compare(column: str, type_: pa.DataType, sign: str, value: Any) -> ColumnFilter | None:
    """Rows whose column stands in a relation to a value; None when no row can.

    Numbers compare exactly, whatever their widths; a 32-bit float column compares at its own precision. Texts compare
    by their UTF-8 bytes, false is less than true, and null is in no relation to anything.

    Args:
        type_: type of the column.
        sign: ``=``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``.
        value: what Arrow takes for this type; for a numeric column any finite number.
    """
    field = pc.field(column)
    if pa.types.is_floating(type_):
        found, one = _compare_real(field, type_, sign, value), None  # the two zeros are two values
    elif pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        found, one = _compare_whole(field, type_, sign, value), math.floor(value)
    else:
        found, one = _SIGNS[sign](field, pa.scalar(value, type_)), value
    if found is None:
        return None
    return ColumnFilter(column, found, _scalar(one, type_) if sign == "=" and one is not None else None)


def _compare_whole(field: Any, type_: pa.DataType, sign: str, value: int | float) -> Any:
    """Against a column of whole numbers any bound is a whole number within the column's range."""
    low, high = _range(type_)
    down, up = math.floor(value), math.ceil(value)
    if sign in ("=", "!="):
        can_be_equal = down == up and low <= down <= high
        if can_be_equal:
            return _SIGNS[sign](field, _scalar(down, type_))
        return field.is_valid() if sign == "!=" else None
    first, last = {"<": (low, up - 1), "<=": (low, down), ">": (down + 1, high), ">=": (up, high)}[sign]
    first, last = max(first, low), min(last, high)
    if first > last:
        return None
    if (first, last) == (low, high):
        return field.is_valid()
    if first == last:
        return field == _scalar(first, type_)
    return field <= _scalar(last, type_) if first == low else field >= _scalar(first, type_)


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(bool(value) if pa.types.is_boolean(type_) else value, type_)


def _range(type_: pa.DataType) -> tuple[int, int]:
    if pa.types.is_boolean(type_):
        return 0, 1
    bounds = arrow_bounds(type_)
    return bounds.low, bounds.high


def _compare_real(field: Any, type_: pa.DataType, sign: str, value: int | float) -> Any:
    """Against a float column: a whole number between two floats is equal to neither and bounds like its neighbour."""
    near = float(value)
    if pa.types.is_float32(type_):
        near = pa.scalar(near).cast(pa.float32(), safe=False).as_py()
    elif near != value:
        if sign in ("=", "!="):
            return field.is_valid() if sign == "!=" else None
        is_upper = sign in ("<", "<=")
        sign = ("<=" if near < value else "<") if is_upper else (">" if near < value else ">=")
    if near == 0:
        return _compare_zero(field, type_, sign)
    return _SIGNS[sign](field, pa.scalar(near, type_))


def _compare_zero(field: Any, type_: pa.DataType, sign: str) -> Any:
    """Zero has two signs, and not everyone who evaluates this takes them for equal."""
    minus, plus = pa.scalar(-0.0, type_), pa.scalar(0.0, type_)
    match sign:
        case "=":
            return (field >= minus) & (field <= plus)
        case "!=":
            return (field < minus) | (field > plus)
        case "<" | ">=":
            return _SIGNS[sign](field, minus)
        case _:
            return _SIGNS[sign](field, plus)
