"""Every file below a graph with its size and age, from listings alone: no file is opened, however many there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import obstore

from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.objects.object_store import Location, open_store


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the store lists it.

    Attributes:
        path: below the root.
        size: in bytes.
        modified: when it was written, by the clock of the store, in seconds since the epoch.
    """

    path: str
    size: int
    modified: float


def file_sizes(location: Location) -> Iterator[tuple[str, int]]:
    """Path below the root, and size in bytes, of each file. What others add or remove meanwhile may be in it or not."""
    return ((file.path, file.size) for file in listed_files(location))


def listed_files(location: Location, below: str = "") -> Iterator[ListedFile]:
    """Each file of a graph, or below a directory of it; see `file_sizes`."""
    with store_errors(f"list {location.uri}"):
        if location.is_local:
            yield from _local(location.uri, below)
        else:
            for page in obstore.list(open_store(location), f"{below}/" if below else None):
                for entry in page:
                    yield ListedFile(entry["path"], int(entry["size"]), entry["last_modified"].timestamp())


def _local(root: str, below: str) -> Iterator[ListedFile]:
    waiting = [below]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(os.path.join(root, directory)) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed since its parent was listed
        for entry in found:
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
                continue
            try:
                seen = entry.stat(follow_symlinks=False)
                yield ListedFile(path, seen.st_size, seen.st_mtime)
            except FileNotFoundError:
                continue
