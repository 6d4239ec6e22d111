"""Are two rows the same? The one comparison of rows by value, for diffs, merges and the change feed.

By type and never by text: null is not empty, floats compare bit by bit (so NaN equals itself and the two zeros
differ), lists element by element, blobs by their bytes. Columns are compared as a whole, no row becomes an object.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

_BITS = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def same_rows(one: pa.Table, other: pa.Table) -> pa.BooleanArray:
    """The opposite of `differing_rows`, as an Arrow array for filters."""
    return pa.array(~differing_rows(one, other))


def differing_rows(one: pa.Table, other: pa.Table) -> Mask:
    """For each position whether the two rows there differ in any column.

    Args:
        one: rows.
        other: as many rows with the same columns in the same order and of the same types.
    """
    mask = np.zeros(one.num_rows, np.bool_)
    for left, right in zip(one.columns, other.columns, strict=True):
        mask |= differing_values(_whole(left), _whole(right))
    return mask


def differing_columns(one: pa.Table, other: pa.Table) -> dict[str, Mask]:
    """The same for each column alone."""
    pairs = zip(one.column_names, one.columns, other.columns, strict=True)
    return {name: differing_values(_whole(left), _whole(right)) for name, left, right in pairs}


def differing_values(one: pa.Array, other: pa.Array) -> Mask:
    """For each position whether the two values there differ."""
    if one.type != other.type:
        raise TypeError(f"values of type {one.type} cannot be compared with values of type {other.type}")
    left, right = _valid(one), _valid(other)
    mask: Mask = left != right
    if one.null_count == 0 and other.null_count == 0:
        return _differing(one, other)
    both = np.flatnonzero(left & right)
    if len(both):
        mask[both] = _differing(one.take(pa.array(both)), other.take(pa.array(both)))
    return mask


def _differing(one: pa.Array, other: pa.Array) -> Mask:
    """The same for values none of which is null."""
    type_ = one.type
    if pa.types.is_floating(type_):
        one, other = one.view(_BITS[type_.bit_width]), other.view(_BITS[type_.bit_width])
    elif pa.types.is_fixed_size_list(type_):
        items = differing_values(one.flatten(), other.flatten())
        return np.asarray(items.reshape(len(one), type_.list_size).any(axis=1), np.bool_)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _differing_lists(one, other)
    return np.asarray(pc.not_equal(one, other).to_numpy(zero_copy_only=False), np.bool_)


def _differing_lists(one: pa.Array, other: pa.Array) -> Mask:
    lengths = pc.list_value_length(one).to_numpy(zero_copy_only=False)
    mask = np.asarray(lengths != pc.list_value_length(other).to_numpy(zero_copy_only=False), np.bool_)
    comparable = np.flatnonzero(~mask)
    places = pa.array(comparable)
    items = differing_values(one.take(places).flatten(), other.take(places).flatten())
    owners = np.repeat(comparable, lengths[comparable])
    mask[owners[items]] = True
    return mask


def _valid(values: pa.Array) -> Mask:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
