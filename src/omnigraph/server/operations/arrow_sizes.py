"""What the values of an Arrow array take in memory when each row has its own.

Dictionaries, views and lists of them let many rows share one value, so that a few kilobytes can stand for gigabytes.
Sizes are floats, because values that share values that share values exceed every integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InputError

#: Bytes of one entry of a view: its length, then a few bytes of the value or where it is.
_VIEW_BYTES = 16


def shares_values(type_: pa.DataType) -> bool:
    """Whether rows of a type can share a value."""
    kinds = pa.types
    if type_.num_fields and not kinds.is_run_end_encoded(type_):
        if kinds.is_list_view(type_) or kinds.is_large_list_view(type_) or kinds.is_union(type_):
            return True
        return any(shares_values(type_.field(place).type) for place in range(type_.num_fields))
    return bool(
        kinds.is_dictionary(type_)
        or kinds.is_run_end_encoded(type_)
        or kinds.is_string_view(type_)
        or kinds.is_binary_view(type_)
    )


def own_bytes(column: pa.Array) -> float:
    """The bytes of a column without anything shared. The array must have been validated.

    Raises:
        InputError: it shares values in a way that is not counted.
    """
    return float(_sizes(column).sum())


def _sizes(array: Any) -> Any:
    """Bytes of each value, as an array of numpy."""
    kinds, type_ = pa.types, array.type
    if kinds.is_dictionary(type_):
        known = np.append(_sizes(array.dictionary), 0)
        return known[array.indices.cast(pa.int64()).fill_null(len(known) - 1).to_numpy()]
    if kinds.is_string_view(type_) or kinds.is_binary_view(type_):
        views = np.frombuffer(array.buffers()[1] or b"", np.int32).reshape(-1, _VIEW_BYTES // 4)
        return np.maximum(views[array.offset : array.offset + len(array), 0], 0).astype(np.float64)
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_binary(type_) or kinds.is_large_binary(type_):
        return pc.binary_length(array).cast(pa.float64()).fill_null(0).to_numpy()
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        ends = np.concatenate(([0.0], np.cumsum(_sizes(array.values))))[array.offsets.to_numpy()]
        return np.diff(ends)
    if kinds.is_fixed_size_list(type_):
        return _sizes(array.values).reshape(-1, type_.list_size)[-len(array) or None :].sum(axis=1)
    if kinds.is_struct(type_):
        return sum((_sizes(array.field(place)) for place in range(type_.num_fields)), np.zeros(len(array)))
    if kinds.is_null(type_) or kinds.is_primitive(type_) or kinds.is_fixed_size_binary(type_):
        return np.full(len(array), 0 if kinds.is_null(type_) else type_.bit_width / 8)
    raise InputError(f"rows of the type {str(type_)[:80]} are not taken", hint="cast the column to a plain type")
