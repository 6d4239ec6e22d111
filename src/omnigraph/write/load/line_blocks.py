"""A file → blocks of whole lines. Gzip is recognised by its first bytes; a line has a limit.

Lines end in LF and in nothing else: other line breaks of Unicode may stand inside strings. A byte order mark before the
first of them is no part of it. Memory is one block and the unfinished line at its end.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

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


def blocks(file: str, size: int | None = None, stream: Any = None) -> Iterator[Block]:
    """The lines of a file, in blocks of about ``size`` bytes.

    Args:
        stream: the file, when it is open already.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
        ResourceLimitExceeded: a line is longer than the limit.
    """
    with open_text(file, stream=stream) as text:
        yield from lines_of(text, file, size)


@contextmanager
def open_text(file: str, options: Mapping[str, str] | None = None, stream: Any = None) -> Iterator[BinaryIO]:
    """The bytes of a text file from its first character on: unpacked, without a byte order mark.

    Args:
        options: of the object store that holds it; None takes the environment.
        stream: the file, when it is open already. It is not closed.
    """
    with read_errors(file), open_bytes(file, options, stream) as raw:
        if is_gzip(raw):
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield without_mark(cast(BinaryIO, unpacked))
        else:
            yield without_mark(raw)


def open_bytes(file: str, options: Mapping[str, str] | None = None, stream: Any = None) -> BinaryIO:
    """A file as it is, as a buffered stream of bytes; see `open_text`."""
    if stream is None:
        return user_files.open_file(file, options)
    return cast(BinaryIO, io.BufferedReader(_Borrowed(stream), limits.LOAD_BLOCK_BYTES))


class _Borrowed(io.RawIOBase):
    """A file of the caller, text or binary, as bytes. Closing this does not close it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._rest = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        is_text = isinstance(self._stream, io.TextIOBase)
        return not is_text and bool(getattr(self._stream, "seekable", lambda: False)())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if not self._rest:
            piece = self._stream.read(len(view))
            self._rest = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else bytes(piece or b"")
        taken, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(taken)] = taken
        return len(taken)


def is_gzip(raw: Any) -> bool:
    """Whether a buffered stream that was just opened is compressed."""
    return bool(raw.peek(len(_GZIP))[: len(_GZIP)] == _GZIP)


def without_mark(text: Any) -> BinaryIO:
    """The same buffered stream behind a byte order mark, if it begins with one."""
    if text.peek(len(codecs.BOM_UTF8))[: len(codecs.BOM_UTF8)] == codecs.BOM_UTF8:
        text.read(len(codecs.BOM_UTF8))
    return cast(BinaryIO, text)


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
    except FileNotFoundError:
        raise missing_file(file) from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}", file=file) from None


def missing_file(file: str) -> InputError:
    return InputError(f"{file} does not exist", hint="check the path", file=file)


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
