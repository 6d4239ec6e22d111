"""The value of ``@default(…)``: the literal of the annotation as the column of its property stores it.

What fills a missing value with it is `write/row_rules.py`. An accepted schema may hold a default that fits no value,
from software to which the annotation meant nothing; there it is none. A new schema is refused (`schema_mistakes.py`).
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime, timedelta

from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.schema.catalog import Annotation, Literal, PropertyType, Scalar

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(rf"{_DATE.pattern}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{3}})?Z")


def default_of(type_: PropertyType, annotations: tuple[Annotation, ...]) -> Literal | None:
    """The default of a property with these annotations; None when it has none or one that does not fit."""
    found = next((each.value for each in annotations if each.name == "default"), None)
    try:
        return None if found is None else stored_default(type_, found)
    except ValueError:
        return None


def stored_default(type_: PropertyType, literal: Literal) -> Literal:
    """A literal as the stored value of a property.

    Raises:
        ValueError: says what a default of this type looks like.

    >>> stored_default(PropertyType(Scalar.DATE), "1970-01-03")
    2
    """
    if type_.list or type_.scalar in (Scalar.VECTOR, Scalar.BLOB):
        raise ValueError(f"a property of type {type_} has no default")
    value = _stored(type_.scalar, literal)
    if value is None:
        raise ValueError(f"a default of {type_.scalar} is {_FORMS[type_.scalar]}")
    if type_.enum_values is not None and value not in type_.enum_values:
        raise ValueError(f"a default of {type_} is one of its values")
    return value


_WHOLE = "a whole number of its range"
_FORMS = {
    Scalar.STRING: "a string",
    Scalar.BOOL: "true or false",
    **dict.fromkeys((Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64), _WHOLE),
    **dict.fromkeys((Scalar.F32, Scalar.F64), "a number of its range"),
    Scalar.DATE: 'a day such as "2024-02-29"',
    Scalar.DATETIME: 'an instant such as "2024-02-29T12:00:00Z"',
}


def _stored(scalar: Scalar, literal: Literal) -> Literal | None:
    match literal:
        case bool():
            return literal if scalar is Scalar.BOOL else None
        case int() if scalar.is_integer:
            return literal if literal in INTEGER_BOUNDS[scalar] else None
        case int() | float():
            return _real(scalar, float(literal))
    return _from_text(scalar, literal)


def _real(scalar: Scalar, value: float) -> float | None:
    if scalar is Scalar.F32:
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return None
    return value if scalar is Scalar.F64 else None


def _from_text(scalar: Scalar, text: str) -> str | int | None:
    try:
        if scalar is Scalar.DATE and _DATE.fullmatch(text):
            return (date.fromisoformat(text) - date(1970, 1, 1)).days
        if scalar is Scalar.DATETIME and _INSTANT.fullmatch(text):
            return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except ValueError:
        return None
    return text if scalar is Scalar.STRING else None
