"""Makes local files survive a power cut. Lance renames and links but never syncs, so a local commit does it here.

A file is safe once it and every directory on the way to it is synced. Directories that were synced as children of
their parent once need no second time; their own entries do. On an object store a finished put is durable already.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from omnigraph import limits

_linked: set[str] = set()  # directories whose own entry in their parent is known to be on disk
_lock = threading.Lock()


def sync_files(paths: Iterable[str], root: str) -> None:
    """Sync files and the directories that hold them, up to and including ``root``."""
    if not limits.fsync_enabled():
        return
    directories: set[str] = set()
    for path in paths:
        _sync(path)
        directories.add(os.path.dirname(path))
    sync_directories(directories, root)


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
        _sync(directory)
    with _lock:
        _linked.update(todo)


def forget(directory: str) -> None:
    """A directory was removed; when its name comes back it is new again."""
    with _lock:
        _linked.difference_update(
            [known for known in _linked if known == directory or known.startswith(f"{directory}/")]
        )


def _sync(path: str) -> None:
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
            files += [f"{table_uri}/data/{file.path}", *_blobs_of(f"{table_uri}/data/{file.path}")]
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
