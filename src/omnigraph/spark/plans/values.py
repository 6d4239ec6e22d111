"""Operands and comparisons as Spark columns, exact across number widths as in the engine.

An integer column never meets a rounded float: the constant is moved to the column's side, and a constant that the
column cannot hold decides the comparison by itself. Float columns of 32 bits compare at 32 bits.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from omnigraph import ids
from omnigraph.engine import compare as engine
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.typed import Operator
from omnigraph.schema.catalog import PropertyType, Scalar
from omnigraph.spark.types import spark_type_of

_SIGNS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
_MIRRORED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_LONG = INTEGER_BOUNDS[Scalar.I64]


@dataclass(frozen=True, slots=True)
class Varying:
    """An operand that differs from row to row."""

    column: Column
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Fixed:
    """An operand that is the same for every row; dates and instants as Python has them, lists as tuples."""

    value: Any


Side: TypeAlias = Varying | Fixed


def compare(sign: Operator, left: Side, right: Side) -> Column:
    """Null where an operand is null."""
    if isinstance(left, Fixed):
        if isinstance(right, Varying):
            return compare(_MIRRORED[sign], right, left)
        return F.lit(engine.compare(sign, _plain(left.value), _plain(right.value))).cast("boolean")
    if isinstance(right, Fixed):
        return _with_constant(sign, left, right.value)
    return _columns(sign, left, right)


def _columns(sign: Operator, left: Varying, right: Varying) -> Column:
    a, b = left.column, right.column
    scalars = {left.scalar, right.scalar}
    if len(scalars) == 1:
        return _column(_SIGNS[sign](a, b))
    if all(scalar.is_integer for scalar in scalars):
        wide = "decimal(20,0)" if Scalar.U64 in scalars else "bigint"
    else:
        wide = "float" if scalars == {Scalar.F32, Scalar.F64} else "double"
    return _column(_SIGNS[sign](a.cast(wide), b.cast(wide)))


def _with_constant(sign: Operator, left: Varying, value: Any) -> Column:
    if value is None:
        return F.lit(None).cast("boolean")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if left.scalar.is_integer and number:
        return _whole(sign, left, value)
    if left.scalar in (Scalar.F32, Scalar.F64) and number:
        return _real(sign, left, value)
    return _column(_SIGNS[sign](left.column, literal(value)))


def _whole(sign: Operator, left: Varying, value: int | float) -> Column:
    if isinstance(value, float) and not value.is_integer():
        if sign in (Operator.EQ, Operator.NE):
            return _always(left.column, sign is Operator.NE)
        below = sign in (Operator.LT, Operator.LE)
        sign, value = (Operator.LE, math.floor(value)) if below else (Operator.GE, math.ceil(value))
    whole = int(value)
    bounds = INTEGER_BOUNDS[left.scalar]
    if whole in bounds:
        return _column(_SIGNS[sign](left.column, literal(whole)))
    if sign in (Operator.EQ, Operator.NE):
        return _always(left.column, sign is Operator.NE)
    return _always(left.column, (sign in (Operator.LT, Operator.LE)) == (whole > bounds.high))


def _real(sign: Operator, left: Varying, value: int | float) -> Column:
    rounded = float(value)
    if left.scalar is Scalar.F32:
        return _column(_SIGNS[sign](left.column, F.lit(_narrowed(rounded)).cast("float")))
    if isinstance(value, int) and rounded != value:
        if sign in (Operator.EQ, Operator.NE):
            return _always(left.column, sign is Operator.NE)
        if sign in (Operator.LT, Operator.LE):
            sign = Operator.LE if rounded < value else Operator.LT
        else:
            sign = Operator.GE if rounded > value else Operator.GT
    return _column(_SIGNS[sign](left.column, F.lit(rounded)))


def _narrowed(value: float) -> float:
    """The nearest float of 32 bits; infinite beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _always(column: Column, answer: bool) -> Column:
    """The same answer for every value, unknown for nulls."""
    return F.when(column.isNotNull(), F.lit(answer))


def literal(value: Any, type_: PropertyType | None = None) -> Column:
    """A constant as a column. Dates and instants go as numbers, so that no calendar and no time zone touches them."""
    column = _literal(value)
    return column if type_ is None else column.cast(spark_type_of(type_))


def _literal(value: Any) -> Column:
    if isinstance(value, tuple | list):
        return F.array(*(_literal(each) for each in value))
    if isinstance(value, datetime):
        return F.timestamp_millis(F.lit(ids.micros(value) // 1_000).cast("bigint"))
    if isinstance(value, date):
        return F.date_from_unix_date(F.lit(value.toordinal() - date(1970, 1, 1).toordinal()).cast("int"))
    if isinstance(value, int) and not isinstance(value, bool):
        return F.lit(value).cast("bigint") if value in _LONG else F.lit(Decimal(value))
    return F.lit(value)


def _plain(value: Any) -> Any:
    return ids.micros(value) // 1_000 if isinstance(value, datetime) else value


def _column(found: Any) -> Column:
    assert isinstance(found, Column)
    return found
