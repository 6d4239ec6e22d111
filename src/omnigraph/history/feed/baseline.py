"""A whole state of a branch with the cursor that goes on from it: how a consumer begins, and begins again after a gap.

The lines are those of an export. The last one holds the cursor; it is written only after every row was, so a file
without it is unusable. The file appears under its name only when it is complete and durable.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from omnigraph.errors import ConflictError, InputError
from omnigraph.history.entity_changes import ChangeFilter
from omnigraph.history.export import Target, lines_of, writer_of
from omnigraph.history.feed.page import binding_of, known_types
from omnigraph.history.feed.positions import FeedCursor, seal
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.object_store import sync


@dataclass(frozen=True, slots=True)
class Baseline:
    """A state of a branch and how to follow it from there.

    Attributes:
        snapshot_commit_id: head commit of the state.
        resume_cursor: what comes after it; for `Graph.changes` with the same branch and filters.
        file: path of the lines, if a path was given.
        text: the lines, if no target was given.
    """

    snapshot_commit_id: str
    resume_cursor: str
    file: str | None = None
    text: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Baseline(commit {self.snapshot_commit_id}{f', file {self.file!r}' if self.file is not None else ''})"

    def to_dict(self) -> dict[str, Any]:
        return {"snapshot_commit_id": self.snapshot_commit_id, "resume_cursor": self.resume_cursor}


def baseline(store: GraphStore, snapshot: ManifestSnapshot, target: Target, filter_: ChangeFilter) -> Baseline:
    """Write the lines of a state, then one line ``{"baseline": …}`` with its commit and cursor."""
    filter_.require_known_types(known_types(snapshot))
    head = store.head_id(snapshot)
    cursor = seal(FeedCursor(binding_of(store, snapshot, filter_), head))
    found = Baseline(head, cursor)
    if target is None:
        held = io.BytesIO()
        _pour(_lines(store, snapshot, filter_, found), held.write)
        return Baseline(head, cursor, text=held.getvalue().decode("utf-8"))
    if not isinstance(target, str | os.PathLike):
        _pour(_lines(store, snapshot, filter_, found), writer_of(target))
        return found
    path = Path(target)
    with installed(path) as file:
        _pour(_lines(store, snapshot, filter_, found), file.write)
    return Baseline(head, cursor, file=str(path))


def _lines(store: GraphStore, snapshot: ManifestSnapshot, filter_: ChangeFilter, found: Baseline) -> Iterator[Any]:
    for key, pin in sorted(snapshot.pins.items()):
        if filter_.wants_table(key):
            yield from lines_of(store, pin)
    yield (json.dumps({"baseline": found.to_dict()}, separators=(",", ":")) + "\n").encode()


def _pour(pieces: Iterator[Any], write: Callable[[Any], Any]) -> None:
    for piece in pieces:
        write(piece)


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
