"""A block of lines → valid rows by type, and what is wrong with the others.

Pure: bytes and a catalog in, Arrow and violations out. Lines of one type that look usual go through Arrow's JSON
reader, when it can be proven that nothing wrong was let through; a group in which one line cannot be proven is halved,
and the few lines at the end are read one by one (`json_records.py`), which also gives them their error.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.write.arrow_rows import GIVEN
from omnigraph.write.load.json_records import Record, read_record
from omnigraph.write.load.line_blocks import Block
from omnigraph.write.load.text_columns import Unproven, is_temporal, raw_type, stored_column
from omnigraph.write.load.valid_rows import LINE, Reading, RowBatch, valid_rows
from omnigraph.write.load.violations import Violation, cut
from omnigraph.write.stored_values import column

_Positions = npt.NDArray[np.int64]

_HEAD = re.compile(rb'\{[ \t]*"(type|edge)"[ \t]*:[ \t]*"([^"\\\x00-\x1f]*)"')
_MOST_HEADS = 64
_FEW_LINES = 16
_SPACE = b" \t\r\n"
_TEXT = PropertyType(Scalar.STRING)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a block of a file held: valid rows by table key, and what is wrong with the rest, in the file's order."""

    rows: dict[str, list[RowBatch]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How lines are to be read.

    Attributes:
        flat: type of flat objects; None for the graph's dialect.
    """

    catalog: Catalog
    flat: NodeType | EdgeType | None = None
    reading: Reading = field(default_factory=Reading)


def parse_block(block: Block, dialect: Dialect) -> Parsed:
    """The rows on the lines of a block."""
    lines = _Lines(block)
    found = _Found(block, dialect, lines)
    usual = lines.usual()
    rest = lines.filled() & ~usual
    for type_, positions in _groups(dialect, lines, np.flatnonzero(usual)):
        if type_ is None:
            rest[positions] = True
        else:
            _read_group(found, type_, positions)
    for position in np.flatnonzero(rest).tolist():
        if found.is_enough():
            break
        found.read_one(position)
    return found.parsed()


class _Lines:
    """The lines of a block by position, without copies."""

    def __init__(self, block: Block) -> None:
        self.data = block.data
        self._bytes = np.frombuffer(block.data, np.uint8)
        ends = np.flatnonzero(self._bytes == 0x0A) + 1
        self.starts = np.concatenate([[0], ends[:-1]])
        self.ends = ends
        self.array = pa.Array.from_buffers(
            pa.binary(),
            len(ends),
            [None, pa.py_buffer(np.concatenate([[0], ends]).astype(np.int32)), pa.py_buffer(block.data)],
        )

    def filled(self) -> npt.NDArray[np.bool_]:
        """Lines that hold more than a line end."""
        return np.asarray(self._last() >= self.starts)

    def usual(self) -> npt.NDArray[np.bool_]:
        """Lines that Arrow's reader may see: ``{…}`` in UTF-8, without NUL, with bounded structure."""
        last = self._last()
        mask = (last > self.starts) & (self._bytes[self.starts] == 0x7B) & (self._bytes[np.maximum(last, 0)] == 0x7D)
        if b"\0" in self.data:
            mask[np.searchsorted(self.ends, np.flatnonzero(self._bytes == 0), "right")] = False
        for position in np.flatnonzero(self.ends - self.starts > limits.LOAD_LINE_SLOTS).tolist():
            mask[position] = False  # the exact reader counts its delimiters
        if not _is_utf8(self.array):
            for position in np.flatnonzero(mask).tolist():
                mask[position] = _is_utf8(self.array.slice(position, 1))
        return np.asarray(mask)

    def text(self, position: int) -> bytes:
        return self.data[self.starts[position] : self.ends[position]].rstrip(b"\n").removesuffix(b"\r")

    def chosen(self, positions: _Positions) -> pa.Array:
        if len(positions) and positions[-1] - positions[0] + 1 == len(positions):
            return self.array.slice(int(positions[0]), len(positions))
        return self.array.take(pa.array(positions))

    def _last(self) -> _Positions:
        """Position of the last byte before the line end, CR included in it."""
        last = self.ends - 2
        is_cr = (last >= self.starts) & (self._bytes[np.maximum(last, 0)] == 0x0D)
        return np.where(is_cr, last - 1, last)


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _groups(
    dialect: Dialect, lines: _Lines, positions: _Positions
) -> Iterator[tuple[NodeType | EdgeType | None, _Positions]]:
    """Usual lines by the type they name at their beginning; None for those where that cannot be told cheaply."""
    if dialect.flat is not None:
        yield dialect.flat, positions
        return
    for _ in range(_MOST_HEADS):
        if not len(positions):
            return
        head = _HEAD.match(lines.data, int(lines.starts[positions[0]]))
        if head is None:
            yield None, positions[:1]
            positions = positions[1:]
            continue
        same = pc.starts_with(lines.chosen(positions), head[0]).to_numpy(zero_copy_only=False)
        yield _named(dialect.catalog, *head.groups()), positions[same]
        positions = positions[~same]
    yield None, positions


def _named(catalog: Catalog, kind: bytes, name: bytes) -> NodeType | EdgeType | None:
    word = name.decode("utf-8")
    return catalog.nodes.get(word) if kind == b"type" else catalog.edge_by_word(word)


def _read_group(found: _Found, type_: NodeType | EdgeType, positions: _Positions) -> None:
    waiting = [positions] if len(positions) else []
    while waiting and not found.is_enough():
        part = waiting.pop()
        rows = _proven(found, type_, part)
        if rows is not None:
            found.add(type_, rows, part)
        elif len(part) <= _FEW_LINES:
            for position in part.tolist():
                found.read_one(position)
        else:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]


def _proven(found: _Found, type_: NodeType | EdgeType, positions: _Positions) -> pa.Table | None:
    """The records of some lines, or None when one of them needs a closer look."""
    dialect, lines = found.dialect, found.lines.chosen(positions)
    with contextlib.suppress(Unproven):
        rows = read_lines(type_, lines, flat=dialect.flat is not None, rounds=dialect.reading.rounds)
        return _with_given(dialect.reading.optional(type_), lines, rows)
    return None


class _Found:
    """Gathers the rows and violations of one block."""

    def __init__(self, block: Block, dialect: Dialect, lines: _Lines) -> None:
        self.block = block
        self.dialect = dialect
        self.lines = lines
        self._tables: dict[str, list[pa.Table]] = {}
        self._records: dict[str, list[tuple[int, Record]]] = {}
        self._violations: list[Violation] = []

    def is_enough(self) -> bool:
        return len(self._violations) >= self.dialect.reading.most

    def add(self, type_: NodeType | EdgeType, rows: pa.Table, positions: _Positions) -> None:
        numbered = rows.append_column(LINE, pa.array(positions + self.block.first_line, pa.int64()))
        self._tables.setdefault(type_.table_key, []).append(numbered)

    def read_one(self, position: int) -> None:
        """Read a line the slow way."""
        text = self.lines.text(position)
        if not text.strip(_SPACE):
            return
        number = self.block.first_line + position
        try:
            dialect = self.dialect
            record = read_record(dialect.catalog, dialect.flat, text, number, dialect.reading.rounds)
        except OmniGraphError as error:
            self._refuse(position, None, error)
        else:
            self._records.setdefault(record.table_key, []).append((number, record))

    def parsed(self) -> Parsed:
        parsed = Parsed(violations=self._violations)
        for key in sorted({*self._tables, *self._records}):
            type_ = self.dialect.catalog.by_table_key(key)
            if type_ is None:
                continue
            tables = [*self._tables.get(key, ()), *self._slow_rows(type_)]
            for rows in _in_order(tables):
                good, bad = valid_rows(type_, rows, self.dialect.reading)
                parsed.rows.setdefault(key, []).extend(good)
                for each in bad:
                    self._refuse(each.line - self.block.first_line, key, each.error)
        self._violations.sort(key=lambda each: each.line)
        return parsed

    def _slow_rows(self, type_: NodeType | EdgeType) -> Iterator[pa.Table]:
        records = self._records.get(type_.table_key)
        if not records:
            return
        columns: dict[str, Any] = {}
        optional = self.dialect.reading.optional(type_)
        named = {name for _, record in records for name in record.values}
        for name in [*type_.properties, "id", "src", "dst"]:
            values = [record.values.get(name) for _, record in records]
            prop = type_.properties.get(name)
            if name in named and (prop is not None or any(value is not None for value in values)):
                columns[name] = column(prop.type if prop else _TEXT, values)
            if prop is not None and name in optional:
                columns.setdefault(name, pa.nulls(len(values), arrow_type(prop.type)))
                columns[f"{GIVEN}{name}"] = pa.array([name in record.values for _, record in records])
        columns[LINE] = pa.array([number for number, _ in records], pa.int64())
        yield pa.table(columns)

    def _refuse(self, position: int, key: str | None, error: OmniGraphError) -> None:
        record = self.lines.text(position).decode("utf-8", "replace")
        number = self.block.first_line + position
        self._violations.append(Violation(self.block.file, number, key, error, cut(record)))


def _in_order(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Tables of one type in the order of their lines. Readers leave out columns that nobody names."""
    if len(tables) == 1:
        yield tables[0]
        return
    whole = pa.concat_tables(tables, promote_options="default")
    lines = whole.column(LINE).to_numpy()
    if np.any(lines[1:] < lines[:-1]):
        whole = whole.take(pa.array(np.argsort(lines, kind="stable")))
    yield whole.combine_chunks()


_LEAST_BLOCK = 1 << 20


def read_lines(type_: NodeType | EdgeType, lines: pa.Array, *, flat: bool, rounds: bool = False) -> pa.Table:
    """The records of lines, one row each, as `conform` takes them.

    Args:
        lines: bytes of each line with its LF; valid UTF-8, no NUL, each beginning with ``{`` and ending with ``}``.
        flat: the lines are flat objects instead of records of the graph's dialect.
        rounds: times finer than a millisecond are rounded instead of refused.

    Raises:
        Unproven: at least one line needs a closer look.
    """
    try:
        table = _read(lines, _schema(type_, flat, ()))
    except pa.ArrowInvalid as error:
        numbers = _numbers(type_, lines, flat)
        if not numbers:
            raise Unproven(str(error)) from None
        try:
            table = _read(lines, _schema(type_, flat, numbers))
        except pa.ArrowInvalid as again:
            raise Unproven(str(again)) from None
    return _columns(type_, lines, table, flat, rounds)


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
    ends = [(word, _end_type(type_, end) if word in numbers else pa.string()) for end, word in _end_words(type_, flat)]
    if flat:
        return pa.schema([*own, *ends])
    head = ("edge" if isinstance(type_, EdgeType) else "type", pa.string())
    return pa.schema([head, *ends, ("data", pa.struct(own))])


def _end_words(type_: NodeType | EdgeType, flat: bool) -> list[tuple[str, str]]:
    """The columns of the two ends of an edge, each with the member that holds it."""
    if not isinstance(type_, EdgeType):
        return []
    return [("src", "src" if flat else "from"), ("dst", "dst" if flat else "to")]


def _end_type(type_: NodeType | EdgeType, end: str) -> pa.DataType:
    return arrow_type(PropertyType(type_.integer_ends[end])) if isinstance(type_, EdgeType) else pa.string()


def _numbers(type_: NodeType | EdgeType, lines: pa.Array, flat: bool) -> list[str]:
    """Dates and ends that look like numbers somewhere: a guess at how to read the lines, never at what they mean."""
    integer_ends = type_.integer_ends if isinstance(type_, EdgeType) else {}
    found = [
        word
        for end, word in _end_words(type_, flat)
        if end in integer_ends and pc.any(pc.match_substring_regex(lines, rf'"{word}"\s*:\s*-?[0-9]')).as_py()
    ]
    for name, prop in type_.properties.items():
        if is_temporal(prop.type):
            opening = r"\[\s*" if prop.type.list else ""
            pattern = rf'"{re.escape(name)}"\s*:\s*{opening}-?[0-9]'
            if pc.any(pc.match_substring_regex(lines, pattern)).as_py():
                found.append(name)
    return found


def _columns(type_: NodeType | EdgeType, lines: pa.Array, table: pa.Table, flat: bool, rounds: bool) -> pa.Table:
    columns = {}
    if flat:
        data = {name: table.column(name).combine_chunks() for name in table.column_names}
    else:
        struct = table.column("data").combine_chunks()
        if struct.null_count:
            _require_absent(lines.filter(pc.is_null(struct)))
        data = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
    for name, prop in type_.properties.items():
        columns[name] = stored_column(data[name], prop.type, rounds)
    if data["id"].null_count < len(lines):
        columns["id"] = data["id"]
    for end, word in _end_words(type_, flat):
        columns[end] = data[word] if flat else table.column(word).combine_chunks()
        if columns[end].null_count:
            raise Unproven("an edge without an end")
    return pa.table(columns) if columns else pa.table({"id": pa.nulls(len(lines), pa.string())})


def _with_given(names: list[str], lines: pa.Array, rows: pa.Table) -> pa.Table:
    """The rows, and for each of some properties that are not in all of them which lines name it, be it as null."""
    if names and pc.any(pc.match_substring_regex(lines, r'\\u[^"]*"\s*:')).as_py():
        raise Unproven("a name that may be spelled with escapes")
    for name in names:
        own = rows.column(name).combine_chunks()
        if own.null_count:
            is_null = pc.match_substring_regex(lines, rf'"{re.escape(name)}"\s*:\s*null')
            rows = rows.append_column(f"{GIVEN}{name}", pc.or_(pc.is_valid(own), is_null))
    return rows


def _require_absent(lines: pa.Array) -> None:
    """Lines whose ``data`` came out as null must not name it."""
    if pc.any(pc.match_substring_regex(lines, r'data"|\\')).as_py():
        raise Unproven("a null in the place of data")
