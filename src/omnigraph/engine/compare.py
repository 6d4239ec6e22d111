"""Comparisons of columns and constants that are exact across number widths.

An integer column never meets a rounded float: the constant is moved to the column's side, and a constant that the
column cannot hold decides the comparison by itself. Float columns of 32 bits compare at 32 bits.
"""

from __future__ import annotations

import math
import operator as python
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integers import arrow_bounds
from omnigraph.query.typed import Operator

_KERNELS = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}
_PYTHON = {
    Operator.EQ: python.eq,
    Operator.NE: python.ne,
    Operator.LT: python.lt,
    Operator.LE: python.le,
    Operator.GT: python.gt,
    Operator.GE: python.ge,
}
_MIRRORED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}


def compare(operator: Operator, left: Any, right: Any) -> Any:
    """Compare arrays and Python constants; null where an operand is null."""
    if not isinstance(left, pa.Array) and isinstance(right, pa.Array):
        return compare(_MIRRORED[operator], right, left)
    if not isinstance(left, pa.Array):
        return None if left is None or right is None else _constants(operator, left, right)
    if isinstance(right, pa.Array):
        left, right = _common(left, right)
        return _KERNELS[operator](left, right)
    if right is None:
        return pa.nulls(len(left), pa.bool_())
    if pa.types.is_integer(left.type) and isinstance(right, int | float) and not isinstance(right, bool):
        return _integer(operator, left, right)
    if pa.types.is_floating(left.type) and isinstance(right, int | float):
        return _float(operator, left, right)
    return _KERNELS[operator](left, pa.scalar(right, left.type))


def _constants(operator: Operator, left: Any, right: Any) -> bool:
    if isinstance(left, int | float) and isinstance(right, int | float):
        return bool(_PYTHON[operator](left, right))  # exact, and Arrow infers no type for 2**64 - 1
    return bool(_KERNELS[operator](pa.scalar(left), pa.scalar(right)).as_py())


def _integer(operator: Operator, column: pa.Array, value: int | float) -> pa.Array:
    if isinstance(value, float) and not value.is_integer():
        if operator in (Operator.EQ, Operator.NE):
            return _always(column, operator is Operator.NE)
        below = operator in (Operator.LT, Operator.LE)
        operator, value = (Operator.LE, math.floor(value)) if below else (Operator.GE, math.ceil(value))
    whole = int(value)
    bounds = arrow_bounds(column.type)
    if whole in bounds:
        return _KERNELS[operator](column, pa.scalar(whole, column.type))
    if operator in (Operator.EQ, Operator.NE):
        return _always(column, operator is Operator.NE)
    return _always(column, (operator in (Operator.LT, Operator.LE)) == (whole > bounds.high))


def _float(operator: Operator, column: pa.Array, value: int | float) -> pa.Array:
    rounded = float(value)
    if isinstance(value, int) and rounded != value and pa.types.is_float64(column.type):
        if operator in (Operator.EQ, Operator.NE):
            return _always(column, operator is Operator.NE)
        below = operator in (Operator.LT, Operator.LE)
        if below:
            operator = Operator.LE if rounded < value else Operator.LT
        else:
            operator = Operator.GE if rounded > value else Operator.GT
    if pa.types.is_float32(column.type):
        with np.errstate(over="ignore"):
            rounded = float(np.float32(rounded))
    return _KERNELS[operator](column, pa.scalar(rounded, column.type))


def _always(column: pa.Array, value: bool) -> pa.Array:
    """The same answer for every value, unknown for nulls."""
    answers = pa.array(np.full(len(column), value))
    return answers if column.null_count == 0 else pc.if_else(pc.is_valid(column), answers, None)


def _common(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    if left.type == right.type:
        return left, right
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        if pa.types.is_uint64(left.type) or pa.types.is_uint64(right.type):
            wide = pa.decimal128(20, 0)
            return left.cast(wide), right.cast(wide)
        return left.cast(pa.int64()), right.cast(pa.int64())
    if pa.types.is_float32(left.type) and pa.types.is_float64(right.type):
        return left, right.cast(pa.float32(), safe=False)
    if pa.types.is_float64(left.type) and pa.types.is_float32(right.type):
        return left.cast(pa.float32(), safe=False), right
    return left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
