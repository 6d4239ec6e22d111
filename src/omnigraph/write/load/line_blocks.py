"""A file → blocks of whole lines. Gzip is recognised by its first bytes; a line has a limit.

Lines end in LF and in nothing else: other line breaks of Unicode may stand inside strings. Memory is one block and the
unfinished line at its end.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from omnigraph import limits
from omnigraph.errors import InputError, ResourceLimitExceeded
from omnigraph.storage.objects import user_files

_GZIP = b"\x1f\x8b"


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file.

    Attributes:
        file: name for messages.
        first_line: number of the first line, from 1.
        data: the lines, each with its LF.
    """

    file: str
    first_line: int
    data: bytes


def blocks(file: str, size: int | None = None) -> Iterator[Block]:
    """The lines of a file, in blocks of about ``size`` bytes.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
        ResourceLimitExceeded: a line is longer than the limit.
    """
    with read_errors(file), user_files.open_file(file) as raw:
        if is_gzip(raw):
            with gzip.GzipFile(fileobj=raw) as stream:
                yield from lines_of(stream, file, size)
        else:
            yield from lines_of(raw, file, size)


def is_gzip(raw: BinaryIO) -> bool:
    """Whether a stream that was just opened is compressed."""
    packed = raw.read(len(_GZIP)) == _GZIP
    raw.seek(0)
    return packed


def lines_of(stream: Readable, file: str, size: int | None = None) -> Iterator[Block]:
    """The lines of an open stream; the last one need not end in LF."""
    size = size or limits.LOAD_BLOCK_BYTES
    unfinished: list[bytes] = []
    number = 1
    while piece := stream.read(size):
        end = piece.rfind(b"\n") + 1
        if end == 0:
            unfinished.append(piece)
            if sum(map(len, unfinished)) > limits.LOAD_LINE_BYTES:
                raise _too_long(sum(map(len, unfinished)) + _rest_of_line(stream, size), file, number)
            continue
        data = b"".join([*unfinished, piece[:end]])
        first = data.index(b"\n")
        if first > limits.LOAD_LINE_BYTES:
            raise _too_long(first, file, number)
        yield Block(file, number, data)
        number += data.count(b"\n")
        unfinished = [piece[end:]] if end < len(piece) else []
    last = b"".join(unfinished)
    if len(last) > limits.LOAD_LINE_BYTES:
        raise _too_long(len(last), file, number)
    if last:
        yield Block(file, number, last + b"\n")


@contextmanager
def read_errors(file: str) -> Iterator[None]:
    """What reading a file may raise, as errors of ours."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{file} is damaged: {error}", hint="compress it again", file=file) from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}", file=file) from None


def _rest_of_line(stream: Readable, size: int) -> int:
    length = 0
    while piece := stream.read(size):
        end = piece.find(b"\n")
        if end >= 0:
            return length + end
        length += len(piece)
    return length


def _too_long(length: int, file: str, line: int) -> ResourceLimitExceeded:
    error = ResourceLimitExceeded("graph_batch_line_bytes", length, limits.LOAD_LINE_BYTES)
    error.hint = f"{file}:{line}"
    error.details |= {"file": file, "line": line}
    return error
