"""All files below the root of a graph, on a disk or in an object store: list them, copy them, compare them.

A copy is streamed, so that memory does not grow with a file, and appears under its name when it is complete. What was
written is read again: on a disk it is compared with the source byte by byte, otherwise by SHA-256 with what was read.
Nothing here knows what a file means.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import obstore

from omnigraph.errors import StorageError
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.native_libraries import store_errors, use_storage
from omnigraph.storage.objects.object_store import Location, open_store

#: Bytes of a file that one thread has in memory: what the cache of a processor holds, and a part of an upload.
_LOCAL_BYTES = 1024**2
_REMOTE_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing shows it.

    Attributes:
        path: below the root.
        tag: differs when another file got the same name.
    """

    path: str
    size: int
    tag: str


class FileTree:
    """The files below one root, addressed by relative path."""

    def __init__(self, location: Location) -> None:
        use_storage()
        self.location = location
        self._store: Any = None
        self._made: set[str] = set()

    def files(self, below: str = "") -> Iterator[StoredFile]:
        """Every file below a directory, at any depth; names that are being written are left out."""
        with store_errors(f"list {self.location.child(below)}"):
            found = self._local(below) if self.location.is_local else self._remote(below)
            yield from (file for file in found if not _is_unfinished(file.path))

    def _local(self, below: str) -> Iterator[StoredFile]:
        todo = [below]
        while todo:
            directory = todo.pop()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                with os.scandir(self.location.child(directory)) as entries:
                    present = list(entries)
                for entry in present:
                    path = f"{directory}/{entry.name}" if directory else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(path)
                        continue
                    with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                        seen = entry.stat()
                        yield StoredFile(path, seen.st_size, f"{seen.st_mtime_ns}-{seen.st_ino}")

    def _remote(self, below: str) -> Iterator[StoredFile]:
        for page in obstore.list(self._connect(), f"{below}/" if below else None):
            for entry in page:
                yield StoredFile(entry["path"], int(entry["size"]), entry["e_tag"] or str(entry["last_modified"]))

    def is_same(self, source: FileTree, path: str) -> bool:
        """Whether a file here holds what the file of this path holds in another tree; both are read."""
        with store_errors(f"compare {source.location.child(path)} with {self.location.child(path)}"):
            try:
                if self.location.is_local and source.location.is_local:
                    return _hold_the_same(source.location.child(path), self.location.child(path))
                return self._digest(path) == source._digest(path)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def copy(self, source: FileTree, path: str, size: int) -> bool:
        """Copy a file of another tree to the same path here, and read it again to compare.

        Args:
            size: about how large it is; decides how it is sent.

        Returns:
            False when the source has no such file.

        Raises:
            StorageError: the copy does not hold what was read.
        """
        with store_errors(f"copy {source.location.child(path)} to {self.location.child(path)}"):
            try:
                if self.location.is_local and source.location.is_local:
                    with self._unfinished(path) as unfinished:
                        shutil.copyfile(source.location.child(path), unfinished)
                    same = self.is_same(source, path)
                else:
                    same = self._stream(source, path, size) == self._digest(path)
            except (FileNotFoundError, NotADirectoryError):
                if source._is_there(path):
                    raise
                return False
        if not same:
            raise StorageError(
                f"{self.location.child(path)} does not hold what was written to it", hint="check the disk or the store"
            )
        return True

    def _stream(self, source: FileTree, path: str, size: int) -> str:
        """Copy a file piece by piece; returns the digest of what was read."""
        read = hashlib.sha256()
        pieces = _hashed(source._pieces(path), read)
        first = next(pieces, b"")
        if self.location.is_local:
            self._write(path, first, pieces)
        else:
            self._send(path, first, pieces, size)
        return read.hexdigest()

    def _digest(self, path: str) -> str:
        found = hashlib.sha256()
        for piece in self._pieces(path):
            found.update(piece)
        return found.hexdigest()

    def _is_there(self, path: str) -> bool:
        if self.location.is_local:
            return os.path.exists(self.location.child(path))
        try:
            obstore.head(self._connect(), path)
            return True
        except FileNotFoundError:
            return False

    def write(self, path: str, content: bytes) -> None:
        """Write a whole small file; `sync` makes it durable."""
        with store_errors(f"write {self.location.child(path)}"):
            if self.location.is_local:
                self._write(path, content, iter(()))
            else:
                obstore.put(self._connect(), path, content)

    def sync(self, paths: list[str]) -> None:
        """Make files survive a power cut; an object store does so by itself."""
        if self.location.is_local:
            with store_errors(f"write to {self.location.uri}"):
                object_store.sync_files([self.location.child(path) for path in paths], self.location.uri)

    def _pieces(self, path: str) -> Iterator[bytes | memoryview]:
        if not self.location.is_local:
            for piece in obstore.get(self._connect(), path).stream(min_chunk_size=_REMOTE_BYTES):
                yield bytes(piece)
            return
        with open(self.location.child(path), "rb", buffering=0) as file:
            room = memoryview(bytearray(_LOCAL_BYTES))
            while (length := file.readinto(room)) > 0:
                yield room[:length]

    def _write(self, path: str, first: bytes | memoryview, rest: Iterator[bytes | memoryview]) -> None:
        with self._unfinished(path) as unfinished, open(unfinished, "xb", buffering=0) as file:
            _write_all(file, first)
            for piece in rest:
                _write_all(file, piece)

    @contextlib.contextmanager
    def _unfinished(self, path: str) -> Iterator[str]:
        """A name to write to, which becomes the file when the block ends well."""
        target = self.location.child(path)
        directory = os.path.dirname(target)
        if directory not in self._made:
            os.makedirs(directory, exist_ok=True)
            self._made.add(directory)
        unfinished = f"{target}#{uuid.uuid4().int}"
        try:
            yield unfinished
            os.rename(unfinished, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)

    def _send(self, path: str, first: bytes | memoryview, rest: Iterator[bytes | memoryview], size: int) -> None:
        start = bytes(first)  # the next piece takes its place
        if size <= _REMOTE_BYTES:
            obstore.put(self._connect(), path, b"".join([start, *map(bytes, rest)]))
        else:
            obstore.put(self._connect(), path, _elsewhere(start, rest), use_multipart=True)

    def _connect(self) -> Any:
        if self._store is None:
            self._store = open_store(self.location)
        return self._store


def _is_unfinished(path: str) -> bool:
    """Whether a file is renamed when it is complete: obstore and we put a `#` into such names, Lance begins them so."""
    return "#" in path or path.rpartition("/")[2].startswith(".tmp")


def _hold_the_same(one: str, other: str) -> bool:
    """Two files of a disk, byte by byte: reads as much as two digests would, and computes nothing."""
    with open(one, "rb", buffering=0) as left, open(other, "rb", buffering=0) as right:
        rooms = bytearray(_LOCAL_BYTES), bytearray(_LOCAL_BYTES)
        while True:
            lengths = [_fill(file, room) for file, room in zip((left, right), rooms, strict=True)]
            if lengths[0] != lengths[1] or rooms[0][: lengths[0]] != rooms[1][: lengths[1]]:
                return False
            if lengths[0] < _LOCAL_BYTES:
                return True


def _fill(file: Any, room: bytearray) -> int:
    """Read until there is no room, or no more."""
    view, length = memoryview(room), 0
    while length < len(room) and (more := file.readinto(view[length:])):
        length += more
    return length


def _hashed(pieces: Iterator[bytes | memoryview], digest: Any) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def _write_all(file: Any, piece: bytes | memoryview) -> None:
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]


def _elsewhere(first: bytes, rest: Iterator[bytes | memoryview]) -> Iterator[bytes]:
    """The same pieces, read by another thread: the one that uploads must not call a store while it does."""
    yield first
    with ThreadPoolExecutor(1) as thread:
        while (piece := thread.submit(lambda: bytes(next(rest, b""))).result()) != b"":
            yield piece
