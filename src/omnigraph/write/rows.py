"""Rules about one row: known columns, types, nulls, enum, range, check, id.

Functions from Arrow to Arrow, no loop over rows, so that the embedded path and the executors of a Spark job run the
same code. A violation names the property, the value and the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import CheckViolation, EnumViolation, InvalidRow, MissingValue, RangeViolation
from omnigraph.integers import arrow_bounds
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType, Property, PropertyType, Scalar
from omnigraph.write.identity import first_true, with_ids

_ENDPOINTS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Conformed:
    """Rows in the schema of their table, each valid on its own.

    Attributes:
        fresh_ids: every id was just made, so none can exist.
    """

    rows: pa.Table
    fresh_ids: bool


def conform(type_: NodeType | EdgeType, rows: pa.Table) -> Conformed:
    """Bring rows into the schema of their table, or raise the first violation."""
    schema = table_schema(type_)
    _refuse_unknown(type_, rows, schema)
    columns: dict[str, Any] = {}
    for name, prop in type_.properties.items():
        columns[name] = _property(type_, prop, rows, schema.field(name).type)
    if isinstance(type_, EdgeType):
        for name in _ENDPOINTS:
            columns[name] = _endpoint(type_, name, rows)
    check_values(type_, columns)
    typed = pa.table(columns) if columns else pa.table({"": pa.nulls(rows.num_rows)})
    given = _cast_text(rows.column("id"), "id") if "id" in rows.column_names else None
    ids, fresh = with_ids(type_, typed, given)
    return Conformed(pa.table([ids, *(columns[name] for name in schema.names[1:])], schema=schema), fresh)


def _refuse_unknown(type_: NodeType | EdgeType, rows: pa.Table, schema: pa.Schema) -> None:
    seen = set()
    for name in rows.column_names:
        if name in seen:
            raise InvalidRow(f"column '{name}' occurs twice in the rows of '{type_.table_key}'", type=type_.name)
        seen.add(name)
        if schema.get_field_index(name) < 0:
            raise InvalidRow(f"unknown input field '{name}' for '{type_.table_key}'", type=type_.name, property=name)


def _property(type_: NodeType | EdgeType, prop: Property, rows: pa.Table, target: pa.DataType) -> pa.Array:
    name = prop.name
    if name in rows.column_names:
        column = cast_column(rows.column(name), prop.type, target, name)
    else:
        column = pa.nulls(rows.num_rows, target)
    if not prop.type.nullable and column.null_count:
        row = first_true(pc.is_null(column))
        kind = {Scalar.VECTOR: "vector property", Scalar.BLOB: "blob property"}.get(prop.type.scalar)
        text = (
            f"non-nullable {kind} '{name}' has null values"
            if kind
            else (f"non-nullable property '{name}' has null or invalid values")
        )
        raise MissingValue(text, type=type_.name, property=name, row=row)
    return column


def cast_column(column: pa.ChunkedArray, type_: PropertyType, target: pa.DataType, name: str) -> pa.Array:
    """A column in its stored type. Widening and exact narrowing pass, everything else is refused with the value."""
    array = column.combine_chunks()
    if array.type != target:
        array = _cast(array, target, name)
    if type_.scalar is Scalar.VECTOR and array.flatten().null_count:
        raise InvalidRow(f"vector property '{name}' elements must be numeric, got null", property=name)
    if type_.scalar in (Scalar.F32, Scalar.F64, Scalar.VECTOR):
        _refuse_non_finite(array, name)
    return array


def _cast(array: pa.Array, target: pa.DataType, name: str, subject: str = "") -> pa.Array:
    """``subject`` names a value in messages where it is not that of the property itself."""
    subject = subject or f"property '{name}' value"
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_floating(target) and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        cast = array.cast(target, safe=False)  # rounding to the stored width is the meaning of a float property
        overflow = pc.and_(pc.is_finite(array.cast(pa.float64(), safe=False)), pc.invert(pc.is_finite(cast)))
        row = first_true(pc.fill_null(overflow, False))
        if row is not None:
            raise InvalidRow(f"{subject} {array[row]} exceeds Float32 range", property=name, row=row)
        return cast
    if pa.types.is_integer(target) and (pa.types.is_integer(array.type) or _is_whole_decimal(array.type)):
        try:
            return array.cast(target)
        except pa.ArrowInvalid:
            row = _first_out_of_range(array, target)
            name_ = arrow_bounds(target).name
            raise InvalidRow(f"{subject} {array[row]} exceeds {name_} range", property=name, row=row) from None
    if pa.types.is_fixed_size_list(target) and _is_list(array.type):
        return _to_vector(array, target, name)
    if pa.types.is_list(target) and _is_list(array.type):
        return _to_list(array, target, name)
    if pa.types.is_date64(target) and (pa.types.is_timestamp(array.type) or pa.types.is_date32(array.type)):
        return _to_instant(array)
    try:
        if not _compatible(array.type, target):
            raise pa.ArrowInvalid
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidRow(f"property '{name}' expects {target}, got {array.type}", property=name) from None


def _is_whole_decimal(type_: pa.DataType) -> bool:
    """How tools without unsigned numbers carry large ones."""
    return bool(pa.types.is_decimal(type_) and type_.scale == 0)


def _to_instant(array: pa.Array) -> pa.Array:
    """Milliseconds since the epoch in UTC, finer digits dropped. Arrow's own cast would drop the time of day."""
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    if pa.types.is_timestamp(array.type) and array.type.unit in ("us", "ns"):
        array = pc.floor_temporal(array, unit="millisecond")  # before the epoch a cast would round up
    return array.cast(pa.timestamp("ms", zone), safe=False).view(pa.int64()).view(pa.date64())


def _compatible(source: pa.DataType, target: pa.DataType) -> bool:
    """Conversions that keep the value's kind: no text that looks like a number becomes one."""
    families: tuple[Callable[[pa.DataType], bool], ...] = (
        lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_date32,
        pa.types.is_date64,
        lambda t: (
            pa.types.is_binary(t)
            or pa.types.is_large_binary(t)
            or pa.types.is_binary_view(t)
            or pa.types.is_fixed_size_binary(t)
        ),
    )
    if pa.types.is_dictionary(source):
        return _compatible(source.value_type, target)
    return any(family(source) and family(target) for family in families)


def _is_list(type_: pa.DataType) -> bool:
    kinds = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(pa.types, f"is_{kind}")(type_) for kind in kinds)


def _to_list(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    values = array.flatten()  # of exactly the lists that are there; Arrow's cast of a sliced list view is wrong
    if values.type != target.value_type:
        values = _cast(values, target.value_type, name, "list value")
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=array.is_null())


def _first_out_of_range(array: pa.Array, target: pa.DataType) -> int:
    allowed, possible = arrow_bounds(target), arrow_bounds(array.type)
    bad = pa.array(np.zeros(len(array), bool))
    if allowed.low > possible.low:
        bad = pc.less(array, pa.scalar(allowed.low, array.type))
    if allowed.high < possible.high:
        bad = pc.or_(bad, pc.greater(array, pa.scalar(allowed.high, array.type)))
    return first_true(pc.fill_null(bad, False)) or 0


def _to_vector(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    lengths = pc.list_value_length(array)
    row = first_true(pc.fill_null(pc.not_equal(lengths, target.list_size), False))
    if row is not None:
        raise InvalidRow(
            f"vector property '{name}' expects {target.list_size} dimensions, got {lengths[row]}",
            property=name,
            row=row,
        )
    if not (pa.types.is_integer(array.type.value_type) or pa.types.is_floating(array.type.value_type)):
        raise InvalidRow(
            f"vector property '{name}' elements must be numeric, got {array.type.value_type}", property=name
        )
    floats = array.flatten().cast(pa.float32(), safe=False)
    if array.null_count == 0:
        return pa.FixedSizeListArray.from_arrays(floats, type=target)
    spread = pc.if_else(pc.is_valid(array), pc.cumulative_sum(pc.cast(pc.is_valid(array), pa.int64())), None)
    dense = pa.FixedSizeListArray.from_arrays(floats, type=target)
    return dense.take(pc.subtract(spread, 1))


def _refuse_non_finite(array: pa.Array, name: str) -> None:
    values = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
    if pa.types.is_list(values.type):
        values = values.flatten()
    row = first_true(pc.fill_null(pc.invert(pc.is_finite(values)), False))
    if row is not None:
        raise InvalidRow(f"property '{name}' value {values[row]} is not a finite number", property=name)


def _endpoint(type_: EdgeType, name: str, rows: pa.Table) -> pa.Array:
    if name not in rows.column_names:
        raise MissingValue(f"edge {type_.name} needs a column '{name}'", type=type_.name, property=name)
    column = _cast_text(rows.column(name), name)
    if column.null_count:
        row = first_true(pc.is_null(column))
        raise MissingValue(f"edge {type_.name} has a null '{name}'", type=type_.name, property=name, row=row)
    return column


def _cast_text(column: pa.ChunkedArray, name: str) -> pa.Array:
    array = column.combine_chunks()
    return array if array.type == pa.string() else _cast(array, pa.string(), name)


def check_values(type_: NodeType | EdgeType, columns: dict[str, Any]) -> None:
    """Refuse values that break ``@range``, ``@check`` or an enum; only the columns with such a rule are looked at.

    Raises:
        InvalidRow: names the first value that does.
    """
    if isinstance(type_, NodeType):
        _check_ranges(type_, columns)
        _check_patterns(type_, columns)
    for name, prop in type_.properties.items():
        if prop.type.enum_values is not None:
            allowed = pa.array(prop.type.enum_values, pa.string())
            bad = pc.and_(pc.is_valid(columns[name]), pc.invert(pc.is_in(columns[name], value_set=allowed)))
            row = first_true(bad)
            if row is not None:
                raise EnumViolation(
                    f"invalid enum value '{columns[name][row]}' for {type_.name}.{name} "
                    f"(expected: {', '.join(prop.type.enum_values)})",
                    type=type_.name,
                    property=name,
                    row=row,
                )


def _check_ranges(type_: NodeType, columns: dict[str, Any]) -> None:
    for rule in type_.ranges:
        values = columns[rule.property]
        if pa.types.is_list(values.type):
            continue
        for bound, compare, words in ((rule.low, pc.less, "< min"), (rule.high, pc.greater, "> max")):
            if bound is None:
                continue
            row = first_true(pc.fill_null(compare(values, _bound(bound, values.type)), False))
            if row is not None:
                raise RangeViolation(
                    f"@range violation on {type_.name}.{rule.property}: value {values[row]} {words} {bound}",
                    type=type_.name,
                    property=rule.property,
                    row=row,
                )


def _bound(bound: int | float, type_: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(bound, type_)
    except (pa.ArrowInvalid, OverflowError, TypeError):
        return pa.scalar(float(bound), pa.float64())


def _check_patterns(type_: NodeType, columns: dict[str, Any]) -> None:
    for rule in type_.checks:
        values = columns[rule.property]
        if not pa.types.is_string(values.type):
            continue
        row = first_true(pc.fill_null(pc.invert(pc.match_substring_regex(values, rule.pattern)), False))
        if row is not None:
            raise CheckViolation(
                f"@check violation on {type_.name}.{rule.property}: value '{values[row]}' "
                f"does not match pattern '{rule.pattern}'",
                type=type_.name,
                property=rule.property,
                row=row,
            )
