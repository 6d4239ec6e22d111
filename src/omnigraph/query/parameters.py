"""Parameter values from a client → values of the declared types, before anything runs.

Takes what JSON gives and what a Python client has at hand (dates, NumPy scalars and arrays). Every refusal is a
`ParameterError` that names the parameter. NumPy is recognised, never imported.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NoReturn, TypeAlias

from omnigraph.errors import EmbeddingSettingsError, ParameterError
from omnigraph.ids import did_you_mean
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.temporal import FORMS, parse_date, parse_datetime, to_utc
from omnigraph.query.typed import ConstantValue, Parameter, ParamRef, TextVector, TypedMutation, TypedQuery
from omnigraph.schema.catalog import PropertyType, Scalar

BoundValue: TypeAlias = ConstantValue  # lists and vectors are tuples

#: Makes the vectors of texts, in their order.
TextEmbedder: TypeAlias = Callable[[list[tuple[TextVector, str]]], list[tuple[float, ...]]]

_DECIMAL_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_LONGEST_SHOWN = 40


def bind_params(
    query: TypedQuery | TypedMutation,
    params: Mapping[str, object] | None = None,
    embedder: TextEmbedder | None = None,
) -> dict[str, BoundValue]:
    """Bind every declared parameter, and the vectors of the texts that the query compares with vectors.

    Args:
        query: a checked query.
        params: values by name without ``$``; None means none.
        embedder: asked once, if there are such texts.

    Returns:
        A value for each declared parameter: ``str``, ``int``, ``float``, ``bool``, ``date``, an aware UTC ``datetime``,
        a tuple of those, or None for a nullable parameter that is null or missing. A vector by `TextVector.key`; None
        for one whose text is null.

    Raises:
        ParameterError: a value is missing, null without being allowed to, or not of the declared type, or a name is
            not declared.
    """
    given = {} if params is None else params
    if not isinstance(given, Mapping):
        raise ParameterError("params must be a JSON object", hint='pass a mapping, as in params={"name": "Ana"}')
    declared = {parameter.name: parameter for parameter in query.params}
    for name in given:
        if name not in declared:
            hint = did_you_mean(str(name).removeprefix("$"), declared) if declared else "it takes none"
            raise ParameterError(f"query '{query.name}' has no parameter '{name}'", hint=hint, parameter=str(name))
    values = {name: _bind(parameter, given) for name, parameter in declared.items()}
    if isinstance(query, TypedQuery) and query.texts:
        values |= _vectors(query.texts, values, embedder)
    return values


def _vectors(
    wanted: tuple[TextVector, ...], values: Mapping[str, BoundValue], embedder: TextEmbedder | None
) -> dict[str, BoundValue]:
    texts = {each: values[each.text.name] if isinstance(each.text, ParamRef) else each.text.value for each in wanted}
    asked = [(each, text) for each, text in texts.items() if isinstance(text, str)]
    vectors: dict[str, BoundValue] = {each.key: None for each in wanted}
    if asked:
        if embedder is None:
            raise EmbeddingSettingsError("nearest() with a text needs an embedding provider", hint="pass a vector")
        for (each, _), vector in zip(asked, embedder(asked), strict=True):
            vectors[each.key] = vector
    return vectors


def _bind(parameter: Parameter, given: Mapping[str, object]) -> BoundValue:
    name, kind = parameter.name, parameter.type
    if name not in given:
        if kind.nullable:
            return None
        raise ParameterError(f"parameter '{name}' not provided", parameter=name)
    raw = _plain(given[name])
    if raw is None:
        if kind.nullable:
            return None
        _refuse(name, "null is not accepted for non-nullable parameter", hint=f"it is declared as {kind}")
    try:
        value = _convert(raw, kind)
    except ValueError as refused:
        form = FORMS.get(kind.scalar)
        _refuse(name, str(refused), hint=f"it is declared as {kind}" + (f", written {form}" if form else ""))
    if parameter.at_least is not None and isinstance(value, int) and value < parameter.at_least:
        _refuse(name, f"expected at least {parameter.at_least}, got {value}")
    return value


def _refuse(name: str, why: str, hint: str | None = None) -> NoReturn:
    raise ParameterError(f"param '{name}': {why}", hint=hint, parameter=name) from None


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as Python values; everything else as it is."""
    if type(value).__module__ != "numpy":
        return value
    if value.dtype.kind == "M":
        value = value.astype("datetime64[D]" if value.dtype == "datetime64[D]" else "datetime64[ms]")
    return value.tolist()


def _convert(raw: Any, kind: PropertyType) -> BoundValue:
    if kind.list:
        return _list(raw, kind)
    if kind.scalar is Scalar.VECTOR:
        return _vector(raw, kind.dimension or 0)
    return _CONVERSIONS[kind.scalar](raw, kind.scalar)


def _list(raw: Any, kind: PropertyType) -> BoundValue:
    if not isinstance(raw, list | tuple):
        raise ValueError(f"expected array for [{kind.scalar}]")
    convert = _CONVERSIONS[kind.scalar]
    return tuple(convert(_plain(item), kind.scalar) for item in raw)


def _vector(raw: Any, dimension: int) -> BoundValue:
    if not isinstance(raw, list | tuple):
        raise ValueError(f"expected array for Vector({dimension})")
    if len(raw) != dimension:
        raise ValueError(f"expected {dimension} values for Vector({dimension}), got {len(raw)}")
    return tuple(raw) if _are_narrow(raw) else tuple(_component(_plain(item)) for item in raw)


def _are_narrow(raw: Sequence[Any]) -> bool:
    """Whether all are floats that a 32-bit column can hold, looked at together: vectors have hundreds of components."""
    try:
        struct.pack(f"<{len(raw)}f", *raw)
    except (struct.error, OverflowError):
        return False
    return {*map(type, raw)} == {float} and all(map(math.isfinite, raw))


def _component(raw: Any) -> float:
    if not _is_number(raw):
        raise ValueError("vector element is not numeric")
    try:
        value = float(raw)
        is_finite = math.isfinite(_narrowed(value))
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise ValueError("vector element is not a finite number of 32 bits")
    return value


def _string(raw: Any, scalar: Scalar) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"expected string, got {_json_kind(raw)}")
    return str(raw)


def _blob(raw: Any, scalar: Scalar) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"expected blob URI string, got {_json_kind(raw)}")
    return str(raw)


def _boolean(raw: Any, scalar: Scalar) -> bool:
    if not isinstance(raw, bool):
        raise ValueError("expected boolean")
    return raw


def _integer(raw: Any, scalar: Scalar) -> int:
    bounds = INTEGER_BOUNDS[scalar]
    is_unsigned = bounds.low == 0
    word = "unsigned integer" if is_unsigned else "integer"
    if isinstance(raw, str):
        if not _DECIMAL_INTEGER.fullmatch(raw) or (is_unsigned and raw.startswith("-")):
            raise ValueError(f"expected {word} string, got '{_shown(raw)}'")
        value = int(raw)
    elif isinstance(raw, int) and not isinstance(raw, bool) and not (is_unsigned and raw < 0):
        value = int(raw)
    else:
        raise ValueError(f"expected {word} number")
    if value in bounds:
        return value
    raise ValueError(f"value {_shown_integer(value)} exceeds {scalar}")


def _float(raw: Any, scalar: Scalar) -> float:
    if not _is_number(raw):
        raise ValueError("expected float")
    try:
        value = float(raw)
        narrowed = _narrowed(value) if scalar is Scalar.F32 else value
    except OverflowError:
        raise ValueError(f"value exceeds {scalar}") from None
    if not math.isfinite(narrowed):
        raise ValueError(f"expected float, got {value}, which is not finite")
    return value


def _date(raw: Any, scalar: Scalar) -> date:
    if isinstance(raw, date) and not isinstance(raw, datetime):
        return raw
    if not isinstance(raw, str):
        raise ValueError("expected date string")
    return parse_date(raw)


def _datetime(raw: Any, scalar: Scalar) -> datetime:
    if isinstance(raw, datetime):
        try:
            return to_utc(raw)
        except OverflowError:
            raise ValueError(f"invalid DateTime literal '{raw.isoformat()}'") from None
    if isinstance(raw, date):
        return datetime(raw.year, raw.month, raw.day, tzinfo=UTC)
    if not isinstance(raw, str):
        raise ValueError("expected datetime string")
    return parse_datetime(raw)


_CONVERSIONS: dict[Scalar, Callable[[Any, Scalar], str | int | float | bool | date | datetime]] = {
    Scalar.STRING: _string,
    Scalar.BLOB: _blob,
    Scalar.BOOL: _boolean,
    Scalar.I32: _integer,
    Scalar.I64: _integer,
    Scalar.U32: _integer,
    Scalar.U64: _integer,
    Scalar.F32: _float,
    Scalar.F64: _float,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
}


def _narrowed(value: float) -> float:
    """The value as a 32-bit column holds it; OverflowError if it does not fit."""
    narrowed: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return narrowed


def _is_number(raw: Any) -> bool:
    return isinstance(raw, int | float) and not isinstance(raw, bool)


def _json_kind(raw: Any) -> str:
    """What JSON calls a value; the Python type for what JSON does not have."""
    if raw is None:
        return "null"
    if isinstance(raw, bool):
        return "boolean"
    if isinstance(raw, int | float):
        return "number"
    if isinstance(raw, list | tuple):
        return "array"
    return "object" if isinstance(raw, Mapping) else type(raw).__name__


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _shown_integer(value: int) -> str:
    return str(value) if abs(value) < 10**_LONGEST_SHOWN else "with more than 40 digits"
