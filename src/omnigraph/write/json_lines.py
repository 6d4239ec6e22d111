"""Rows → lines of the graph's dialect, column by column. The text of an export is made here, and nowhere else.

What a value looks like follows from its stored type alone: dates and instants are integers, 32-bit floats are widened,
floats have the fewest digits that read back as the same number, nulls are written. The same rows give the same bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.arrow import json_inner

_TEXT = pa.large_string()
_ENDPOINTS = {"src": "from", "dst": "to"}
_NULL = pa.scalar("null", _TEXT)
_NOTHING = pa.scalar("", _TEXT)

#: Beyond these a float is written with an exponent, or its zeros are spelled out; Arrow draws other lines.
_PLAIN_FROM, _PLAIN_TO = 1e-5, 1e10


def json_lines(table_key: str, rows: pa.RecordBatch) -> pa.Array:
    """One line per row, each with its LF.

    Args:
        table_key: ``node:<Type>`` or ``edge:<Type>``.
        rows: columns of the table, perhaps without ``id``; blobs as bytes.
    """
    kind, _, name = table_key.partition(":")
    quoted = json.dumps(name, ensure_ascii=False)
    if kind == "node":
        head: list[pa.Array | str] = [f'{{"type":{quoted},"data":{{']
    else:
        head = [f'{{"edge":{quoted}']
        for column, member in _ENDPOINTS.items():
            head += [f',"{member}":', _value(rows.column(column))]
        head.append(',"data":{')
    own = [name for name in rows.schema.names if not _is_endpoint(kind, name)]
    names = sorted(own, key=lambda name: (name != "id", name))
    body: list[pa.Array | str] = []
    for position, each in enumerate(names):
        comma = "," if position else ""
        body += [f"{comma}{json.dumps(each, ensure_ascii=False)}:", _value(rows.column(each))]
    return _joined([*head, *body, "}}\n"])


def _is_endpoint(kind: str, name: str) -> bool:
    return kind == "edge" and name in _ENDPOINTS


def _joined(parts: Sequence[pa.Array | str]) -> pa.Array:
    texts = [pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, _NOTHING)


def _value(column: pa.Array) -> pa.Array:
    """JSON text of each value, ``null`` where there is none."""
    return pc.fill_null(json_values(column), _NULL)


def json_values(column: pa.Array) -> pa.Array:
    """JSON text of each value that is there."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _joined(['"', _escaped(column.cast(_TEXT)), '"'])
    if pa.types.is_fixed_size_list(type_) or pa.types.is_list(type_):
        return _list(column)
    if pa.types.is_floating(type_):
        return _floats(column.cast(pa.float64()))
    if pa.types.is_date32(type_):
        return column.view(pa.int32()).cast(_TEXT)
    if pa.types.is_date64(type_):
        return column.view(pa.int64()).cast(_TEXT)
    if pa.types.is_large_binary(type_) or pa.types.is_binary(type_):
        return _blobs(column)
    return column.cast(_TEXT)


def _escaped(texts: pa.Array) -> pa.Array:
    return json_inner(texts) if _needs_escapes(texts) else texts


def _needs_escapes(texts: pa.Array) -> bool:
    """Whether any text holds a quote, a backslash or a control character. Looking at the bytes is what costs least."""
    offsets, data = texts.buffers()[1:]
    if data is None or len(texts) == 0:
        return False
    first, last = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    signs = np.frombuffer(data, np.uint8)[first:last]
    return bool(((signs < 0x20) | (signs == 0x22) | (signs == 0x5C)).any())


def _list(column: pa.Array) -> pa.Array:
    items = _value(pc.list_flatten(column))
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    lists = pa.LargeListArray.from_arrays(offsets, items, mask=pc.is_null(column))
    return _joined(["[", pc.binary_join(lists, pa.scalar(",", _TEXT)), "]"])


def _blobs(column: pa.Array) -> pa.Array:
    """Base64 has no kernel; the bytes outweigh the loop."""
    values = column.to_pylist()
    return pa.array([None if each is None else f'"base64:{base64.b64encode(each).decode()}"' for each in values], _TEXT)


def _floats(values: pa.Array) -> pa.Array:
    texts = values.cast(_TEXT)
    whole = pc.invert(pc.match_substring(texts, "."))
    texts = pc.if_else(whole, _joined([texts, ".0"]), texts)
    size = pc.abs(values)
    plain = pc.or_(pc.and_(pc.greater_equal(size, _PLAIN_FROM), pc.less(size, _PLAIN_TO)), pc.equal(size, 0.0))
    odd = pc.fill_null(pc.invert(plain), False)
    if not pc.any(odd).as_py():
        return texts
    spelled = [_float_text(value) for value in values.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(spelled, _TEXT))


def _float_text(value: float) -> str:
    """Very large and very small numbers: digits, then zeros up to the sixteenth place, then an exponent."""
    sign = "-" if value < 0 else ""
    digits, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    point = len(whole) + int(exponent or 0)
    figures = (whole + fraction).rstrip("0")
    leading = len(figures) - len(figures.lstrip("0"))
    figures, point = figures[leading:], point - leading
    if len(figures) <= point <= 16:
        return f"{sign}{figures.ljust(point, '0')}.0"
    if 0 < point <= 16:
        return f"{sign}{figures[:point]}.{figures[point:]}"
    if -5 < point <= 0:
        return f"{sign}0.{'0' * -point}{figures}"
    rest = f".{figures[1:]}" if len(figures) > 1 else ""
    return f"{sign}{figures[0]}{rest}e{point - 1}"
