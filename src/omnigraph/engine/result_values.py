"""Values of a result column: in their native Arrow type, as JSON has them, and as Python has them.

JSON shows dates, instants and numbers that are not finite as text. Python has dates and instants of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.arrow import arrow_type, instant_texts
from omnigraph.schema.catalog import PropertyType, Scalar

INSTANT = pa.timestamp("ms", "UTC")

#: Types whose values JSON has as Arrow gives them, alone and in lists.
_PLAIN = frozenset({Scalar.STRING, Scalar.BOOL, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})


def native_type(kind: PropertyType) -> pa.DataType:
    """The Arrow type of a result column."""
    if kind.scalar is Scalar.DATETIME:
        return pa.list_(pa.field("item", INSTANT)) if kind.list else INSTANT
    return arrow_type(kind)


def native_column(column: pa.ChunkedArray | pa.Array, kind: PropertyType) -> pa.ChunkedArray:
    """A column in its native type. Free for columns that have it already, and for stored instants."""
    target = native_type(kind)
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if chunked.type == target:
        return chunked
    return pa.chunked_array([_native(chunk, kind, target) for chunk in chunked.chunks], target)


def _native(array: pa.Array, kind: PropertyType, target: pa.DataType) -> pa.Array:
    if kind.scalar is Scalar.DATETIME and pa.types.is_date64(array.type):
        return array.view(pa.int64()).view(INSTANT)  # a cast would drop the time of day
    if kind.scalar is Scalar.DATETIME and _is_list(array.type) and pa.types.is_date64(array.type.value_type):
        return _with_items(array, _native(_items(array), replace(kind, list=False), INSTANT))
    return array.cast(target)


def json_values(column: pa.ChunkedArray, kind: PropertyType) -> list[Any]:
    """A column in its native type as a list of JSON values."""
    if kind.scalar in _PLAIN:
        return list(column.to_pylist())
    if column.num_chunks == 1:
        return _json_values(column.chunk(0), kind)
    return [value for chunk in column.chunks for value in _json_values(chunk, kind)]


def python_values(column: pa.ChunkedArray, kind: PropertyType) -> list[Any]:
    """A column in its native type as a list of Python values: ``date``, ``datetime`` in UTC, all else as in JSON."""
    match kind.scalar:
        case Scalar.DATE:
            return list(column.to_pylist())
        case Scalar.DATETIME:
            return [_in_utc(value) for chunk in column.chunks for value in _without_zone(chunk).to_pylist()]
        case _:
            return json_values(column, kind)


def _without_zone(array: pa.Array) -> pa.Array:
    """Instants of UTC without saying so, because the zone is known and its database need not be installed."""
    if _is_list(array.type):
        return _with_items(array, _without_zone(_items(array)))
    return array.view(pa.timestamp("ms"))


def _in_utc(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_utc(item) for item in value]
    return None if value is None else value.replace(tzinfo=UTC)


def _json_values(array: pa.Array, kind: PropertyType) -> list[Any]:
    is_list = kind.list or kind.scalar is Scalar.VECTOR
    items = _readable(_items(array) if is_list else array, kind.scalar)
    values: list[Any] = (_with_items(array, items) if is_list else items).to_pylist()
    if pa.types.is_floating(items.type) and not pc.all(pc.is_finite(items), min_count=0).as_py():
        return [_worded(value) for value in values]
    return values


def _readable(array: pa.Array, scalar: Scalar) -> pa.Array:
    """An array whose Python values are JSON values, but for floats that are not finite."""
    match scalar:
        case Scalar.DATE:
            return array.cast(pa.string())
        case Scalar.DATETIME:
            return instant_texts(_without_zone(array))
        case Scalar.F32 | Scalar.VECTOR:
            return array.cast(pa.float64())
        case _:
            return array


def _worded(value: Any) -> Any:
    if isinstance(value, list):
        return [_worded(item) for item in value]
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _items(array: pa.Array) -> pa.Array:
    """The elements of all lists one after the other, without what lies hidden under null lists."""
    return pc.list_flatten(array)


def _with_items(array: pa.Array, items: pa.Array) -> pa.Array:
    """The same lists with other elements, as many and in the same order as `_items` gave."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, items, mask=pc.is_null(array))
