"""One split → parsed rows, by the functions that the embedded load uses. Runs on executors, knows no Spark.

Line numbers count from the beginning of a split, unless the caller knows how many lines come before it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

from omnigraph.schema.catalog import Catalog
from omnigraph.spark.splits import Split
from omnigraph.storage import inputs
from omnigraph.write.load.blocks import Block, is_gzip, lines_of, read_errors
from omnigraph.write.load.parse import Dialect, Parsed, parse_block
from omnigraph.write.load.source import Format, Part
from omnigraph.write.load.tabular import parse_part

_PIECE = 1 << 16


class Lines:
    """The parsed blocks of a split, and how many lines there were."""

    def __init__(self, catalog: Catalog, part: Part, split: Split, first_line: int, most: int) -> None:
        self._dialect = Dialect(catalog, part.type, most)
        self._part = part
        self._split = split
        self._first = first_line
        self._most = most
        self.count = 0

    def __iter__(self) -> Iterator[Parsed]:
        if self._part.format not in (Format.JSONL, Format.JSON):
            yield from parse_part(self._part, self._most, self._split.groups, self._split.first_row)
            return
        for block in self._blocks():
            self.count += block.data.count(b"\n")
            yield parse_block(Block(block.file, block.first_line + self._first - 1, block.data), self._dialect)

    def _blocks(self) -> Iterator[Block]:
        name = self._part.name
        with read_errors(name), inputs.open_file(name, self._part.options) as raw:
            if self._split.start is not None and self._split.end is not None:
                yield from lines_of(_Range(raw, self._split.start, self._split.end), name)
            elif is_gzip(raw):
                with closing(gzip.GzipFile(fileobj=raw)) as stream:
                    yield from lines_of(stream, name)
            else:
                yield from lines_of(raw, name)


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
