"""One blob of one row, as users hold it: its size, and ranges of its bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from omnigraph import given
from omnigraph.errors import BlobRangeError
from omnigraph.storage.tables.blob_cells import ExternalBytes, ManagedBytes

if TYPE_CHECKING:
    from omnigraph.graph.snapshot import Snapshot

#: Bytes that a reader of a stream gets at a time.
_CHUNK_BYTES = 4 * 1024**2


class Blob:
    """The bytes of one `Blob` property of one row, in one state of the graph. Nothing is read before it is asked for.

    Attributes:
        type, id, property: which one it is.
        kind: ``managed`` in the files of the graph, ``external`` for a reference that other software stored.
        etag: of a managed one; while it stays the same, so do the bytes. It may change without them.
        uri: of an external one.
        snapshot: the state that it is read from.
    """

    def __init__(
        self, snapshot: Snapshot, selector: tuple[str, str, str], content: ManagedBytes | ExternalBytes
    ) -> None:
        self.snapshot = snapshot
        self.type, self.id, self.property = selector
        self._content = content
        self.kind: Literal["managed", "external"] = "managed" if isinstance(content, ManagedBytes) else "external"
        self.etag = content.etag if isinstance(content, ManagedBytes) else None
        self.uri = content.uri if isinstance(content, ExternalBytes) else None

    @property
    def size(self) -> int:
        """Bytes that it has. Of an external one its place is asked.

        Raises:
            ExternalBlobDenied: it lies outside of the graph, where nothing may be read.
            ExternalBlobUnavailable: it may be read, but cannot be.
        """
        return self._content.size

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Some of its bytes, or all; only these are fetched.

        Args:
            offset: where to begin; at the very end there are none left.
            length: how many at most; None reads to the end.

        Raises:
            BlobRangeError: the offset is behind the end.
            ExternalBlobDenied, ExternalBlobUnavailable: see `size`.

        Example:
            >>> graph.blob("Person", "ana", "photo").read(2, 3)
            b'xel'
        """
        start = given.count(offset, "offset")
        most = None if length is None else given.count(length, "length")
        size = self.size
        if start > size:
            raise BlobRangeError(start, most, size)
        return self._content.read(start, size - start if most is None else min(most, size - start))

    def open(self) -> BinaryIO:
        """It as a file that can be read and moved in, a few megabytes at a time.

        Example:
            >>> with graph.blob("Person", "ana", "photo").open() as file:
            ...     file.seek(3), file.read()
            (3, b'els')
        """
        return cast(BinaryIO, io.BufferedReader(BlobStream(self._content.read, self.size), _CHUNK_BYTES))

    def save(self, target: str | os.PathLike[str] | BinaryIO, offset: int = 0, length: int | None = None) -> int:
        """Write its bytes, or some of them, to a path or an open file; returns how many. A file is complete when it
        appears under its name.

        Args:
            offset, length: which of them; see `read`.

        Example:
            >>> graph.blob("Person", "ana", "photo").save("ana.bin")
            6
        """
        pieces = self._pieces(offset, length)
        first = next(pieces)  # nothing is touched by a request that is refused
        if not isinstance(target, str | os.PathLike):
            return _poured(target, first, pieces)
        from omnigraph.history.export import complete_file

        with complete_file(Path(target)) as draft, draft.open("wb") as file:
            return _poured(file, first, pieces)

    def _pieces(self, offset: int, length: int | None) -> Iterator[bytes]:
        piece = self.read(offset, length if length is not None and length < _CHUNK_BYTES else _CHUNK_BYTES)
        end = self.size if length is None else min(self.size, offset + length)
        while True:
            yield piece
            offset += len(piece)
            if offset >= end or not piece:
                return
            piece = self.read(offset, min(_CHUNK_BYTES, end - offset))

    def __repr__(self) -> str:
        return f"Blob({self.type!r}, {self.id!r}, {self.property!r}, {self.kind})"


def _poured(file: BinaryIO, first: bytes, rest: Iterator[bytes]) -> int:
    return sum(file.write(piece) for piece in chain([first], rest))


class BlobStream(io.RawIOBase):
    """A blob as Python knows files."""

    CHUNK_BYTES = _CHUNK_BYTES

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"there is no place {start + offset} in a file")
        self._at = start + offset
        return self._at

    def readinto(self, target: bytearray | memoryview) -> int:  # type: ignore[override]
        piece = self._read(self._at, max(min(len(target), self._size - self._at), 0))
        target[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
