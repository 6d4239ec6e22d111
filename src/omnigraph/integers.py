"""The integer types and what fits in them: the one table for literals, parameters, JSON, Arrow columns and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class IntegerBounds:
    """The least and the greatest value of an integer type; ``name`` as messages spell it."""

    name: str
    low: int
    high: int

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high


#: By the name of the type in the schema language (`Scalar` is such a name).
INTEGER_BOUNDS: Final[Mapping[str, IntegerBounds]] = {
    "I32": IntegerBounds("I32", -(2**31), 2**31 - 1),
    "I64": IntegerBounds("I64", -(2**63), 2**63 - 1),
    "U32": IntegerBounds("U32", 0, 2**32 - 1),
    "U64": IntegerBounds("U64", 0, 2**64 - 1),
}

#: What an integer literal may be: it fits in 64 bits, with or without a sign.
LITERAL_BOUNDS: Final = IntegerBounds("64 bits", INTEGER_BOUNDS["I64"].low, INTEGER_BOUNDS["U64"].high)


def arrow_bounds(type_: pa.DataType) -> IntegerBounds:
    """The bounds of an integer column of any width."""
    bits: int = type_.bit_width
    if pa.types.is_unsigned_integer(type_):
        return IntegerBounds(f"U{bits}", 0, 2**bits - 1)
    return IntegerBounds(f"I{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
