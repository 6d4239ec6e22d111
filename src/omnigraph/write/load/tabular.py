"""Parquet, CSV and rows in memory of one type → valid rows. Row numbers take the place of lines; those of CSV become
lines when they are reported.

Columns are named like the properties; nodes may have ``id``, edges have ``src`` and ``dst``, or ``from`` and ``to``.
Dates may be text or integers and blobs text, as in JSON. In CSV an empty field is null, an empty quoted one is empty
text, and lists and vectors are JSON arrays.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from omnigraph.errors import InputError, InvalidRecord, InvalidRow, MissingValue
from omnigraph.ids import did_you_mean
from omnigraph.schema.arrow import arrow_type, canonical_text
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.objects import user_files
from omnigraph.write.arrow_rows import GIVEN, row_batches, without_dictionaries
from omnigraph.write.load.csv_text import csv_batches, unreadable
from omnigraph.write.load.json_records import json_value, parse_line
from omnigraph.write.load.line_blocks import open_bytes, read_errors
from omnigraph.write.load.load_source import Part
from omnigraph.write.load.parse_lines import Parsed
from omnigraph.write.load.record_lines import RecordLines
from omnigraph.write.load.text_columns import Unproven, is_temporal, raw_type, rounded_times, stored_column
from omnigraph.write.load.valid_rows import LINE, Reading, valid_rows
from omnigraph.write.load.violations import Violation, cut
from omnigraph.write.row_rules import END_COLUMNS
from omnigraph.write.stored_values import column

_BATCH_ROWS = 131_072
_SEPARATORS = frozenset(";\t|")
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def parse_part(
    part: Part,
    reading: Reading,
    groups: Sequence[int] | None = None,
    first_row: int = 1,
    lines: RecordLines | None = None,
) -> Iterator[Parsed]:
    """The rows of a file or table, batch by batch.

    Args:
        groups: row groups of a Parquet file; None for all.
        first_row: number of the first of these rows.
        lines: where the rows of a CSV file begin, for callers that report rows later.
    """
    type_ = part.type
    if type_ is None:
        raise InputError(f"{part.name} does not say which type its rows have", hint="pass type=")
    lines = lines or RecordLines.of(part)
    skipped: list[Violation] = []
    refused: list[int] = []

    def refuse(row: Any, number: int) -> None:
        error = InvalidRecord(f"row has {row.actual_columns} columns, expected {row.expected_columns}")
        refused.append(number)
        skipped.append(Violation(part.name, _line(lines, number), type_.table_key, error, cut(row.text)))

    if lines is not None:
        batches, convert = csv_batches(part, refuse, lines.passed), _from_text
    else:
        batches, convert = _arrow_batches(part, groups), _from_values
    number = first_row
    with contextlib.closing(batches):
        for batch in batches:
            rows = _named_columns(type_, batch, part.name, reading.keeps)
            numbers = _numbers(number, rows.num_rows, refused)
            number = int(numbers[-1]) + 1 if len(numbers) else number
            yield _parsed(part, type_, rows.append_column(LINE, pa.array(numbers)), convert, reading, skipped, lines)
            skipped.clear()
    if skipped:
        yield Parsed(violations=list(skipped))


def _numbers(first: int, count: int, refused: list[int]) -> npt.NDArray[np.int64]:
    """The numbers of the next rows, without those of rows that are not among them."""
    given = np.arange(first, first + count + len(refused))
    return given[~np.isin(given, refused)][:count] if refused else given


def _line(lines: RecordLines | None, number: int) -> int:
    return number if lines is None else lines.line(number)


_Convert = Callable[[NodeType | EdgeType, pa.Table, bool], pa.Table]


def _parsed(
    part: Part,
    type_: NodeType | EdgeType,
    rows: pa.Table,
    convert: _Convert,
    reading: Reading,
    skipped: list[Violation],
    lines: RecordLines | None,
) -> Parsed:
    good, bad = valid_rows(type_, rows, reading, lambda some: convert(type_, some, reading.rounds))
    violations = list(skipped)
    for each in bad:
        shown = [name for name in rows.column_names if name != LINE and not name.startswith(GIVEN)]
        record = rows.select(shown).slice(each.position, 1).to_pylist()[0]
        text = json.dumps(record, ensure_ascii=False, default=str, separators=(",", ":"))
        violations.append(Violation(part.name, _line(lines, each.line), type_.table_key, each.error, cut(text)))
    return Parsed({type_.table_key: good}, violations)


def _arrow_batches(part: Part, groups: Sequence[int] | None) -> Generator[pa.Table, None, None]:
    if part.table is not None:
        yield from row_batches(part.table, f"rows of {part.name}")
        return
    with read_errors(part.name), _parquet_source(part) as source:
        try:
            with pq.ParquetFile(source) as file:
                empty = file.schema_arrow.empty_table()
                for batch in file.iter_batches(_BATCH_ROWS, groups):
                    empty = None
                    yield without_dictionaries(pa.Table.from_batches([batch]))
                if empty is not None:
                    yield empty
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise unreadable(part, error) from None


def _parquet_source(part: Part) -> Any:
    """What Arrow opens: a local path, which it reads side by side, or a stream that can go back and forth."""
    if part.stream is None and not user_files.is_remote(part.name):
        return contextlib.nullcontext(part.name)
    stream = open_bytes(part.name, part.options, part.stream)
    return stream if stream.seekable() else pa.BufferReader(stream.read())


def _named_columns(type_: NodeType | EdgeType, rows: pa.Table, name: str, keeps: bool) -> pa.Table:
    """The columns under the names of the type. Others are refused for the file as a whole, and so is one that every row
    needs and none has, unless stored rows may have it."""
    names = spelled = rows.column_names
    if isinstance(type_, EdgeType):
        ends_of = {word: end for word, end in END_COLUMNS.items() if word not in type_.properties}
        for word, end in ends_of.items():
            if word in names and end in names:
                message = f"columns '{word}' and '{end}' of '{type_.table_key}' both say where its edges end"
                raise InvalidRow(message, hint=f"keep one of them; {name}", file=name, type=type_.name, property=word)
        names = [ends_of.get(each, each) for each in names]
        rows = rows.rename_columns(names)
    ends = ENDPOINT_COLUMNS if isinstance(type_, EdgeType) else ()
    known = {*type_.properties, "id", *ends}
    for position, each in enumerate(names):
        if each.startswith(GIVEN):
            continue
        where = {"file": name, "type": type_.name, "property": each}
        if each not in known:
            hint = did_you_mean(each, {*type_.properties, *(END_COLUMNS if ends else ())})
            if len(names) == 1 and _SEPARATORS.intersection(each):
                hint = "the fields of a CSV file are separated by commas"
            message = f"unknown input field '{each}' for '{type_.table_key}'"
            raise InvalidRow(message, hint=f"{hint}; {name}" if hint else name, **where)
        if each in names[:position]:
            raise InvalidRow(f"column '{each}' occurs twice in the rows of '{type_.table_key}'", hint=name, **where)
    properties = type_.properties.items()
    needed = [*ends, *(each for each, prop in properties if not prop.type.nullable and prop.default is None)]
    if keeps:
        key = type_.key if isinstance(type_, NodeType) else None
        needed = list(key or ())
    missing = next((each for each in needed if each not in names), None)
    if missing is not None and rows.num_rows:
        words = END_COLUMNS.items() if END_COLUMNS.keys() & set(spelled) else ()
        word = next((word for word, end in words if end == missing), missing)
        message = f"column '{word}' is missing, and every row of '{type_.table_key}' needs it"
        raise MissingValue(message, hint=name, file=name, type=type_.name, property=missing)
    if "id" in names and rows.column("id").null_count == rows.num_rows:
        rows = rows.drop_columns(["id"])
    return rows


def _from_values(type_: NodeType | EdgeType, rows: pa.Table, rounds: bool) -> pa.Table:
    """Text and integers in the place of dates, and text in the place of blobs, as JSON has them."""
    for position, name in enumerate(rows.column_names):
        prop = type_.properties.get(name)
        values = rows.column(position)
        if prop is None:
            continue
        if _is_json_like(prop.type, values.type):
            plain = values.combine_chunks().cast(raw_type(prop.type, not _has_text(values.type)))
            rows = rows.set_column(position, name, _stored(name, prop.type, plain, rounds))
        elif prop.type.list:
            _refuse_null_items(name, prop.type, values)
        if rounds and prop.type.scalar is Scalar.DATETIME:
            rows = rows.set_column(position, name, rounded_times(rows.column(position)))
    return rows


def _refuse_null_items(name: str, type_: PropertyType, values: pa.ChunkedArray) -> None:
    """Lists are held to what the graph's dialect allows, so that every load can be exported and loaded again."""
    if _is_list(values.type) and pc.list_flatten(values).null_count:
        message = f"list property '{name}' holds a null or an item that is no {type_.scalar}"
        raise InvalidRow(message, property=name)


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


def _stored(name: str, type_: PropertyType, raw: pa.Array, rounds: bool) -> pa.Array:
    with contextlib.suppress(Unproven):
        return stored_column(raw, type_, rounds)
    return _one_value(name, type_, raw, rounds, lambda value: value)


def _from_text(type_: NodeType | EdgeType, rows: pa.Table, rounds: bool) -> pa.Table:
    """Fields of a CSV file in the types of their properties, and ends as the keys of their nodes are written."""
    ends = type_.integer_ends if isinstance(type_, EdgeType) else {}
    for position, name in enumerate(rows.column_names):
        prop = type_.properties.get(name)
        texts = rows.column(position).combine_chunks()
        if prop is not None:
            rows = rows.set_column(position, name, _read_texts(name, prop.type, texts, rounds))
        elif name in ends:
            rows = rows.set_column(position, name, _numbered(texts, PropertyType(ends[name])))
    return rows


def _numbered(texts: pa.Array, key: PropertyType) -> pa.Array:
    """Ids of nodes that are numbers, in their one spelling: ``007`` is the node ``7``. Other texts are no such node."""
    try:
        return canonical_text(texts.cast(arrow_type(key)), key)
    except pa.ArrowInvalid:
        return texts


def _read_texts(name: str, type_: PropertyType, texts: pa.Array, rounds: bool) -> pa.Array:
    with contextlib.suppress(Unproven, pa.ArrowInvalid):
        if type_.list or type_.scalar is Scalar.VECTOR:
            return stored_column(_json_lists(texts, type_), type_, rounds)
        if is_temporal(type_) and pc.any(pc.match_substring_regex(texts, r"^-?[0-9]+$")).as_py():
            return stored_column(texts.cast(pa.int64()), type_)
        return stored_column(texts.cast(raw_type(type_, False)), type_, rounds)
    return _one_value(name, type_, texts, rounds, lambda text: _json_of(text, type_))


def _one_value(
    name: str, type_: PropertyType, given: pa.Array, rounds: bool, meaning: Callable[[Any], Any]
) -> pa.Array:
    """A column that could not be proven: alone, a value is taken or refused with the right words."""
    if len(given) > 1:
        raise InvalidRow(f"property '{name}' has a value that does not fit", property=name)
    values = [None if value is None else meaning(value) for value in given.to_pylist()]
    return column(type_, [json_value(name, type_, value, rounds) for value in values])


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
