"""The canonical text of values: what ids of keyed nodes and tuples of `@unique` are made of.

Works on whole Arrow arrays. A null stays null. The text is rendered from the stored value, after narrowing to the
column's type, so that a load and a mutation of the same value meet in the same id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError, InvalidRow
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropertyType, Scalar

_CONTROL_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | {
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def canonical_text(array: pa.Array, type_: PropertyType) -> pa.StringArray:
    """Text of each value of a column.

    Args:
        array: values of the property; they are narrowed to its column type first.
        type_: a scalar type that may take part in a key or a unique rule.

    Raises:
        InvalidRow: a float is not finite; ``details["row"]`` is its position.
    """
    if type_.list or type_.scalar in (Scalar.BLOB, Scalar.VECTOR):
        raise InternalError(f"a value of type {type_} has no canonical text")
    stored = _stored(array, arrow_type(type_))
    match type_.scalar:
        case Scalar.STRING:
            return stored
        case Scalar.DATE:
            return stored.view(pa.int32()).cast(pa.string())
        case Scalar.DATETIME:
            return stored.view(pa.int64()).cast(pa.string())
        case Scalar.F32 | Scalar.F64:
            return _float_text(stored)
    return stored.cast(pa.string())


def _stored(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if pa.types.is_date64(type_) and pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms")).view(pa.int64())  # Arrow's own cast would drop the time of day
    return array.cast(type_)


def composite_id(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """Compact JSON arrays of canonical texts, one per row; null where any part is null.

    >>> composite_id([pa.array(["7"]), pa.array(["acme"])]).to_pylist()
    ['["7","acme"]']
    """
    if not columns:
        raise InternalError("a composite id needs at least one column")
    parts = [json_inner(column) for column in columns]
    body = pc.binary_join_element_wise(*parts, '","', null_handling="emit_null")
    return pc.binary_join_element_wise('["', body, '"]', "", null_handling="emit_null")


def json_inner(texts: pa.Array) -> pa.Array:
    """The inside of a JSON string literal for each text."""
    texts = pc.replace_substring(texts, "\\", "\\\\")
    texts = pc.replace_substring(texts, '"', '\\"')
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        for sign, escape in _CONTROL_ESCAPES.items():
            texts = pc.replace_substring(texts, sign, escape)
    return texts


def _float_text(values: pa.Array) -> pa.StringArray:
    """Shortest round trip without exponent. Arrow gives the shortest digits, but with an exponent far from 1."""
    finite = pc.is_finite(values)
    row = pc.index(finite, False).as_py()
    if row >= 0:
        raise InvalidRow(f"a key or unique value must be a finite number, got {values[row]}", row=row)
    texts = values.cast(pa.string())
    texts = pc.if_else(pc.equal(values, pa.scalar(0, values.type)), "0", texts)
    return _without_exponent(values, texts)


def _without_exponent(values: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    """Spell out the few values that Arrow writes as ``1e+20``; no Arrow kernel does, so these go one by one."""
    exponential = pc.fill_null(pc.match_substring(texts, "e"), False)
    if not pc.any(exponential).as_py():
        return texts
    spelled = [
        np.format_float_positional(value, trim="-", unique=True)
        for value in values.filter(exponential).to_numpy(zero_copy_only=False)
    ]
    return pc.replace_with_mask(texts, exponential, pa.array(spelled, pa.string()))
