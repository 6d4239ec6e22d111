"""Row filters, built from values. The only module that makes one.

User data reaches Lance as Arrow values inside an expression, never as text, so nothing in a key or a property can
change what a filter means.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def one_of(column: str, values: pa.Array) -> Any:
    """Rows whose column equals one of the values."""
    return pc.field(column).isin(values)


def equals(column: str, value: str) -> Any:
    return pc.field(column) == pa.scalar(value, pa.string())
