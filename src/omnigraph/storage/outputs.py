"""Files that a job writes: into a local directory or below a prefix of an object store.

A file appears under its name when it is complete, whoever wrote it and however often. Nothing here belongs to a graph.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore

from omnigraph.errors import InputError
from omnigraph.storage.faults import store_errors
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import open_store

_PIECE_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory or a prefix. The description travels to executors, with what it takes to write there."""

    location: Location

    @staticmethod
    def at(address: str | os.PathLike[str]) -> Folder:
        return Folder(parse_location(address))

    def below(self, name: str) -> Folder:
        return Folder(Location(self.location.child(name), self.location.options))

    def address(self, name: str) -> str:
        return self.location.child(name)

    def is_empty(self) -> bool:
        if self.location.is_local:
            return not os.path.lexists(self.location.uri) or (
                os.path.isdir(self.location.uri) and not os.listdir(self.location.uri)
            )
        with store_errors(f"list {self.location.uri}"):
            return not any(len(page) for page in obstore.list(open_store(self.location), chunk_size=1))

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """A local path to write to; what is there when the block ends well becomes the file of this name."""
        if self.location.is_local:
            with self._local_file(Path(self.address(name))) as draft:
                yield draft
            return
        with tempfile.TemporaryDirectory(prefix="omnigraph-") as here:
            draft = Path(here, "part")
            yield draft
            with store_errors(f"write {self.address(name)}"):
                obstore.put(open_store(self.location), name, draft)

    @contextmanager
    def _local_file(self, path: Path) -> Iterator[Path]:
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield draft
            os.replace(draft, path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}", file=str(path)) from None
        finally:
            with contextlib.suppress(OSError):  # gone already, or there is no such directory
                draft.unlink()

    def remove(self) -> None:
        """Take away the folder with everything in it."""
        if self.location.is_local:
            shutil.rmtree(self.location.uri, ignore_errors=True)
            return
        with store_errors(f"delete {self.location.uri}"):
            store = open_store(self.location)
            for page in obstore.list(store):
                obstore.delete(store, [entry["path"] for entry in page])

    def take_name(self, target: Folder) -> None:
        """Give a local folder its final name; the target is empty or absent."""
        try:
            Path(target.location.uri).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.location.uri, target.location.uri)
        except OSError as error:
            raise InputError(f"cannot write {target.location.uri}: {error.strerror or error}") from None


def concatenate(parts: Folder, names: Sequence[str], target: Folder, name: str) -> None:
    """Write one file that is the given ones one after the other, a piece at a time."""
    if target.location.is_local:
        with target.file(name) as draft, draft.open("wb") as whole:
            for part in names:
                with open(parts.address(part), "rb") as source:
                    shutil.copyfileobj(source, whole, _PIECE_BYTES)
        return
    with store_errors(f"write {target.address(name)}"):
        obstore.put(open_store(target.location), name, _elsewhere(_pieces(parts, names)), use_multipart=True)


def _pieces(parts: Folder, names: Sequence[str]) -> Iterator[bytes]:
    store = open_store(parts.location)
    for part in names:
        for piece in obstore.get(store, part).stream(min_chunk_size=_PIECE_BYTES):
            yield bytes(piece)


def _elsewhere(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, got by another thread: the one that uploads must not call the store while it does."""
    with ThreadPoolExecutor(1) as thread:
        while (piece := thread.submit(next, pieces, None).result()) is not None:
            yield piece
