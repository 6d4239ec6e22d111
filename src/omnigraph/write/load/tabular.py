"""Parquet, CSV and Arrow tables of one type → valid rows. Row numbers take the place of lines.

Columns are named like the properties; nodes may have ``id``, edges have ``src`` and ``dst``, or ``from`` and ``to``.
Dates may be text or integers and blobs text, as in JSON. In CSV an empty field is null, an empty quoted one is empty
text, and lists and vectors are JSON arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pj
import pyarrow.parquet as pq

from omnigraph import limits
from omnigraph.errors import InputError, InvalidRecord, InvalidRow
from omnigraph.schema.catalog import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.objects import user_files
from omnigraph.write.load.json_records import json_value, parse_line
from omnigraph.write.load.line_blocks import read_errors
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.parse_lines import Parsed
from omnigraph.write.load.text_columns import Unproven, is_temporal, raw_type, stored_column
from omnigraph.write.load.valid_rows import LINE, valid_rows
from omnigraph.write.load.violations import Violation, cut
from omnigraph.write.stored_values import column

_BATCH_ROWS = 131_072
_ENDS = {"from": "src", "to": "dst"}
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def parse_part(
    part: Part, most_violations: int, groups: Sequence[int] | None = None, first_row: int = 1
) -> Iterator[Parsed]:
    """The rows of a file or table, batch by batch.

    Args:
        groups: row groups of a Parquet file; None for all.
        first_row: number of the first of these rows.
    """
    type_ = part.type
    if type_ is None:
        raise InputError(f"{part.name} does not say which type its rows have", hint="pass type=")
    skipped: list[Violation] = []
    if part.format is Format.CSV:
        batches, convert = _csv_batches(part, skipped), _from_text
    else:
        batches, convert = _arrow_batches(part, groups), _from_values
    number = first_row
    for batch in batches:
        rows = _named_columns(type_, batch, part.name)
        lines = pa.array(np.arange(number, number + rows.num_rows))
        number += rows.num_rows
        yield _parsed(part, type_, rows.append_column(LINE, lines), convert, most_violations, skipped)
        skipped.clear()
    if skipped:
        yield Parsed(violations=list(skipped))


def _parsed(
    part: Part,
    type_: NodeType | EdgeType,
    rows: pa.Table,
    convert: Callable[[NodeType | EdgeType, pa.Table], pa.Table],
    most: int,
    skipped: list[Violation],
) -> Parsed:
    good, bad = valid_rows(type_, rows, most, lambda part: convert(type_, part))
    violations = list(skipped)
    for each in bad:
        record = rows.slice(each.position, 1).drop_columns([LINE]).to_pylist()[0]
        text = json.dumps(record, ensure_ascii=False, default=str, separators=(",", ":"))
        violations.append(Violation(part.name, each.line, type_.table_key, each.error, cut(text)))
    return Parsed({type_.table_key: good}, violations)


def _arrow_batches(part: Part, groups: Sequence[int] | None) -> Iterator[pa.Table]:
    if part.table is not None:
        yield from _sliced(part.table)
        return
    with read_errors(part.name):
        try:
            with pq.ParquetFile(_readable(part)) as file:
                empty = file.schema_arrow.empty_table()
                for batch in file.iter_batches(_BATCH_ROWS, groups):
                    empty = None
                    yield pa.Table.from_batches([batch])
                if empty is not None:
                    yield empty
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _unreadable(part, error) from None


def _sliced(table: pa.Table) -> Iterator[pa.Table]:
    if table.num_rows == 0:
        yield table
    for start in range(0, table.num_rows, _BATCH_ROWS):
        yield table.slice(start, _BATCH_ROWS)


def _csv_batches(part: Part, skipped: list[Violation]) -> Iterator[pa.Table]:
    """Every column as text, so that each value can be refused with its own words."""
    rows = 0

    def skip(row: Any) -> str:
        error = InvalidRecord(f"row has {row.actual_columns} columns, expected {row.expected_columns}")
        number = rows + len(skipped) + 1 if row.number is None else row.number - 1
        skipped.append(Violation(part.name, number, part.type.table_key if part.type else None, error, cut(row.text)))
        return "skip"

    with read_errors(part.name):
        try:
            names = _csv_names(part)
            reader = pcsv.open_csv(
                _readable(part),
                read_options=_csv_reading(),
                parse_options=pcsv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
                convert_options=pcsv.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            for batch in reader:
                rows += batch.num_rows
                yield pa.Table.from_batches([batch])
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _unreadable(part, error) from None


def _csv_names(part: Part) -> list[str]:
    parsing = pcsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    with pcsv.open_csv(_readable(part), read_options=_csv_reading(), parse_options=parsing) as reader:
        return list(reader.schema.names)


def _csv_reading() -> pcsv.ReadOptions:
    return pcsv.ReadOptions(use_threads=False, block_size=limits.LOAD_BLOCK_BYTES)


def _readable(part: Part) -> Any:
    """What Arrow opens: a local path, or the bytes of an object. It unpacks paths by their suffix itself."""
    if not user_files.is_remote(part.name):
        return part.name
    stream = user_files.open_file(part.name, part.options)
    return pa.CompressedInputStream(stream, "gzip") if part.is_packed else stream


def _unreadable(part: Part, error: Exception) -> InputError:
    reason = str(error).split("\n", 1)[0][:200]
    return InputError(f"cannot read {part.name} as {part.format}: {reason}", file=part.name)


def _named_columns(type_: NodeType | EdgeType, rows: pa.Table, name: str) -> pa.Table:
    """The columns under the names of the type; others are refused for the file as a whole."""
    names = rows.column_names
    if isinstance(type_, EdgeType):
        names = [
            _ENDS[each] if each in _ENDS and each not in type_.properties and _ENDS[each] not in names else each
            for each in names
        ]
        rows = rows.rename_columns(names)
    known = {*type_.properties, "id", *(("src", "dst") if isinstance(type_, EdgeType) else ())}
    for position, each in enumerate(names):
        if each not in known:
            raise InvalidRow(
                f"unknown input field '{each}' for '{type_.table_key}'", hint=name, type=type_.name, property=each
            )
        if each in names[:position]:
            raise InvalidRow(f"column '{each}' occurs twice in the rows of '{type_.table_key}'", hint=name)
    if "id" in names and rows.column("id").null_count == rows.num_rows:
        rows = rows.drop_columns(["id"])
    return rows


def _from_values(type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    """Text and integers in the place of dates, and text in the place of blobs, as JSON has them."""
    for position, name in enumerate(rows.column_names):
        prop = type_.properties.get(name)
        values = rows.column(position)
        if prop is not None and _is_json_like(prop.type, values.type):
            plain = values.combine_chunks().cast(raw_type(prop.type, not _has_text(values.type)))
            rows = rows.set_column(position, name, _stored(name, prop.type, plain))
        elif prop is not None and prop.type.list:
            _refuse_null_items(name, values)
    return rows


def _refuse_null_items(name: str, values: pa.ChunkedArray) -> None:
    """Lists are held to what the graph's dialect allows, so that every load can be exported and loaded again."""
    if _is_list(values.type) and pc.list_flatten(values).null_count:
        raise InvalidRow(f"strict list property '{name}' contains a null or invalid item", property=name)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _is_json_like(type_: PropertyType, given: pa.DataType) -> bool:
    if _is_list(given):
        given = given.value_type
    if is_temporal(type_):
        return _has_text(given) or pa.types.is_integer(given)
    return type_.scalar is Scalar.BLOB and _has_text(given)


def _has_text(type_: pa.DataType) -> bool:
    if _is_list(type_):
        type_ = type_.value_type
    return any(is_text(type_) for is_text in _TEXTS)


def _stored(name: str, type_: PropertyType, raw: pa.Array) -> pa.Array:
    try:
        return stored_column(raw, type_)
    except Unproven:
        return _one_value(name, type_, raw, lambda value: value)


def _from_text(type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    """Fields of a CSV file in the types of their properties."""
    for position, name in enumerate(rows.column_names):
        prop = type_.properties.get(name)
        if prop is not None:
            texts = rows.column(position).combine_chunks()
            rows = rows.set_column(position, name, _read_texts(name, prop.type, texts))
    return rows


def _read_texts(name: str, type_: PropertyType, texts: pa.Array) -> pa.Array:
    try:
        if type_.list or type_.scalar is Scalar.VECTOR:
            return stored_column(_json_lists(texts, type_), type_)
        if is_temporal(type_) and pc.any(pc.match_substring_regex(texts, r"^-?[0-9]+$")).as_py():
            return stored_column(texts.cast(pa.int64()), type_)
        return stored_column(texts.cast(raw_type(type_, False)), type_)
    except (Unproven, pa.ArrowInvalid):
        return _one_value(name, type_, texts, lambda text: _json_of(text, type_))


def _one_value(name: str, type_: PropertyType, given: pa.Array, meaning: Callable[[Any], Any]) -> pa.Array:
    """A column that could not be proven: alone, a value is taken or refused with the right words."""
    if len(given) > 1:
        raise InvalidRow(f"property '{name}' has a value that does not fit", property=name)
    values = [None if value is None else meaning(value) for value in given.to_pylist()]
    return column(type_, [json_value(name, type_, value) for value in values])


def _json_of(text: str, type_: PropertyType) -> Any:
    """A field as the JSON value that means the same, or as text when it means none."""
    if type_.scalar in (Scalar.STRING, Scalar.BLOB) and not type_.list:
        return text
    try:
        return parse_line(text.encode("utf-8"), 1)
    except InvalidRow:
        return text


def _json_lists(texts: pa.Array, type_: PropertyType) -> pa.Array:
    numeric = is_temporal(type_) and pc.any(pc.match_substring_regex(texts, r"^\s*\[\s*-?[0-9]")).as_py()
    lines = pc.binary_join_element_wise('{"x":', pc.fill_null(texts, "null"), "}\n", "")
    longest = pc.max(pc.binary_length(lines)).as_py() or 1
    data = lines.buffers()[2]
    table = pj.read_json(
        pa.BufferReader(data if data is not None else b""),
        read_options=pj.ReadOptions(block_size=max(1 << 20, 2 * longest), use_threads=False),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([("x", raw_type(type_, numeric))]), unexpected_field_behavior="error"
        ),
    )
    if table.num_rows != len(texts):
        raise Unproven("a field that is no JSON array")
    return table.column("x").combine_chunks()
