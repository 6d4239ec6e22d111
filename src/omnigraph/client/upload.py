"""The source of a load as a body: files are read piece by piece while they are sent, rows in memory go as Arrow.

What belongs to whom is left to the server, which has the schema; here is only settled which files a path means. Nothing
is opened before the body is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import InputError, NotOffered
from omnigraph.storage.objects import user_files
from omnigraph.wire.load_parts import MEDIA_TYPE, PartHead, written
from omnigraph.write.arrow_rows import is_rows, row_batches
from omnigraph.write.load.line_blocks import open_bytes, read_errors
from omnigraph.write.load.load_source import Source, files_at, is_file, name_of, rows_or_files, settled, several


@dataclass(frozen=True, slots=True)
class UploadPart:
    """One part of a source.

    Attributes:
        pieces: reads its bytes from the beginning.
    """

    head: PartHead
    pieces: Callable[[], Iterator[bytes]]
    is_repeatable: bool


@dataclass(frozen=True, slots=True)
class Upload:
    """A whole source."""

    parts: tuple[UploadPart, ...]

    @property
    def media_type(self) -> str:
        return MEDIA_TYPE

    @property
    def is_repeatable(self) -> bool:
        return all(part.is_repeatable for part in self.parts)

    def pieces(self) -> Iterator[bytes]:
        return written((part.head, part.pieces()) for part in self.parts)


def upload_of(source: Source, type_: str | None) -> Upload:
    """The body of a load.

    Raises:
        InputError: a part is nothing that can be loaded, or a path means no file.
        NotOffered: it is a DataFrame of Spark.
    """
    source = settled(source)
    if is_rows(source):
        return Upload((_rows(source, type_),))
    if isinstance(source, Mapping):
        if type_ is not None:
            hint = "leave out type=; rows are a list of dicts, also a single one"
            raise InputError("a mapping names its types itself", hint=hint)
        return Upload(tuple(part for name, value in source.items() for part in _typed(name, value)))
    _refuse_spark(source)
    given = several(source) if type_ is None else rows_or_files(source, type_)
    return Upload(tuple(part for each in given for part in _files(each, type_)))


def _typed(name: str, value: Any) -> Iterator[UploadPart]:
    if is_rows(value):
        yield _rows(value, name)
        return
    _refuse_spark(value)
    for each in rows_or_files(value, name):
        if not (isinstance(each, str | os.PathLike) or is_file(each)):
            hint = "pass an Arrow table, a frame, a list of dicts, an open file or a path"
            raise InputError(f"rows of '{name}' are of type {type(each).__name__}", hint=hint)
        yield from _files(each, name)


def _refuse_spark(value: Any) -> None:
    if type(value).__module__.partition(".")[0] == "pyspark":
        raise NotOffered(
            "a DataFrame of Spark is loaded into the storage of a graph, not into one behind a server",
            hint="open the graph by its storage address, or write the DataFrame to files",
        )


def _files(given: Any, type_: str | None) -> Iterator[UploadPart]:
    if is_file(given):
        yield _stream(given, type_)
        return
    for path in files_at(given):
        yield UploadPart(PartHead(path, type_, "file"), _reading(path), is_repeatable=True)


def _reading(path: str) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        with read_errors(path), user_files.open_file(path) as file:
            while piece := file.read(limits.CLIENT_PIECE_BYTES):
                yield piece

    return pieces


def _stream(stream: Any, type_: str | None) -> UploadPart:
    """An open file of the caller, from where it stands; it is left open."""
    name = name_of(stream)
    raw = open_bytes(name, stream=stream)
    begins = raw.tell() if raw.seekable() else None

    def pieces() -> Iterator[bytes]:
        with read_errors(name):
            if begins is not None:
                raw.seek(begins)
            while piece := raw.read(limits.CLIENT_PIECE_BYTES):
                yield piece

    return UploadPart(PartHead(name, type_, "file"), pieces, begins is not None)


def _rows(rows: Any, type_: str | None) -> UploadPart:
    name = f"<{type_}>" if type_ is not None else "<rows>"

    def pieces() -> Iterator[bytes]:
        sink = _Pieces()
        writer: pa.ipc.RecordBatchStreamWriter | None = None
        for table in row_batches(rows, name):
            if writer is None:
                writer = pa.ipc.new_stream(sink, table.schema)
            writer.write_table(table)
            yield from sink.taken()
        if writer is not None:
            writer.close()
        yield from sink.taken()

    is_once = isinstance(rows, pa.RecordBatchReader)
    return UploadPart(PartHead(name, type_, "rows"), pieces, not is_once)


class _Pieces:
    """A file to which Arrow writes, and whose content is taken away in between."""

    closed = False

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def write(self, piece: Any) -> int:
        self._held.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        pass

    def writable(self) -> bool:
        return True

    def taken(self) -> list[bytes]:
        held, self._held = self._held, []
        return held
