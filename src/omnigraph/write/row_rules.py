"""The rules about one row, each stated once: required values, endpoints, ``@range``, ``@check``, enums, keys and ids.

A rule is a function from columns in their stored types to tables of violations (`ROW_VIOLATIONS`), without a loop over
rows, so that the embedded path and the executors of a Spark job run the same code. `row_error` turns a violation into
the error that names the property, the value and the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import (
    CheckViolation,
    EnumViolation,
    IdMismatch,
    InvalidRow,
    MissingValue,
    OmniGraphError,
    RangeViolation,
)
from omnigraph.schema.catalog import EdgeType, NodeType, Property, PropertyType, Scalar

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
