"""The rules about one row, each stated once, and the conversion of rows into the schema of their table.

A rule is a function from columns in their stored types to tables of violations (`ROW_VIOLATIONS`), without a loop over
rows, so that the embedded path and the executors of a Spark job run the same code. A conversion looks at a whole column
and names only the first bad value; halving the rows until each part converts gives every bad row its own error. The id
of a keyed node is the canonical text of its key; everything else brings its own id or gets a ULID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import (
    CheckViolation,
    EnumViolation,
    IdMismatch,
    InternalError,
    InvalidRow,
    MissingValue,
    OmniGraphError,
    RangeViolation,
)
from omnigraph.ids import did_you_mean, new_ulids
from omnigraph.integers import arrow_bounds
from omnigraph.schema.arrow import arrow_type, canonical_text, composite_id, schema_word, table_schema
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, EdgeType, NodeType, Property, PropertyType, Scalar
from omnigraph.write.arrow_rows import GIVEN

#: What rows may call the ends of an edge, as queries and files do.
END_COLUMNS = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class Conformed:
    """Rows in the schema of their table, each valid on its own.

    Attributes:
        fresh_ids: every id was just made, so none can exist.
    """

    rows: pa.Table
    fresh_ids: bool


@dataclass(frozen=True, slots=True)
class ConformedPart:
    """Valid rows, and where each of them was among the rows that were given."""

    rows: pa.Table
    fresh_ids: bool
    positions: pa.Array


@dataclass(frozen=True, slots=True)
class InvalidAt:
    """The position of an invalid row, and its first error."""

    position: int
    error: OmniGraphError


def conform(type_: NodeType | EdgeType, rows: pa.Table, *, has_ids: bool = False) -> Conformed:
    """Bring rows into the schema of their table, or raise the first violation.

    Args:
        has_ids: ``id`` holds the ids that were made of these rows, so they are not made again.
    """
    conforming = _Conforming(type_, has_ids=has_ids)
    for found in conforming.run(rows):
        raise conforming.error(found)
    return conforming.result()


def split_valid(
    type_: NodeType | EdgeType,
    rows: pa.Table,
    most: int | None = None,
    convert: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> tuple[list[ConformedPart], list[InvalidAt]]:
    """The rows that are valid, in the schema of their table, and those that are not, both in order.

    Args:
        most: stop once so many invalid rows are known.
        convert: brings columns nearer to their stored types before the rules see them; may refuse, like a rule.
    """
    good: list[ConformedPart] = []
    bad: list[InvalidAt] = []
    waiting = [(0, rows.num_rows)] if rows.num_rows else []
    while waiting and (most is None or len(bad) < most):
        start, size = waiting.pop()
        conforming = _Conforming(type_)
        found = []
        try:
            for each in conforming.run(convert(rows.slice(start, size))):
                found.append(each)
        except InternalError:
            raise
        except OmniGraphError as error:
            if size > 1:
                waiting += [(start + size // 2, size - size // 2), (start, size // 2)]
            else:
                bad.append(InvalidAt(start, conforming.error(found[0]) if found else error))
            continue
        part, invalid = conforming.split(found, None if most is None else most - len(bad))
        bad += [InvalidAt(start + each.position, each.error) for each in invalid]
        good.append(replace(part, positions=pc.add(part.positions, start)))
    return good, bad


class _Conforming:
    """One attempt to bring rows into the schema of their table."""

    def __init__(self, type_: NodeType | EdgeType, *, has_ids: bool = False) -> None:
        self._type = type_
        self._has_ids = has_ids
        self._columns: dict[str, Any] = {}
        self._ids: pa.Array = pa.array([], pa.string())
        self._fresh = False

    def run(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Every violation. What cannot be converted is raised."""
        type_, columns = self._type, self._columns
        schema = table_schema(type_)
        _refuse_unknown(type_, rows, schema)
        for name, prop in type_.properties.items():
            columns[name] = _values(prop, rows, schema.field(name).type)
            yield from required(prop, columns[name])
        if isinstance(type_, EdgeType):
            for name in ENDPOINT_COLUMNS:
                if name not in rows.column_names:
                    raise MissingValue(f"edge {type_.name} needs a column '{name}'", type=type_.name, property=name)
                columns[name] = end_ids(type_, rows.column(name), name)
                yield from required_endpoint(name, columns[name])
        yield from value_rules(type_, columns)
        if isinstance(type_, NodeType):
            yield from key_rules(type_, columns)
        given = _cast_text(rows.column("id"), "id") if "id" in rows.column_names else None
        if self._has_ids and given is not None:
            self._ids = given
            return
        typed = pa.table(columns) if columns else pa.table({"": pa.nulls(rows.num_rows)})
        self._ids, self._fresh = with_ids(type_, typed, given)
        if given is not None:
            columns["id"] = given
            yield from id_rules(type_, self._ids, given)

    def error(self, found: pa.Table) -> OmniGraphError:
        """The error of the first violation of a table."""
        return row_error(self._type, self._columns, found.slice(0, 1).to_pylist()[0])

    def result(self) -> Conformed:
        """All rows."""
        return Conformed(self._table(), self._fresh)

    def split(self, found: list[pa.Table], most: int | None) -> tuple[ConformedPart, list[InvalidAt]]:
        """The rows without a violation, and of the others the first violation of each, at most so many."""
        size = len(self._ids)
        if not found:
            return ConformedPart(self._table(), self._fresh, pa.arange(0, size)), []
        table = pa.concat_tables(found)
        rows, first = np.unique(table.column("row").to_numpy(), return_index=True)
        invalid = [
            InvalidAt(violation["row"], row_error(self._type, self._columns, violation))
            for violation in table.take(pa.array(first[:most])).to_pylist()
        ]
        kept = pa.array(np.delete(np.arange(size), rows))
        return ConformedPart(self._table().take(kept), self._fresh, kept), invalid

    def _table(self) -> pa.Table:
        schema = table_schema(self._type)
        return pa.table([self._ids, *(self._columns[name] for name in schema.names[1:])], schema=schema)


def named_ends(type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    """Rows with the ends of edges under the names of their columns."""
    if not isinstance(type_, EdgeType) or END_COLUMNS.keys().isdisjoint(rows.column_names):
        return rows
    names = [name if name in type_.properties else END_COLUMNS.get(name, name) for name in rows.column_names]
    return rows.rename_columns(names)


def _refuse_unknown(type_: NodeType | EdgeType, rows: pa.Table, schema: pa.Schema) -> None:
    seen = set()
    for name in rows.column_names:
        if name in seen:
            raise InvalidRow(f"column '{name}' occurs twice in the rows of '{type_.table_key}'", type=type_.name)
        seen.add(name)
        if schema.get_field_index(name) < 0 and not name.startswith(GIVEN):
            ends = END_COLUMNS if isinstance(type_, EdgeType) else ()
            hint = did_you_mean(name, [*type_.properties, *ends])
            message = f"unknown input field '{name}' for '{type_.table_key}'"
            raise InvalidRow(message, hint=hint, type=type_.name, property=name)


def _values(prop: Property, rows: pa.Table, target: pa.DataType) -> pa.Array:
    """The values of a property. Rows that do not give one get its default, or null; a null that is given stays."""
    if prop.name not in rows.column_names:
        size, default = rows.num_rows, prop.default
        return pa.nulls(size, target) if default is None else pa.repeat(pa.scalar(default, target), size)
    own = cast_column(rows.column(prop.name), prop.type, target, prop.name)
    is_given = f"{GIVEN}{prop.name}"
    if prop.default is None or is_given not in rows.column_names:
        return own
    return pc.if_else(rows.column(is_given).combine_chunks(), own, pa.scalar(prop.default, target))


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
            raise InvalidRow(f"{subject} {array[row]} exceeds F32 range", property=name, row=row)
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
        return _to_instant(array, name)
    try:
        if not _compatible(array.type, target):
            raise pa.ArrowInvalid
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        message = f"property '{name}' expects {schema_word(target)}, got {schema_word(array.type)}"
        raise InvalidRow(message, property=name) from None


def _is_whole_decimal(type_: pa.DataType) -> bool:
    """How tools without unsigned numbers carry large ones."""
    return bool(pa.types.is_decimal(type_) and type_.scale == 0)


def _to_instant(array: pa.Array, name: str) -> pa.Array:
    """Milliseconds since the epoch in UTC; finer times are refused. Arrow's own cast would drop the time of day."""
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    millis = array.cast(pa.timestamp("ms", zone), safe=False)
    if pa.types.is_timestamp(array.type) and array.type.unit in ("us", "ns"):
        row = first_true(pc.fill_null(pc.not_equal(millis.cast(array.type), array), False))
        if row is not None:
            raise too_fine(name, f"'{array[row]}'", row=row)
    return millis.view(pa.int64()).view(pa.date64())


def too_fine(name: str, value: str, **details: Any) -> InvalidRow:
    """A time with more digits than a DateTime keeps."""
    message = f"property '{name}' value {value} is finer than a millisecond"
    return InvalidRow(message, hint="round it; a load does with times='round'", property=name, **details)


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
            f"vector property '{name}' elements must be numeric, got {schema_word(array.type.value_type)}",
            property=name,
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


def end_ids(edge: EdgeType, column: pa.ChunkedArray, name: str) -> pa.Array:
    """The ids of the nodes at one end; numbers where the key of those nodes is one."""
    key = edge.integer_ends.get(name)
    if key is None or _compatible(column.type, pa.string()):
        return _cast_text(column, name)
    type_ = PropertyType(key)
    return canonical_text(cast_column(column, type_, arrow_type(type_), name), type_)


def _cast_text(column: pa.ChunkedArray, name: str) -> pa.Array:
    array = column.combine_chunks()
    return array if array.type == pa.string() else _cast(array, pa.string(), name)


_REQUIRED_KINDS = {Scalar.VECTOR: "vector property", Scalar.BLOB: "blob property"}


class RowRule(StrEnum):
    """Which rule a violation breaks."""

    REQUIRED = "required"
    ENDPOINT = "endpoint"  # an edge without one
    RANGE = "range"
    CHECK = "check"
    ENUM = "enum"
    KEY = "key"  # a null in a key
    ID = "id"  # an id that is not the text of the key
    EMPTY_ID = "empty_id"


#: One violation a row. ``row`` is its position in the columns, ``expected`` what the rule asks for.
ROW_VIOLATIONS = pa.schema(
    [("rule", pa.string()), ("property", pa.string()), ("row", pa.int64()), ("expected", pa.string())]
)


def required(prop: Property, column: pa.Array) -> Iterator[pa.Table]:
    """Nulls in a property that must have a value."""
    if not prop.type.nullable and column.null_count:
        yield from _table(RowRule.REQUIRED, prop.name, pc.is_null(column))


def required_endpoint(name: str, column: pa.Array) -> Iterator[pa.Table]:
    """Edges without a node at one end."""
    if column.null_count:
        yield from _table(RowRule.ENDPOINT, name, pc.is_null(column))


def value_rules(type_: NodeType | EdgeType, columns: Mapping[str, Any]) -> Iterator[pa.Table]:
    """Values that break ``@range``, ``@check`` or an enum; only the columns with such a rule are looked at."""
    if isinstance(type_, NodeType):
        yield from _ranges(type_, columns)
        yield from _patterns(type_, columns)
    for name, prop in type_.properties.items():
        allowed = prop.type.enum_values
        if allowed is not None:
            is_other = pc.invert(pc.is_in(columns[name], value_set=pa.array(allowed, pa.string())))
            yield from _table(RowRule.ENUM, name, pc.and_(pc.is_valid(columns[name]), is_other), ", ".join(allowed))


def ruled_columns(type_: NodeType | EdgeType) -> tuple[str, ...]:
    """The properties that `value_rules` looks at."""
    names = {name for name, prop in type_.properties.items() if prop.type.enum_values is not None}
    if isinstance(type_, NodeType):
        names |= {rule.property for rule in type_.ranges} | {rule.property for rule in type_.checks}
    return tuple(sorted(names))


def key_rules(type_: NodeType, columns: Mapping[str, Any]) -> Iterator[pa.Table]:
    """Nulls in a key."""
    for name in type_.key or ():
        if columns[name].null_count:
            yield from _table(RowRule.KEY, name, pc.is_null(columns[name]))


def id_rules(type_: NodeType | EdgeType, ids: pa.Array, given: pa.Array) -> Iterator[pa.Table]:
    """Given ids that are empty, or not the text of the key. A null means that no id was given.

    Args:
        ids: for a keyed node the texts of the keys.
    """
    if isinstance(type_, NodeType) and type_.key:
        differs = pc.or_(pc.is_null(ids), pc.fill_null(pc.not_equal(ids, given), False))
        yield from _table(RowRule.ID, "id", pc.and_(pc.is_valid(given), differs), ids)
    else:
        yield from _table(RowRule.EMPTY_ID, "id", pc.fill_null(pc.equal(given, ""), False))


def row_error(type_: NodeType | EdgeType, columns: Mapping[str, Any], violation: Mapping[str, Any]) -> OmniGraphError:
    """The error that a row of `ROW_VIOLATIONS` means; ``columns`` are those in which it was found."""
    name, row, expected = violation["property"], violation["row"], violation["expected"]
    details = {"type": type_.name, "property": name, "row": row}
    match RowRule(violation["rule"]):
        case RowRule.REQUIRED:
            return missing_value(name, type_.properties[name].type, type=type_.name, row=row)
        case RowRule.ENDPOINT:
            return MissingValue(f"edge {type_.name} has a null '{name}'", **details)
        case RowRule.RANGE:
            text = f"@range violation on {type_.name}.{name}: value {columns[name][row]} {expected}"
            return RangeViolation(text, **details)
        case RowRule.CHECK:
            text = f"value '{columns[name][row]}' does not match pattern '{expected}'"
            return CheckViolation(f"@check violation on {type_.name}.{name}: {text}", **details)
        case RowRule.ENUM:
            text = f"invalid enum value '{columns[name][row]}' for {type_.name}.{name} (expected: {expected})"
            return EnumViolation(text, **details)
        case RowRule.KEY:
            return MissingValue(f"node {type_.name} missing @key property '{name}'", **details)
        case RowRule.ID:
            given = columns[name][row]
            text = f"node {type_.name} explicit id '{given}' does not match its canonical @key id '{expected}'"
            return IdMismatch(text, type=type_.name, row=row)
        case RowRule.EMPTY_ID:
            return InvalidRow(f"{type_.table_key} has an empty id", type=type_.name, row=row)


def missing_value(name: str, type_: PropertyType, **details: Any) -> MissingValue:
    """A null for a property that must have a value."""
    kind = _REQUIRED_KINDS.get(type_.scalar)
    text = f"non-nullable {kind} '{name}' has null values" if kind else None
    return MissingValue(text or f"non-nullable property '{name}' has null or invalid values", property=name, **details)


def _ranges(type_: NodeType, columns: Mapping[str, Any]) -> Iterator[pa.Table]:
    for rule in type_.ranges:
        values = columns[rule.property]
        if pa.types.is_list(values.type):
            continue
        for bound, compare, words in ((rule.low, pc.less, "< min"), (rule.high, pc.greater, "> max")):
            if bound is not None:
                is_outside = pc.fill_null(compare(values, _bound(bound, values.type)), False)
                yield from _table(RowRule.RANGE, rule.property, is_outside, f"{words} {bound}")


def _bound(bound: int | float, type_: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(bound, type_)
    except (pa.ArrowInvalid, OverflowError, TypeError):
        return pa.scalar(float(bound), pa.float64())


def _patterns(type_: NodeType, columns: Mapping[str, Any]) -> Iterator[pa.Table]:
    for rule in type_.checks:
        values = columns[rule.property]
        if pa.types.is_string(values.type):
            is_other = pc.fill_null(pc.invert(pc.match_substring_regex(values, rule.pattern)), False)
            yield from _table(RowRule.CHECK, rule.property, is_other, rule.pattern)


def _table(rule: RowRule, name: str, mask: Any, expected: str | pa.Array | None = None) -> Iterator[pa.Table]:
    """The violations of the marked rows, if there are any."""
    if not pc.any(mask).as_py():
        return
    rows = pa.array(np.flatnonzero(mask.to_numpy(zero_copy_only=False)))
    asked = (
        expected.take(rows)
        if isinstance(expected, pa.Array)
        else pa.repeat(pa.scalar(expected, pa.string()), len(rows))
    )
    yield pa.table([pa.repeat(rule.value, len(rows)), pa.repeat(name, len(rows)), rows, asked], schema=ROW_VIOLATIONS)


def with_ids(type_: NodeType | EdgeType, rows: pa.Table, given: pa.Array | None) -> tuple[pa.Array, bool]:
    """Ids of rows in their stored types, and whether all of them are fresh (no existing row can have one). The rules
    for given ids are in `row_rules.py`."""
    if isinstance(type_, NodeType) and type_.key:
        texts = [canonical_text(rows.column(name).combine_chunks(), type_.properties[name].type) for name in type_.key]
        return (texts[0] if len(texts) == 1 else composite_id(texts)), False
    if given is None:
        return new_ulids(rows.num_rows), True
    return (pc.coalesce(given, new_ulids(rows.num_rows)) if given.null_count else given), False


def key_label(type_: NodeType) -> str:
    """How messages name the key: ``Person.handle`` or ``Person.(a, b)``."""
    return column_label(type_.name, type_.key or ("id",))


def column_label(type_name: str, columns: tuple[str, ...]) -> str:
    return f"{type_name}.{columns[0]}" if len(columns) == 1 else f"{type_name}.({', '.join(columns)})"


def first_true(mask: Any) -> int | None:
    """Position of the first true value of a boolean array."""
    position: int = pc.index(mask, True).as_py()
    return None if position < 0 else position
