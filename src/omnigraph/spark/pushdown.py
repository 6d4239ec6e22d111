"""Filters of a DataFrame → filters that the storage applies while it reads, made of values.

A first pass only: it may let rows through that do not match, and Spark tests every row again. So nothing depends on
the two comparing alike, and what has no counterpart is simply not pushed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as ds

from omnigraph.storage.tables.filters import ColumnFilter, compare, one_of

_SIGNS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """What the storage tests. ``empty`` when no row can pass."""

    filters: tuple[ColumnFilter, ...] = ()
    empty: bool = False


NO_FILTERS = PushedFilters()


def push_filters(filters: Sequence[ds.Filter], stored: pa.Schema) -> PushedFilters:
    """The filters that the storage can test on columns of this schema."""
    found: list[ColumnFilter] = []
    for each in filters:
        column, type_ = _column(each, stored)
        if type_ is None or not _is_comparable(type_):
            continue
        match each:
            case ds.In():
                values = _values(each.value, type_)
                if values is not None:
                    found.append(one_of(column, values))
            case ds.Not(child=ds.EqualTo() as inner):
                _add(found, column, type_, "!=", inner.value)
            case _ if type(each) in _SIGNS:
                if not _add(found, column, type_, _SIGNS[type(each)], each.value):  # type: ignore[attr-defined]
                    return PushedFilters(empty=True)
    return PushedFilters(tuple(found))


def _column(filter_: ds.Filter, stored: pa.Schema) -> tuple[str, pa.DataType | None]:
    named = filter_.child if isinstance(filter_, ds.Not) else filter_
    path: tuple[str, ...] = getattr(named, "attribute", ())
    if len(path) != 1 or path[0] not in stored.names:
        return "", None
    return path[0], stored.field(path[0]).type


def _is_comparable(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_float64(type_)
        or pa.types.is_date32(type_)
    )


def _add(found: list[ColumnFilter], column: str, type_: pa.DataType, sign: str, value: Any) -> bool:
    """Add a comparison; False when no row can be in this relation."""
    value = _plain(value)
    if value is None or not _fits(value, type_):
        return True
    made = compare(column, type_, sign, value)
    if made is not None:
        found.append(made)
    return made is not None


def _values(values: Sequence[Any], type_: pa.DataType) -> pa.Array | None:
    plain = [_plain(value) for value in values]
    if not all(value is None or _fits(value, type_) for value in plain):
        return None
    try:
        return pa.array([value for value in plain if value is not None], type_)
    except (pa.ArrowInvalid, OverflowError):
        return None


def _plain(value: Any) -> Any:
    """Whole numbers of Spark's decimals as Python's."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _fits(value: Any, type_: pa.DataType) -> bool:
    if pa.types.is_string(type_):
        return isinstance(value, str)
    if pa.types.is_date32(type_):
        return hasattr(value, "toordinal") and not hasattr(value, "hour")
    if pa.types.is_boolean(type_):
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)
