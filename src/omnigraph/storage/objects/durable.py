"""Makes local files survive a power cut. Lance renames and links but never syncs, so a local commit does it here.

A file is safe once it and every directory on the way to it is synced. Directories that were synced as children of
their parent once need no second time; their own entries do. On an object store a finished put is durable already.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from omnigraph import limits

#: Files that are synced to the disk at once. They wait for it together, and it takes them in one go.
_SYNC_THREADS = 8


_linked: set[str] = set()  # directories whose own entry in their parent is known to be on disk
_lock = threading.Lock()


def write_file(path: str, content: bytes, root: str, *, replace: bool = True) -> bool:
    """Write a whole file. Its name appears when its content is on the disk, so that no reader ever finds half of it.

    Returns:
        False when the file exists and may not be replaced.
    """
    unfinished = f"{path}#{uuid.uuid4().int}"  # the storage libraries skip such names when they list a directory
    try:
        _write(unfinished, content)
        if replace:
            os.rename(unfinished, path)
        elif not _link(unfinished, path):
            return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    sync_directories([os.path.dirname(path)], root)
    return True


def _link(existing: str, path: str) -> bool:
    try:
        os.link(existing, path)
        return True
    except FileExistsError:
        return False


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        if limits.fsync_enabled():
            os.fsync(file.fileno())


def sync_files(paths: Iterable[str], root: str) -> None:
    """Sync files and the directories that hold them, up to and including ``root``."""
    if not limits.fsync_enabled():
        return
    files = list(paths)
    if len(files) > 1:
        list(_threads().map(lambda path: sync(path), files))  # the disk writes together what waits together
    else:
        for path in files:
            sync(path)
    sync_directories({os.path.dirname(path) for path in files}, root)


def sync_directories(directories: Iterable[str], root: str) -> None:
    """Sync the entries of directories, and those of their parents where a directory itself is new."""
    if not limits.fsync_enabled():
        return
    todo = set(directories)
    for directory in list(todo):
        current = directory
        while len(current) > len(root) and current not in _linked:
            parent = os.path.dirname(current)
            todo.add(parent)
            current = parent
    for directory in sorted(todo, key=len, reverse=True):
        sync(directory)
    with _lock:
        _linked.update(todo)


def forget(directory: str) -> None:
    """A directory was removed; when its name comes back it is new again."""
    with _lock:
        _linked.difference_update(
            [known for known in _linked if known == directory or known.startswith(f"{directory}/")]
        )


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="omnigraph-sync")


def sync(path: str) -> None:
    """Sync one file, or the entries of one directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_of(table_uri: str, operation: Any) -> list[str]:
    """Files that staging an operation wrote: data, deletions, index parts. Its transaction is in the version file."""
    files = []
    for fragment in [*getattr(operation, "new_fragments", ()), *getattr(operation, "fragments", ())]:
        for file in fragment.files:
            data_file = f"{table_uri}/data/{file._path}"  # `path` makes a new class at each look
            files += [data_file, *_blobs_of(data_file)]
    for fragment in getattr(operation, "updated_fragments", ()):
        files.append(f"{table_uri}/{fragment.deletion_file.path(fragment.id)}")
    for index in getattr(operation, "new_indices", ()):
        files += [f"{table_uri}/_indices/{index.uuid}/{file.path}" for file in index.files or ()]
    return files


def _blobs_of(data_file: str) -> list[str]:
    """Large blob values lie in a directory named after their data file."""
    directory = data_file.removesuffix(".lance")
    return [os.path.join(directory, name) for name in os.listdir(directory)] if os.path.isdir(directory) else []


def sync_tree(directory: str, root: str) -> None:
    """Sync a whole new directory."""
    if limits.fsync_enabled():
        files = [os.path.join(place, name) for place, _, names in os.walk(directory) for name in names]
        sync_files(files, root)
