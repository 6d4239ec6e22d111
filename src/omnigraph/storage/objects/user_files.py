"""Files of the user, on a local disk or in an object store: those that a load reads and an export writes.

Nothing here belongs to a graph. An address is a path or ``s3://bucket/key``; credentials come from the environment, or
from whoever hands them over to a process on another machine. A written file appears under its name when it is complete.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import io
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from omnigraph.errors import InputError
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.objects.object_store import Location, open_store, parse_location, s3_options, store_config

_REMOTE = "s3://"
_READ_BYTES = 4 * 1024**2


def is_remote(address: str) -> bool:
    return address.startswith(_REMOTE)


def files_of(address: str) -> list[str] | None:
    """The files that an address means, sorted: itself, those of a directory, or those that match a pattern.

    Returns:
        None for an address that is no directory and no pattern, whether there is such a file or not.

    Raises:
        InputError: a pattern that nothing matches, an unknown scheme.
    """
    if is_remote(address):
        return _remote_files(address)
    if "://" in address:
        raise InputError(f"cannot read {address}", hint="give a path or s3://bucket/key")
    if os.path.isdir(address):
        return sorted(str(each) for each in Path(address).rglob("*") if each.is_file())
    if os.path.exists(address) or not glob.has_magic(address):
        return None
    matching = sorted(each for each in glob.glob(address, recursive=True) if os.path.isfile(each))
    if not matching:
        raise InputError(f"no file matches {address}")
    return matching


def is_pattern(address: str) -> bool:
    """Whether an address names files by a pattern; a file whose name looks like one is that file."""
    key = _split(address)[1] if is_remote(address) else address
    return glob.has_magic(key) and (is_remote(address) or not os.path.exists(address))


def size_of(address: str) -> int:
    """Bytes of a file; raises OSError when it cannot be read."""
    if not is_remote(address):
        return os.path.getsize(address)
    bucket, key = _split(address)
    with _as_os_errors():
        return int(obstore.head(_store(bucket, None), key)["size"])


def total_size(address: str) -> int:
    """Bytes of all files that an address means; raises OSError when one cannot be read."""
    if not is_remote(address):
        return sum(map(os.path.getsize, files_of(address) or [address]))
    bucket, key = _split(address)
    start, pattern = _listed(key)
    with _as_os_errors():
        pages = obstore.list(_store(bucket, None), start)
        sizes = [entry["size"] for page in pages for entry in page if fnmatch.fnmatchcase(entry["path"], pattern)]
    return sum(sizes) if sizes else size_of(address)


def options_of(address: str) -> dict[str, str] | None:
    """What another machine needs to open the same file; None for a path."""
    return s3_options(os.environ) if is_remote(address) else None


def open_file(address: str, options: Mapping[str, str] | None = None) -> BinaryIO:
    """A file as a seekable stream of bytes; raises OSError when it cannot be read.

    Args:
        options: of the object store; None takes the environment.
    """
    if not is_remote(address):
        return open(address, "rb")
    return open_object(*_split(address), options)


def open_object(bucket: str, key: str, options: Mapping[str, str] | None = None) -> BinaryIO:
    """An object of a store as a seekable stream of bytes; see `open_file`."""
    with _as_os_errors():
        reader = obstore.open_reader(_store(bucket, options), key)
    return cast(BinaryIO, io.BufferedReader(_Remote(reader), _READ_BYTES))


class _Remote(io.RawIOBase):
    """An object as Python knows files."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        with _as_os_errors():
            piece = memoryview(self._reader.read(len(view)))
        view[: len(piece)] = piece
        return len(piece)


def _remote_files(address: str) -> list[str] | None:
    bucket, key = _split(address)
    start, pattern = _listed(key)
    with _as_os_errors():
        below = [entry["path"] for page in obstore.list(_store(bucket, None), start) for entry in page]
    matching = sorted(each for each in below if fnmatch.fnmatchcase(each, pattern))
    if not matching and glob.has_magic(key):
        raise InputError(f"no file matches {address}")
    return [f"{_REMOTE}{bucket}/{each}" for each in matching] or None


def _listed(key: str) -> tuple[str | None, str]:
    """Where to look for the objects that a key means, and the pattern that they match."""
    if not glob.has_magic(key):
        return (f"{key.rstrip('/')}/" if key else None), "*"
    fixed = key.partition("*")[0].partition("?")[0].partition("[")[0].rpartition("/")[0]
    return (f"{fixed}/" if fixed else None), key


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """What a store may answer, as Python knows it from files."""
    try:
        yield
    except FileNotFoundError:
        raise
    except BaseError as error:
        raise OSError(str(error).split("\n", 1)[0]) from error


def _split(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix(_REMOTE).partition("/")
    if not bucket:
        raise InputError(f"{address!r} is not s3://bucket/key")
    return bucket, key


def _store(bucket: str, options: Mapping[str, str] | None) -> Any:
    config, client = store_config(s3_options(os.environ) if options is None else options)
    return S3Store(bucket, config=config, client_options=client)


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
