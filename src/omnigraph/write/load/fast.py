"""Lines of one type → columns, through Arrow's JSON reader, when it can be proven that nothing was let through.

Arrow's reader refuses duplicate members, unknown members, wrong JSON types, malformed text and lone surrogates. It does
not know lines: it would take two records from one line, or one from two. A record that begins or ends inside a line is
impossible here, because each line begins with ``{`` and ends with ``}``, and no ``{`` may follow a ``}`` inside a
record; so as many records as lines means one record on each. What it also lets through, the words for infinite
numbers, nulls in lists and ``"data":null``, is looked for afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.write.load.raw import Unproven, is_temporal, raw_type, stored_column

_LEAST_BLOCK = 1 << 20


def read_lines(type_: NodeType | EdgeType, lines: pa.Array, *, flat: bool) -> pa.Table:
    """The records of lines, one row each, as `conform` takes them.

    Args:
        lines: bytes of each line with its LF; valid UTF-8, no NUL, each beginning with ``{`` and ending with ``}``.
        flat: the lines are flat objects instead of records of the graph's dialect.

    Raises:
        Unproven: at least one line needs a closer look.
    """
    try:
        table = _read(lines, _schema(type_, flat, ()))
    except pa.ArrowInvalid as error:
        numbers = _numeric_dates(type_, lines)
        if not numbers:
            raise Unproven(str(error)) from None
        try:
            table = _read(lines, _schema(type_, flat, numbers))
        except pa.ArrowInvalid as again:
            raise Unproven(str(again)) from None
    return _columns(type_, lines, table, flat)


def _read(lines: pa.Array, schema: pa.Schema) -> pa.Table:
    offsets, data = lines.buffers()[1:]
    first, last = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]].tolist()
    longest = pc.max(pc.binary_length(lines)).as_py()
    table = pj.read_json(
        pa.BufferReader(data.slice(first, last - first)),
        read_options=pj.ReadOptions(block_size=max(_LEAST_BLOCK, 2 * longest), use_threads=False),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid("more than one record on a line")
    return table


def _schema(type_: NodeType | EdgeType, flat: bool, numbers: Collection[str]) -> pa.Schema:
    own = [(name, raw_type(prop.type, name in numbers)) for name, prop in type_.properties.items()]
    own.append(("id", pa.string()))
    if flat:
        ends = [(name, pa.string()) for name in _end_names(type_)]
        return pa.schema([*own, *ends])
    heads = ["edge", "from", "to"] if isinstance(type_, EdgeType) else ["type"]
    return pa.schema([*((name, pa.string()) for name in heads), ("data", pa.struct(own))])


def _end_names(type_: NodeType | EdgeType) -> tuple[str, ...]:
    return ("src", "dst") if isinstance(type_, EdgeType) else ()


def _numeric_dates(type_: NodeType | EdgeType, lines: pa.Array) -> list[str]:
    """Dates that look like numbers somewhere. Only a guess at how to read the lines, never at what they mean."""
    found = []
    for name, prop in type_.properties.items():
        if is_temporal(prop.type):
            opening = r"\[\s*" if prop.type.list else ""
            pattern = rf'"{re.escape(name)}"\s*:\s*{opening}-?[0-9]'
            if pc.any(pc.match_substring_regex(lines, pattern)).as_py():
                found.append(name)
    return found


def _columns(type_: NodeType | EdgeType, lines: pa.Array, table: pa.Table, flat: bool) -> pa.Table:
    columns = {}
    if flat:
        data = {name: table.column(name).combine_chunks() for name in table.column_names}
    else:
        struct = table.column("data").combine_chunks()
        if struct.null_count:
            _require_absent(lines.filter(pc.is_null(struct)))
        data = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
    for name, prop in type_.properties.items():
        columns[name] = stored_column(data[name], prop.type)
    if data["id"].null_count < len(lines):
        columns["id"] = data["id"]
    if isinstance(type_, EdgeType):
        for column, member in (("src", "from"), ("dst", "to")):
            columns[column] = data[column] if flat else table.column(member).combine_chunks()
            if columns[column].null_count:
                raise Unproven("an edge without an end")
    return pa.table(columns) if columns else pa.table({"id": pa.nulls(len(lines), pa.string())})


def _require_absent(lines: pa.Array) -> None:
    """Lines whose ``data`` came out as null must not name it."""
    if pc.any(pc.match_substring_regex(lines, r'data"|\\')).as_py():
        raise Unproven("a null in the place of data")
