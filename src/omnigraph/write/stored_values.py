"""Values of a mutation in the form their column stores: resolved, range-checked, converted.

The checker has made sure that a value's type fits its property. What only the value can tell is checked here: range,
width, length, text and null. One value at a time; a column of a bulk update repeats one value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from omnigraph.errors import InternalError, InvalidRow, ParameterError
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.temporal import to_days, to_millis
from omnigraph.query.typed import Constant, ConstantValue, KeyId, MutationValue, Now, ParamRef, RowTest
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.schema.arrow import arrow_type, canonical_text, id_text
from omnigraph.schema.catalog import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.tables.filters import ColumnFilter, compare, equals
from omnigraph.write.blob_text import blob_bytes
from omnigraph.write.row_rules import missing_value


@dataclass(frozen=True, slots=True)
class MutationValues:
    """What the names of a mutation stand for: its parameters, and the one instant of ``now()``.

    Attributes:
        budget: how long the look for rows may last.
    """

    params: Mapping[str, ConstantValue]
    now: datetime
    budget: ReadBudget = UNBOUNDED

    def of(self, value: MutationValue) -> ConstantValue:
        match value:
            case Constant():
                return value.value
            case Now():
                return self.now
            case ParamRef():
                if value.name not in self.params:
                    raise ParameterError(f"parameter '{value.name}' not provided", parameter=value.name)
                return self.params[value.name]
            case KeyId():
                found = self.of(value.value)
                if isinstance(found, tuple):
                    return tuple(id_text(each, value.key) for each in found)
                return None if found is None else id_text(found, value.key)

    def stored(self, name: str, type_: PropertyType, value: MutationValue) -> Any:
        """A value as the column of a property takes it (see `column`)."""
        return stored_value(name, type_, self.of(value))

    def filter(self, test: RowTest) -> ColumnFilter | None:
        """The rows a comparison means; None when it matches nothing, as a comparison with null does."""
        value = self.of(test.value)
        if value is None:
            return None
        return compare(test.column, arrow_type(test.type), test.operator.value, _comparable(test.column, value))


def by_id(type_: NodeType | EdgeType, filter_: ColumnFilter) -> ColumnFilter:
    """A test for one key as a test for its id, which goes through the index on ids; any other test as it is."""
    found = named_id(type_, filter_)
    return filter_ if found is None or filter_.column == "id" else ColumnFilter("id", equals("id", found))


def named_id(type_: NodeType | EdgeType, filter_: ColumnFilter) -> str | None:
    """The id of the one row that a test for one key or one id can mean; None for any other test."""
    if filter_.equal_to is None:
        return None
    if filter_.column == "id":
        return str(filter_.equal_to.as_py())
    if not isinstance(type_, NodeType) or type_.key != (filter_.column,):
        return None
    text = canonical_text(pa.repeat(filter_.equal_to, 1), type_.properties[filter_.column].type)
    return str(text[0].as_py())


def stored_value(name: str, type_: PropertyType, value: ConstantValue) -> Any:
    """A value of the language as a Python value that Arrow puts into the property's column.

    Raises:
        MissingValue: null for a property that must have a value.
        InvalidRow: the value does not fit the property.
    """
    if value is None:
        if type_.nullable:
            return None
        raise missing_value(name, type_)
    if type_.scalar is Scalar.VECTOR:
        return _vector(name, type_, value)
    if type_.list:
        return [_scalar(name, type_.scalar, item, "list") for item in _items(name, value)]
    return _scalar(name, type_.scalar, value)


def column(type_: PropertyType, values: Sequence[Any]) -> pa.Array:
    """Stored values as a column."""
    return pa.array(values, arrow_type(type_))


def _items(name: str, value: ConstantValue) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise InvalidRow(f"list property '{name}' expects a list, got {_shown(value)}", property=name)
    return value


def _vector(name: str, type_: PropertyType, value: ConstantValue) -> list[float]:
    items = _items(name, value)
    if len(items) != type_.dimension:
        raise InvalidRow(
            f"vector property '{name}' expects {type_.dimension} dimensions, got {len(items)}", property=name
        )
    return [_real(name, Scalar.F32, item) for item in items]


def _scalar(name: str, scalar: Scalar, value: Any, where: str = "integer") -> Any:
    match scalar:
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _whole(name, scalar, value, where)
        case Scalar.F32 | Scalar.F64:
            return _real(name, scalar, value)
        case Scalar.STRING if isinstance(value, str):
            return _text(name, value)
        case Scalar.BLOB if isinstance(value, str):
            return blob_bytes(value, name)
        case Scalar.BOOL if isinstance(value, bool):
            return value
        case Scalar.DATETIME if isinstance(value, datetime):
            return to_millis(value)
        case Scalar.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return to_days(value)
    raise InvalidRow(f"property '{name}' expects {scalar}, got {_shown(value)}", property=name)


def _whole(name: str, scalar: Scalar, value: Any, where: str) -> int:
    bounds = INTEGER_BOUNDS[scalar]
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRow(f"property '{name}' expects {scalar}, got {_shown(value)}", property=name)
    if value not in bounds:
        raise InvalidRow(f"{where} value {value} exceeds {bounds.name} range", property=name)
    return value


def _real(name: str, scalar: Scalar, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidRow(f"property '{name}' expects {scalar}, got {_shown(value)}", property=name)
    if not math.isfinite(value):
        raise InvalidRow(f"property '{name}' value {value} is not a finite number", property=name)
    if scalar is Scalar.F32:
        try:
            struct.pack("<f", value)
        except OverflowError:
            raise InvalidRow(f"float value {value} exceeds F32 range", property=name) from None
    return float(value)


def _text(name: str, value: str) -> str:
    if not _is_unicode(value):
        raise InvalidRow(f"property '{name}' expects Unicode text, got a lone surrogate", property=name)
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _comparable(name: str, value: ConstantValue) -> Any:
    match value:
        case datetime():
            return to_millis(value)
        case date():
            return to_days(value)
        case str():
            return _text(name, value)
        case bool() | int() | float():
            return value
    raise InternalError(f"a value of type {type(value).__name__} cannot be compared")


def _shown(value: object) -> str:
    return "null" if value is None else type(value).__name__
