"""One JSON value → one value of a column, with the exact reason when it does not fit. The slow path only.

Results are what `write.stored_values.column` puts into an Arrow array: days and milliseconds as
integers, blobs as bytes.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from omnigraph.errors import InvalidRow
from omnigraph.query.temporal import from_days, from_millis, parse_date, parse_datetime, to_days, to_millis
from omnigraph.schema.catalog import PropertyType, Scalar
from omnigraph.write.blobs import blob_bytes
from omnigraph.write.load.strict_json import shown

#: Names of the stored types as messages spell them.
_ARROW_NAMES = {
    Scalar.STRING: "Utf8",
    Scalar.BOOL: "Boolean",
    Scalar.I32: "Int32",
    Scalar.I64: "Int64",
    Scalar.U32: "UInt32",
    Scalar.U64: "UInt64",
    Scalar.F32: "Float32",
    Scalar.F64: "Float64",
    Scalar.DATE: "Date32",
    Scalar.DATETIME: "Date64",
}
_BOUNDS = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


class _WrongKind(Exception):
    """The JSON type of a value is not one that the property takes."""


def json_value(name: str, type_: PropertyType, value: Any) -> Any:
    """The stored form of a member of ``data``; null stays null, whether it may be is decided with the whole row."""
    if value is None:
        return None
    if type_.scalar is Scalar.VECTOR:
        return _vector(name, type_, value)
    if type_.list:
        return _list(name, type_.scalar, value)
    if type_.scalar is Scalar.BLOB:
        return _blob(name, value)
    try:
        return _scalar(name, type_.scalar, value, f"property '{name}' value")
    except _WrongKind:
        message = f"strict property '{name}' expects {_ARROW_NAMES[type_.scalar]}, got {shown(value)}"
        raise InvalidRow(message, property=name) from None


def _list(name: str, scalar: Scalar, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRow(f"list property '{name}' expects a JSON array, got {shown(value)}", property=name)
    try:
        return [_scalar(name, scalar, item, "list value") for item in value]
    except _WrongKind:
        message = f"strict list property '{name}' contains a null or invalid item"
        raise InvalidRow(message, property=name) from None


def _vector(name: str, type_: PropertyType, value: Any) -> list[float]:
    if not isinstance(value, list):
        raise InvalidRow(f"vector property '{name}' expects a JSON array, got {shown(value)}", property=name)
    if len(value) != type_.dimension:
        message = f"vector property '{name}' expects {type_.dimension} dimensions, got {len(value)}"
        raise InvalidRow(message, property=name)
    wrong = next((item for item in value if not _is_number(item)), value)
    if wrong is not value:
        raise InvalidRow(f"vector property '{name}' elements must be numeric, got {shown(wrong)}", property=name)
    return [_real(name, Scalar.F32, item, f"property '{name}' value") for item in value]


def _blob(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise InvalidRow(f"blob property '{name}' must be a URI string or base64: prefixed data", property=name)
    return blob_bytes(value, name)


def _scalar(name: str, scalar: Scalar, value: Any, subject: str) -> Any:
    match scalar:
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64 if isinstance(value, int) and not _is_bool(value):
            return _whole(name, scalar, value, subject)
        case Scalar.F32 | Scalar.F64 if _is_number(value):
            return _real(name, scalar, value, subject)
        case Scalar.STRING if isinstance(value, str):
            return value
        case Scalar.BOOL if isinstance(value, bool):
            return value
        case Scalar.DATE | Scalar.DATETIME if isinstance(value, str | int) and not _is_bool(value):
            return _moment(name, scalar, value)
    raise _WrongKind


def _whole(name: str, scalar: Scalar, value: int, subject: str) -> int:
    low, high = _BOUNDS[scalar]
    if not low <= value <= high:
        raise InvalidRow(f"{subject} {value} exceeds {_ARROW_NAMES[scalar]} range", property=name)
    return value


def _real(name: str, scalar: Scalar, value: int | float, subject: str) -> float:
    number = float(value)
    if scalar is Scalar.F32:
        try:
            struct.pack("<f", number)
        except OverflowError:
            raise InvalidRow(f"{subject} {shown(value)} exceeds Float32 range", property=name) from None
    return number


def _moment(name: str, scalar: Scalar, value: str | int) -> int:
    try:
        if scalar is Scalar.DATE:
            return to_days(parse_date(value) if isinstance(value, str) else from_days(value))
        return to_millis(parse_datetime(value) if isinstance(value, str) else from_millis(value))
    except ValueError as error:
        raise InvalidRow(str(error), property=name) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not _is_bool(value) and math.isfinite(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)
