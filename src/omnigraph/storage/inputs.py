"""Files that a load reads: on a local disk or in an object store, listed and opened the same way.

Nothing here belongs to a graph. An address is a path or ``s3://bucket/key``; credentials come from the environment, or
from whoever hands them over to a process on another machine.
"""

from __future__ import annotations

import fnmatch
import glob
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from omnigraph.errors import InputError
from omnigraph.storage.location import s3_options
from omnigraph.storage.objects import store_config

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
    bucket, key = _split(address)
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
    has_pattern = glob.has_magic(key)
    fixed = key.partition("*")[0].partition("?")[0].partition("[")[0].rpartition("/")[0] if has_pattern else key
    start = f"{fixed.rstrip('/')}/" if fixed else None
    with _as_os_errors():
        below = [entry["path"] for page in obstore.list(_store(bucket, None), start) for entry in page]
    if has_pattern:
        matching = sorted(each for each in below if fnmatch.fnmatchcase(each, key))
        if not matching:
            raise InputError(f"no file matches {address}")
        below = matching
    return [f"{_REMOTE}{bucket}/{each}" for each in sorted(below)] or None


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
