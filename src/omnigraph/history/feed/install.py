"""Puts the file of a baseline in its place: complete, durable, and while nobody else does the same.

A consumer goes on from the cursor of the file that it finds. So the name must show the whole file or the one before it,
also after a power cut, and two baselines that are written to one name must not be taken for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from omnigraph.errors import ConflictError, InputError
from omnigraph.storage.durable import sync


@contextlib.contextmanager
def installed(path: Path) -> Iterator[BinaryIO]:
    """A file to write; it takes its name when the block ends well.

    Raises:
        ConflictError: another process is writing to this name, or did before this one was done.
        InputError: the file cannot be written there.
    """
    try:
        with _held(path.with_name(f"{path.name}.lock"), path):
            yield from _replacing(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", file=str(path)) from None


def _replacing(path: Path) -> Iterator[BinaryIO]:
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            ours = os.fstat(file.fileno())
        os.replace(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
    sync(str(path.parent))
    if not os.path.samestat(ours, path.stat()):
        raise ConflictError(f"{path} was replaced by somebody else", hint="take the baseline again", file=str(path))


@contextlib.contextmanager
def _held(lock: Path, path: Path) -> Iterator[None]:
    """The lock beside a file. The kernel frees it when a process dies; the empty file is removed by its holder."""
    number = _locked(lock)
    if number is None:
        raise ConflictError(
            f"another process is writing {path}", hint="wait for it, or choose another name", file=str(path)
        )
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            lock.unlink()
        os.close(number)


def _locked(lock: Path) -> int | None:
    """A descriptor that holds the lock, or None when somebody else does."""
    while True:
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(number), os.stat(lock)):
                return number
        except FileNotFoundError:
            pass  # the holder before us removed it after we had opened it
        except BlockingIOError:
            os.close(number)
            return None
        os.close(number)
