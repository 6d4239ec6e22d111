"""Sums of integers, exact however many values there are: no rounding, and no overflow that goes unnoticed.

Values are cut into parts of so few bits that no sum of parts can leave 64 bits; most columns need one part. Parts are
added up by whatever adds (groups, or a tree of matches: both are linear), and put together again at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import SumOverflow
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.schema.catalog import Scalar

Numbers = npt.NDArray[Any]

#: A sum of parts stays below this many bits, which leaves room for the carry of the part before it.
_SUM_BITS = 62


@dataclass(frozen=True, slots=True)
class IntegerParts:
    """Integers as ``parts[0] + parts[1] * 2**width + parts[2] * 2**(2 * width) …``, all but the last not negative."""

    width: int
    parts: tuple[npt.NDArray[np.int64], ...]

    def summed(self, add: Callable[[Numbers], Numbers]) -> IntegerParts:
        """The sums of the values, by a function that adds up parts."""
        return replace(self, parts=tuple(add(part) for part in self.parts))

    def whole(self, scalar: Scalar, what: str) -> Numbers:
        """The integers put together, in 64 bits.

        Args:
            scalar: I64 or U64.
            what: the sum as the query writes it, for the message.

        Raises:
            SumOverflow: one of them does not fit.
        """
        shift, bounds = self.width * (len(self.parts) - 1), INTEGER_BOUNDS[scalar]
        total = np.zeros(len(self.parts[0]), np.int64)
        carry: Numbers = np.zeros_like(total)
        for number, part in enumerate(self.parts[:-1]):
            carried = part + carry
            total |= (carried & ((1 << self.width) - 1)) << (self.width * number)
            carry = carried >> self.width
        top = self.parts[-1] + carry
        if not ((top >= bounds.low >> shift) & (top <= bounds.high >> shift)).all():
            raise SumOverflow(overflow_message(what, scalar), hint="sum smaller groups, or use avg")
        total |= top << shift
        return total.view(np.uint64) if scalar is Scalar.U64 else total


def overflow_message(what: str, scalar: Scalar) -> str:
    return f"{what} does not fit in {scalar}: an exact sum has at most 64 bits"


def cut(values: pa.Array, count: int) -> IntegerParts:
    """The values of an integer column, nulls as zero, ready to be added up.

    Args:
        count: no sum will have more terms than this, repeated ones included.
    """
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    width = max(1, _SUM_BITS - count.bit_length())
    ends = pc.min_max(values)
    bits = max(
        (abs(end) for end in (ends["min"].as_py(), ends["max"].as_py()) if end is not None), default=0
    ).bit_length()
    parts = []
    while bits > width:
        parts.append((numbers & ((1 << width) - 1)).astype(np.int64))
        numbers = numbers >> width
        bits -= width
    return IntegerParts(width, (*parts, numbers.astype(np.int64)))
