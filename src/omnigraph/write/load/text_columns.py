"""Columns as a text format gives them → columns as a table stores them. Arrow kernels only, no loop over rows.

Dates arrive as text or as integers, blobs as text, vectors as lists of doubles. A function here either converts a whole
column or raises `Unproven`: then somebody who can find the row and the words looks again, line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import OmniGraphError, ResourceLimitExceeded
from omnigraph.query.temporal import parse_date, parse_datetime, to_days, to_millis
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropertyType, Scalar
from omnigraph.write.blob_text import blob_bytes

_TEMPORAL = (Scalar.DATE, Scalar.DATETIME)
_DAYS = (to_days(parse_date("0001-01-01")), to_days(parse_date("9999-12-31")))
_MILLIS = (to_millis(parse_datetime("0001-01-01")), to_millis(parse_datetime("9999-12-31T23:59:59.999Z")))

_CLOCK = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_WITH_ZONE = rf"^{_CLOCK}(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
_WITHOUT_ZONE = rf"^(?:{_CLOCK}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})$"
_FINE_DIGITS = r"(\.[0-9]{3})[0-9]+"
_NOT_ZERO = r"\.[0-9]{3}[0-9]*[1-9]"
_UPPER_HALF = r"\.[0-9]{3}[5-9]"


class Unproven(Exception):
    """A column may hold something that the rules refuse."""


class _TooManyBytes(Exception):
    """No closer look at the rows of a column would help."""


def raw_type(type_: PropertyType, as_integers: bool) -> pa.DataType:
    """What a reader of text should make of a property's column.

    Args:
        as_integers: dates and instants are numbers.
    """
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.float64())
    item = _raw_scalar(type_.scalar, as_integers)
    return pa.list_(item) if type_.list else item


def _raw_scalar(scalar: Scalar, as_integers: bool) -> pa.DataType:
    if scalar in _TEMPORAL:
        return pa.int64() if as_integers else pa.string()
    if scalar is Scalar.BLOB:
        return pa.string()
    if scalar is Scalar.F32:
        return pa.float64()  # rounded once, from the double
    return arrow_type(PropertyType(scalar))


def is_temporal(type_: PropertyType) -> bool:
    return type_.scalar in _TEMPORAL


def stored_column(column: pa.Array, type_: PropertyType, rounds: bool = False) -> pa.Array:
    """A raw column in the type its table stores.

    Args:
        rounds: times finer than a millisecond are rounded to the nearest one, a half to the later.

    Raises:
        Unproven: a value may not fit.
        ResourceLimitExceeded: the blobs of the column are too large together.
    """
    target = arrow_type(type_)
    try:
        if type_.scalar is Scalar.VECTOR:
            return _vectors(column, target)
        if type_.list:
            return _rebuilt(column, lambda items: _scalars(items, type_.scalar, rounds), target)
        return _scalars(column, type_.scalar, rounds)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OmniGraphError) as error:
        raise Unproven(str(error)) from None
    except _TooManyBytes as error:
        raise ResourceLimitExceeded(
            "bytes of one column in one load", error.args[0], limits.LOAD_COLUMN_BYTES
        ) from None


def _scalars(column: pa.Array, scalar: Scalar, rounds: bool) -> pa.Array:
    target = arrow_type(PropertyType(scalar))
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target)
    match scalar:
        case Scalar.F32 | Scalar.F64:
            return _finite(_finite(column).cast(target, safe=False))
        case Scalar.DATE:
            return _within(_days(column), _DAYS).cast(pa.int32()).view(target)
        case Scalar.DATETIME:
            return _within(_millis(column, rounds), _MILLIS).view(target)
        case Scalar.BLOB:
            return pa.array(_blobs(column), target)
    return column if column.type == target else column.cast(target)


def _blobs(column: pa.Array) -> list[bytes | None]:
    """Base64 has no kernel; the bytes outweigh the loop. An address may stand for many bytes, so they are counted."""
    found: list[bytes | None] = []
    size = 0
    for text in column.to_pylist():
        found.append(None if text is None else blob_bytes(text, ""))
        size += len(found[-1] or b"")
        if size > limits.LOAD_COLUMN_BYTES:
            raise _TooManyBytes(size)
    return found


def _days(column: pa.Array) -> pa.Array:
    return column if pa.types.is_integer(column.type) else column.cast(pa.date32()).view(pa.int32()).cast(pa.int64())


def _millis(column: pa.Array, rounds: bool) -> pa.Array:
    if pa.types.is_integer(column.type):
        return column
    if not pc.any(pc.match_substring_regex(column, _FINE_DIGITS)).as_py():
        return _whole_millis(column)
    if not rounds and pc.any(pc.match_substring_regex(column, _NOT_ZERO)).as_py():
        raise Unproven("a time finer than a millisecond")
    millis = _whole_millis(pc.replace_substring_regex(column, _FINE_DIGITS, r"\1"))
    return pc.add(millis, pc.match_substring_regex(column, _UPPER_HALF).cast(pa.int64()))


def _whole_millis(column: pa.Array) -> pa.Array:
    zoned = pc.match_substring_regex(column, _WITH_ZONE)
    if pc.all(zoned).as_py() is not False:
        return column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    local = pc.match_substring_regex(column, _WITHOUT_ZONE)
    if not pc.all(pc.or_(zoned, local)).as_py():
        raise Unproven("an instant in another form")
    with_zone = pc.if_else(zoned, column, None).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    without_zone = pc.if_else(local, column, None).cast(pa.timestamp("ms")).cast(pa.int64())
    return pc.coalesce(with_zone, without_zone)


def rounded_times(column: pa.ChunkedArray) -> pa.Array:
    """A column of instants, or of lists of them, rounded to milliseconds where Arrow holds finer ones."""
    array = column.combine_chunks()
    if pa.types.is_timestamp(array.type):
        return pc.round_temporal(array, unit="millisecond")
    if pa.types.is_list(array.type) and pa.types.is_timestamp(array.type.value_type):
        return _rebuilt(array, lambda items: pc.round_temporal(items, unit="millisecond"), array.type)
    return array


def _within(numbers: pa.Array, bounds: tuple[int, int]) -> pa.Array:
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is not None and not bounds[0] <= ends["min"] <= ends["max"] <= bounds[1]:
        raise Unproven("a date or an instant out of range")
    return numbers


def _finite(values: pa.Array) -> pa.Array:
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise Unproven("a number that is not finite")
    return values


def _vectors(column: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target)
    fits = pc.equal(pc.list_value_length(column), target.list_size)
    if pc.all(fits).as_py() is False:
        raise Unproven("a vector of another length")
    floats = _without_nulls(pc.list_flatten(column))
    floats = _finite(_finite(floats).cast(pa.float32(), safe=False))
    dense = pa.FixedSizeListArray.from_arrays(floats, type=target)
    if column.null_count == 0:
        return dense
    present = pc.is_valid(column)
    positions = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return dense.take(pc.if_else(present, positions, None))


def _rebuilt(column: pa.Array, convert: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """The same lists with converted items, none of them null."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target)
    items = convert(_without_nulls(pc.list_flatten(column)))
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, items, type=target, mask=pc.is_null(column))


def _without_nulls(items: pa.Array) -> pa.Array:
    if items.null_count:
        raise Unproven("a null inside a list")
    return items
