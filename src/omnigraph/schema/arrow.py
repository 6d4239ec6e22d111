"""Types in Arrow: the columns of a table, their order, nullability and metadata; and the canonical text of key values.

A blob column has the logical type ``large_binary`` here and a mark in its metadata; storage swaps in the physical one.
Equal values have equal texts, and only those; ids of keyed nodes and unique tuples are made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import ids
from omnigraph.errors import InternalError, InvalidRow
from omnigraph.lru import LruCache
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, EdgeType, NodeType, Property, PropertyType, Scalar
from omnigraph.schema.stable_ids import prop_id

PRIMARY_KEY_METADATA = "lance-schema:unenforced-primary-key"
PROPERTY_ID_METADATA = "omnigraph.stable_property_id"
BLOB_METADATA = "omnigraph.blob"

#: Where the text of an instant, counted from its end, has the blank between date and time of day.
_BEFORE_CLOCK = -len(" 00:00:00.000")

_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
    Scalar.BLOB: pa.large_binary(),
}


#: Schemas of the types that were used last. An entry holds its type, so that no other object gets its identity.
_TABLE_SCHEMAS: LruCache[int, tuple[NodeType | EdgeType, pa.Schema]] = LruCache(max_entries=1_024)


def arrow_type(type_: PropertyType) -> pa.DataType:
    """The Arrow type of a column with this property type."""
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()), type_.dimension)
    scalar = _SCALARS[type_.scalar]
    return pa.list_(pa.field("item", scalar)) if type_.list else scalar


_WORDS = {
    **{type_: str(scalar) for scalar, type_ in _SCALARS.items()},
    pa.large_string(): "String",
    pa.string_view(): "String",
    pa.binary(): "Blob",
    pa.binary_view(): "Blob",
    pa.null(): "null",
}


def schema_word(type_: pa.DataType) -> str:
    """What the schema language calls a type of Arrow; Arrow's own name for one that it does not have.

    >>> schema_word(pa.list_(pa.large_string())), schema_word(pa.timestamp("us"))
    ('[String]', 'DateTime')
    """
    if pa.types.is_timestamp(type_):
        return "DateTime"
    if pa.types.is_fixed_size_list(type_):
        return f"Vector({type_.list_size})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"[{schema_word(type_.value_type)}]"
    if pa.types.is_dictionary(type_):
        return schema_word(type_.value_type)
    return _WORDS.get(type_, str(type_))


def node_schema(node: NodeType) -> pa.Schema:
    """``id``, then the properties by name."""
    return pa.schema([_id_field(), *(_field("node", node.name, each) for each in node.properties.values())])


def edge_schema(edge: EdgeType) -> pa.Schema:
    """``id``, ``src``, ``dst``, then the properties by name."""
    endpoints = [pa.field(name, pa.string(), nullable=False) for name in ENDPOINT_COLUMNS]
    properties = (_field("edge", edge.name, each) for each in edge.properties.values())
    return pa.schema([_id_field(), *endpoints, *properties])


def table_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """The columns of the table behind a node or edge type."""
    kept = _TABLE_SCHEMAS.get(id(type_))
    if kept is None:
        kept = type_, node_schema(type_) if isinstance(type_, NodeType) else edge_schema(type_)
        _TABLE_SCHEMAS.put(id(type_), kept)
    return kept[1]


def _id_field() -> pa.Field:
    return pa.field("id", pa.string(), nullable=False, metadata={PRIMARY_KEY_METADATA: "true"})


def _field(kind: str, owner: str, column: Property) -> pa.Field:
    metadata = {PROPERTY_ID_METADATA: str(prop_id(kind, owner, column.name))}
    if column.type.scalar is Scalar.BLOB:
        metadata[BLOB_METADATA] = "true"
    return pa.field(column.name, arrow_type(column.type), nullable=column.type.nullable, metadata=metadata)


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


def id_text(value: Any, key: PropertyType) -> str:
    """The id that a value of the language makes as the only key of a node.

    >>> id_text(7, PropertyType(Scalar.I32))
    '7'
    """
    if key.scalar.is_integer:
        return str(value)  # also of a number that the column cannot hold: no row has that id
    stored = ids.micros(value) // 1_000 if isinstance(value, datetime) else value
    text: str = canonical_text(pa.array([stored], arrow_type(key)), key)[0].as_py()
    return text


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


def instant_texts(instants: pa.Array) -> pa.Array:
    """Instants in milliseconds without a zone as JSON has them: ``2026-01-31T12:00:00.000Z``.

    Arrow's own text differs from that in two characters only, and is made sixty times as fast as one by a pattern.
    """
    texts = pc.binary_replace_slice(instants.cast(pa.string()), _BEFORE_CLOCK, _BEFORE_CLOCK + 1, "T")
    return pc.binary_join_element_wise(texts, "Z", "")


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
