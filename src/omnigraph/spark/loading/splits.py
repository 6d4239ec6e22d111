"""Parts of an input → splits that tasks read side by side, in the order of the input; and reading one split.

Lines are split at bytes, Parquet at row groups; compressed files, CSV and JSON arrays of unknown shape are read whole.
A DataFrame brings its own partitions. A split is parsed by the functions that the embedded load uses; its line numbers
count from its own beginning, unless the caller knows how many lines come before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.objects import user_files
from omnigraph.write.load.line_blocks import Block, is_gzip, lines_of, open_text, read_errors, without_mark
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.parse_lines import Dialect, Parsed, parse_block
from omnigraph.write.load.tabular import parse_part
from omnigraph.write.load.valid_rows import Reading

#: Pieces of a load per core: enough that the last ones do not leave cores idle, few enough that tables stay large.
_SPLITS_PER_CORE = 3

#: How much denser a Parquet file is than lines with the same rows, about.
_PARQUET_DENSITY = 4


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads.

    Attributes:
        part: position of its part in the input.
        start, end: bytes of a file with lines; a line belongs to the split it begins in. None for the whole part.
        groups, first_row: row groups of a Parquet file, and the number of their first row in it.
        weight: about how many bytes of lines that is.
    """

    part: int
    weight: int = 0
    start: int | None = None
    end: int | None = None
    groups: tuple[int, ...] | None = None
    first_row: int = 1


def splits_of(parts: Sequence[Part], cores: int) -> list[Split]:
    """The pieces of every file, of a size that keeps all cores busy without making tiny tables."""
    sizes = [_size(part) for part in parts]
    wanted = math.ceil(sum(sizes) / max(1, cores * _SPLITS_PER_CORE))
    size = min(limits.SPLIT_BYTES, max(limits.LOAD_BLOCK_BYTES, wanted))
    found: list[Split] = []
    for number, (part, bytes_) in enumerate(zip(parts, sizes, strict=True)):
        if part.format is Format.PARQUET:
            found += _row_groups(number, part, size)
        elif part.format in (Format.JSONL, Format.JSON) and bytes_ > size and not _is_packed(part):
            found += [Split(number, size, start, min(start + size, bytes_)) for start in range(0, bytes_, size)]
        else:
            found.append(Split(number, bytes_))
    return found


def tasks_of(splits: Sequence[Split]) -> list[range]:
    """Neighbours that one task reads together, because each alone would be small."""
    found: list[range] = []
    start, gathered = 0, 0
    most = max([limits.LOAD_BLOCK_BYTES, *(split.weight for split in splits)])
    for number, split in enumerate(splits):
        if number > start and gathered + split.weight > most:
            found.append(range(start, number))
            start, gathered = number, 0
        gathered += split.weight
    return [*found, range(start, len(splits))] if splits else []


def _size(part: Part) -> int:
    if part.table is not None:
        return 0
    with read_errors(part.name):
        return user_files.size_of(part.name)


def _is_packed(part: Part) -> bool:
    with read_errors(part.name), user_files.open_file(part.name) as raw:
        return is_gzip(raw)


def _row_groups(number: int, part: Part, size: int) -> Iterator[Split]:
    """Consecutive row groups of about that many compressed bytes."""
    with read_errors(part.name), user_files.open_file(part.name) as stream:
        try:
            metadata = pq.read_metadata(stream)
        except pa.ArrowInvalid as error:
            reason = str(error).split("\n", 1)[0][:200]
            raise InputError(f"cannot read {part.name} as parquet: {reason}", file=part.name) from None
    # Parquet is several times as dense as the rows in it.
    most = max(1, size // _PARQUET_DENSITY)
    chosen: list[int] = []
    first_row, rows, gathered = 1, 0, 0
    for group in range(metadata.num_row_groups):
        about = metadata.row_group(group)
        bytes_ = sum(about.column(column).total_compressed_size for column in range(about.num_columns))
        if chosen and gathered + bytes_ > most:
            yield Split(number, gathered * _PARQUET_DENSITY, groups=tuple(chosen), first_row=first_row)
            chosen, first_row, rows, gathered = [], first_row + rows, 0, 0
        chosen.append(group)
        rows += about.num_rows
        gathered += bytes_
    yield Split(number, gathered * _PARQUET_DENSITY, groups=tuple(chosen), first_row=first_row)


_PIECE = 1 << 16


class ParsedSplit:
    """The parsed blocks of a split, and how many lines there were."""

    def __init__(self, catalog: Catalog, part: Part, split: Split, first_line: int, reading: Reading) -> None:
        self._dialect = Dialect(catalog, part.type, reading)
        self._part = part
        self._split = split
        self._first = first_line
        self.count = 0

    def __iter__(self) -> Iterator[Parsed]:
        if self._part.format not in (Format.JSONL, Format.JSON):
            yield from parse_part(self._part, self._dialect.reading, self._split.groups, self._split.first_row)
            return
        for block in self._blocks():
            self.count += block.data.count(b"\n")
            yield parse_block(Block(block.file, block.first_line + self._first - 1, block.data), self._dialect)

    def _blocks(self) -> Iterator[Block]:
        name = self._part.name
        if self._split.start is None or self._split.end is None:
            with open_text(name, self._part.options) as text:
                yield from lines_of(text, name)
            return
        with read_errors(name), user_files.open_file(name, self._part.options) as raw:
            yield from lines_of(_Range(raw, self._split.start, self._split.end), name)


class _Range:
    """The lines that begin in a range of bytes, as a stream."""

    def __init__(self, raw: BinaryIO, start: int, end: int) -> None:
        self._raw = raw
        self._end = end
        self._at = start
        self._done = False
        if start:
            raw.seek(start - 1)
            self._at = start - 1 + _to_line_end(raw)
            raw.seek(self._at)
        else:
            self._at = without_mark(raw).tell()
        self._done = self._at >= end

    def read(self, size: int, /) -> bytes:
        if self._done:
            return b""
        left = self._end - self._at
        if left > 0:
            piece = self._raw.read(min(size, left))
            self._at += len(piece)
            if not piece or (self._at >= self._end and piece.endswith(b"\n")):
                self._done = True
            return piece
        piece = self._raw.readline(size)  # the rest of the last line
        self._at += len(piece)
        self._done = not piece or piece.endswith(b"\n")
        return piece


def _to_line_end(raw: BinaryIO) -> int:
    """Bytes up to and with the next line end, or up to the end of the file."""
    passed = 0
    while piece := raw.readline(_PIECE):
        passed += len(piece)
        if piece.endswith(b"\n"):
            break
    return passed
