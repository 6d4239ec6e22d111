"""The commit rows of a manifest, each read once per process.

A commit row never changes and is never deleted from its file, and branches share the files of what they have in
common. So what a file holds is kept under the file's name, and the next look at any branch reads only new files.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from omnigraph import limits
from omnigraph.storage import manifest
from omnigraph.storage.filters import equals
from omnigraph.storage.manifest import Commit
from omnigraph.storage.tables import Handle


class _Kept:
    """Commits by the name of the data file that holds them. File names are unique in the world."""

    def __init__(self) -> None:
        self._files: dict[str, list[Commit]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def get(self, file: str) -> list[Commit] | None:
        return self._files.get(file)

    def put(self, file: str, commits: list[Commit]) -> None:
        with self._lock:
            if self._count > limits.KNOWN_COMMITS:
                self._files, self._count = {}, 0
            self._files[file] = commits
            self._count += len(commits) + 1


_kept = _Kept()


def recorded_commits(handle: Handle) -> dict[str, Commit]:
    """Commits that an open manifest has rows of, by id: of its branch, and of branches merged into it."""
    found: list[Commit] = []
    unread = {}
    for fragment in handle.get_fragments():
        file = fragment.metadata.files[0]._path  # `path` makes a new class at each look
        commits = _kept.get(file)
        if commits is None:
            unread[fragment.fragment_id] = (file, fragment)
        else:
            found += commits
    for fragment_id, commits in _read(handle, [fragment for _, fragment in unread.values()]).items():
        _kept.put(unread[fragment_id][0], commits)
        found += commits
    return {commit.id: commit for commit in found}


def _read(handle: Handle, fragments: list[Any]) -> dict[int, list[Commit]]:
    """Commits by fragment; a fragment without any is there too."""
    by_fragment: dict[int, list[Commit]] = defaultdict(list)
    if fragments:
        by_fragment.update({fragment.fragment_id: [] for fragment in fragments})
        is_commit = equals("object_type", manifest.GRAPH_COMMIT)
        scanner = handle.scanner(columns=manifest.COLUMNS, filter=is_commit, fragments=fragments, with_row_address=True)
        for row in scanner.to_table().to_pylist():
            by_fragment[row["_rowaddr"] >> 32].append(manifest.commit_of(row))
    return by_fragment
