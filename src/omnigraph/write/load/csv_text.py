"""CSV text → columns of text, batch by batch, and what is wrong with it as a whole.

Every column stays text, so that each value can be refused with its own words. A quote that is never closed would make
the rest of the file one value: behind the last line a line is added that no file has, and only when the reader sees it
again as a line of its own was every quote closed.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pcsv

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.schema.catalog import Scalar
from omnigraph.write.load.line_blocks import open_text
from omnigraph.write.load.load_source import Part

_HEAD_BYTES = 1 << 20
_LAST_FIELD = "\x1eend of file\x1e"

#: Far longer than a thread takes to finish one read; after it a load goes on without knowing.
_RELEASE_SECONDS = 10.0

_AS_TEXT = pcsv.ConvertOptions(
    default_column_type=pa.string(),
    null_values=[""],
    strings_can_be_null=True,
    quoted_strings_can_be_null=False,
)


def csv_batches(
    part: Part, refuse: Callable[[Any, int], None], passed: Callable[[bytes], None]
) -> Generator[pa.Table, None, None]:
    """The rows of a CSV file. One with no row gives an empty table, which has the columns.

    Args:
        refuse: told of each row with a wrong number of fields, with its number.
        passed: told of the bytes that were read.
    """
    start = part.stream.tell() if part.stream is not None and part.stream.seekable() else None
    with open_text(part.name, part.options, part.stream) as text:
        try:
            yield from _batches(text, _block_bytes(part), refuse, passed)
        except (pa.ArrowInvalid, UnicodeDecodeError, _Unclosed) as error:
            line = _opening_line(part, start)
            if line is None and not isinstance(error, _Unclosed):
                raise unreadable(part, error) from None
            which = "a quote is" if line is None else f"the quote opened on line {line} is"
            place = part.name if line is None else f"{part.name}:{line}"
            raise InputError(
                f"{which} never closed",
                hint=f'close it, or write a quote that belongs to the text twice: ""; {place}',
                file=part.name,
                line=line,
            ) from None


def unreadable(part: Part, error: Exception) -> InputError:
    """The error of a file that its reader cannot make sense of."""
    reason = str(error).split("\n", 1)[0][:200]
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in reason:
        return InputError(f"{part.name} is no UTF-8 text", hint="save it as UTF-8", file=part.name)
    return InputError(f"cannot read {part.name} as {part.format}: {reason}", file=part.name)


class _Unclosed(Exception):
    """The file ended inside quotes."""


def _block_bytes(part: Part) -> int:
    """Bytes that are read at a time. A row fits into one block, and a blob may make it as long as a line may be."""
    columns = part.type.properties.values() if part.type is not None else ()
    return (
        limits.LOAD_LINE_BYTES if any(each.type.scalar is Scalar.BLOB for each in columns) else limits.LOAD_BLOCK_BYTES
    )


def _batches(
    text: BinaryIO, block: int, refuse: Callable[[Any, int], None], passed: Callable[[bytes], None]
) -> Iterator[pa.Table]:
    head = text.read(_HEAD_BYTES)
    last_line = _LAST_FIELD + "," * (head.count(b",") + 1)  # more fields than a header has
    rows = refused = 0
    ended = is_over = False

    def skip(row: Any) -> str:
        nonlocal refused, ended
        if row.text == last_line:
            ended = True
        elif not is_over:
            refused += 1
            refuse(row, rows + refused if row.number is None else row.number - 1)
        return "skip"

    lent = Lent()
    source = lent.lend(_Chained(head, text, f"\n{last_line}\n".encode(), passed, lent))
    lent.lend(skip)
    reader = None
    try:
        reader = pcsv.open_csv(source, _reading(block), _parsing(skip), _AS_TEXT)
        if reader.schema.names[0] == _LAST_FIELD:
            raise pa.ArrowInvalid("Empty CSV file")
        for batch in reader:
            rows += batch.num_rows
            yield pa.Table.from_batches([batch])
        if ended and rows == 0:
            yield reader.schema.empty_table()
    finally:
        # Whoever drops a reader waits for its thread, and the thread for whoever drops it: first it comes to its end.
        source.stop()
        is_over = True
        with contextlib.suppress(pa.ArrowException, OSError, UnicodeDecodeError):
            for _ in reader or ():
                pass
        del reader, source, skip
        lent.wait()
    if not ended:
        raise _Unclosed


class Lent:
    """Objects that Arrow's reader got from here.

    It reads ahead in a thread of its own, which calls Python to read and to let go. Closing the reader does not wait
    for it: a process that ends meanwhile is aborted. So whoever is done with a reader waits until everything is back.
    """

    def __init__(self) -> None:
        self.count = 0
        self._back = threading.Condition()

    def lend(self, held: Any) -> Any:
        with self._back:
            self.count += 1
        weakref.finalize(held, self._returned).atexit = False
        return held

    def wait(self) -> None:
        with self._back:
            self._back.wait_for(lambda: self.count == 0, _RELEASE_SECONDS)

    def _returned(self) -> None:
        with self._back:
            self.count -= 1
            self._back.notify_all()


def _reading(block: int) -> pcsv.ReadOptions:
    return pcsv.ReadOptions(use_threads=False, block_size=block)


def _parsing(skip: Callable[[Any], str]) -> pcsv.ParseOptions:
    return pcsv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)


class _Chained(io.RawIOBase):
    """What was read already, the rest of a stream, and one piece more."""

    def __init__(self, head: bytes, stream: BinaryIO, tail: bytes, passed: Callable[[bytes], None], lent: Lent) -> None:
        self._head = head
        self._stream = stream
        self._tail = tail
        self._passed = passed
        self._lent = lent

    def readable(self) -> bool:
        return True

    def stop(self) -> None:
        """Nothing more is read: to the reader the text ends here."""
        self._head = self._tail = b""
        self._stream = io.BytesIO()

    def read(self, size: int = -1, /) -> Any:
        if self._head:
            piece, self._head = self._head[:size], self._head[size:]
        else:
            piece = self._stream.read(size)
        if not piece:
            piece, self._tail = self._tail[:size], self._tail[size:]
        self._passed(piece)
        return self._lent.lend(memoryview(piece))


_OPENING = re.compile(rb'(?:\A|(?<=[,\r\n]))"')


def _opening_line(part: Part, start: int | None) -> int | None:
    """The line of a quote that nothing closes; None when there is none, or when the file cannot be read again."""
    if part.stream is not None:
        if start is None:
            return None
        part.stream.seek(start)
    with open_text(part.name, part.options, part.stream) as text:
        return unclosed_quote(text)


def unclosed_quote(text: BinaryIO, size: int = limits.LOAD_BLOCK_BYTES) -> int | None:
    """The line of a quote that nothing closes. Only a quote at the beginning of a field opens one."""
    line, at = 1, 0
    opened: int | None = None
    piece = text.read(size)
    while piece:
        more = text.read(size)
        while more and piece.endswith(b'"'):  # what it means depends on what follows
            piece, more = piece + more, text.read(size)
        while (found := piece.find(b'"', at) if opened else _position(_OPENING.search(piece, at))) >= 0:
            line += piece.count(b"\n", at, found)
            at = found + 1
            if opened and piece[at : at + 1] == b'"':
                at += 1  # a quote that belongs to the text
            else:
                opened = None if opened else line
        line += piece.count(b"\n", at)
        piece, at = (piece[-1:] + more, 1) if more else (b"", 0)
    return opened


def _position(found: re.Match[bytes] | None) -> int:
    return -1 if found is None else found.end() - 1
