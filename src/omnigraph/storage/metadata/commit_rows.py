"""The commit rows of a manifest, each read once per process.

A commit row never changes and is never deleted from its file, and branches share the files of what they have in
common. So what a file holds is kept under the file's name, and the next look at any branch reads only new files.
Every publish writes its own file, so whoever goes back in time from a head reads the newest files first, and stops.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import CorruptGraph
from omnigraph.lru import LruCache
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.filters import equals, one_of
from omnigraph.storage.tables.lance_types import LanceTable

#: How many commits of histories a process keeps in memory; they are read again when there are more. About 1 kB each;
#: larger ones count for more.
_KNOWN_COMMITS = 100_000


class _CommitCache:
    """Commits by the name of the data file that holds them. These names are unique in the world. Ids are not: a caller
    may give the same one to a write in another graph, or on another branch."""

    def __init__(self) -> None:
        most = _KNOWN_COMMITS
        self._files: LruCache[str, Mapping[str, Commit]] = LruCache(
            max_size=most, size_of=lambda held: sum(map(_size, held.values())) + 1
        )
        self._commits: LruCache[tuple[str, str], Commit] = LruCache(max_size=most, size_of=_size)

    def of_file(self, file: str) -> Mapping[str, Commit] | None:
        """All commits of a file; None when nobody read all of it."""
        return self._files.get(file)

    def commit(self, file: str, commit_id: str) -> Commit | None:
        """A commit of a file, of which perhaps only a part was read."""
        held = self._files.get(file)
        return held.get(commit_id) if held is not None else self._commits.get((file, commit_id))

    def put(self, file: str, commits: Mapping[str, Commit]) -> None:
        self._files.put(file, dict(commits))
        if self._files.get(file) is None:  # too many for one entry
            self.put_some(file, commits)

    def put_some(self, file: str, commits: Mapping[str, Commit]) -> None:
        """Commits of a file that has more of them."""
        for commit_id, commit in commits.items():
            self._commits.put((file, commit_id), commit)


def _size(commit: Commit) -> int:
    """About how many kB a commit takes; one that touched many types or has a long message counts for several."""
    return 1 + len(commit.note.get("rows", ())) // 3 + len(commit.note.get("message", "")) // 1_000


_kept = _CommitCache()


def keep_newest(handle: LanceTable, rows: pa.Table) -> None:
    """Take the commits of the newest fragment from somebody who has all its rows of the past. Damaged ones are left to
    whoever needs them."""
    newest = max(handle.get_fragments(), key=lambda fragment: fragment.fragment_id)
    if _kept.of_file(_file(newest)) is None:
        with contextlib.suppress(CorruptGraph):
            _kept.put(_file(newest), _commits(rows))


def recorded_commits(handle: LanceTable) -> dict[str, Commit]:
    """Commits that an open manifest has rows of, by id: of its branch, and of branches merged into it."""
    found: dict[str, Commit] = {}
    unread = []
    for fragment in handle.get_fragments():
        commits = _kept.of_file(_file(fragment))
        if commits is None:
            unread.append(fragment)
        else:
            found |= commits
    return found | _read(handle, unread)


def kept_commit(handle: LanceTable, commit_id: str) -> Commit | None:
    """A commit that an open manifest has a row of, if that was read before."""
    files = (_kept.of_file(_file(fragment)) or {} for fragment in handle.get_fragments())
    return next((commits[commit_id] for commits in files if commit_id in commits), None)


def known_among(handle: LanceTable, ids: Set[str]) -> set[str]:
    """Those of some commit ids that an open manifest has rows of."""
    found: set[str] = set()
    unread = []
    for fragment in handle.get_fragments():
        commits = _kept.of_file(_file(fragment))
        if commits is None:
            unread.append(fragment)
        else:
            found |= ids & commits.keys()
    if unread and found != ids:
        named = one_of("object_id", pa.array(sorted(ids), pa.string())).expression
        with store_errors("read the history", handle):
            rows = handle.scanner(columns=["object_id"], filter=named, fragments=unread).to_table()
        found.update(rows.column("object_id").to_pylist())
    return found


def first_parents(handle: LanceTable, commit_id: str) -> Iterator[Commit]:
    """A commit and its first parents, newest first, as far as an open manifest has rows of them.

    Reads rows as they are asked for: what is new since somebody read last, then hardly more than it takes. Ends where a
    damaged row leads back into the chain; `verify` says so.
    """
    find = finder(handle)
    seen: set[str] = set()
    wanted: str | None = commit_id
    while wanted is not None and wanted not in seen:
        commit = find(wanted)
        if commit is None:
            return
        seen.add(wanted)
        yield commit
        wanted = commit.parent


def finder(handle: LanceTable) -> Callable[[str], Commit | None]:
    """Finds commits of an open manifest by id, for ids that one of its rows names. Reads as far back as it takes, so
    whoever asks for new ones first reads little."""
    rows = _Backwards(handle)
    newest_first = sorted(handle.get_fragments(), key=lambda fragment: -fragment.fragment_id)
    files = [_file(fragment) for fragment in newest_first]

    def find(commit_id: str) -> Commit | None:
        for place, file in enumerate(files):
            found = _kept.commit(file, commit_id)
            if found is not None:
                files.insert(0, files.pop(place))  # its parent is most likely there too
                return found
        return rows.find(commit_id)

    return find


def first_recorded(handle: LanceTable) -> Commit | None:
    """The oldest commit that an open manifest has a row of: files are in the order of time, and so are their rows."""
    oldest = min(handle.get_fragments(), key=lambda fragment: fragment.fragment_id, default=None)
    if oldest is None:
        return None
    kept = _kept.of_file(_file(oldest))
    if kept is not None:
        return next(iter(kept.values()), None)
    is_commit = equals("object_type", manifest.GRAPH_COMMIT)
    scanner = handle.scanner(columns=manifest.COLUMNS, filter=is_commit, fragments=[oldest], limit=1)
    with store_errors("read the history", handle):
        rows = scanner.to_table()
    return next(map(manifest.commit_of, rows.to_pylist()), None)


class _Backwards:
    """The commit rows of an open manifest, from the newest to the oldest, a few and then ever more at a time."""

    def __init__(self, handle: LanceTable) -> None:
        self._handle = handle
        self._left = sorted(handle.get_fragments(), key=lambda fragment: fragment.fragment_id)  # the newest is last
        self._found: dict[str, Commit] = {}
        self._rows = limits.COMMIT_ROWS_AT_A_TIME
        self._below: int | None = None  # of the newest fragment that is left, rows from here on were read

    def find(self, commit_id: str) -> Commit | None:
        while commit_id not in self._found and self._left:
            self._found |= self._more()
        return self._found.get(commit_id)

    def _more(self) -> Mapping[str, Commit]:
        newest = self._left[-1]
        kept = _kept.of_file(_file(newest))
        if kept is not None:
            self._left.pop()
            self._below = None
            return kept
        rows, self._rows = self._rows, self._rows * 2
        if self._below is not None or _live_rows(newest) > rows:
            return self._end_of(newest, rows)
        several = []
        while self._left and _kept.of_file(_file(self._left[-1])) is None and _live_rows(self._left[-1]) <= rows:
            several.append(self._left.pop())
            rows -= _live_rows(several[-1])
        return _read(self._handle, several)

    def _end_of(self, fragment: Any, rows: int) -> dict[str, Commit]:
        """The last rows of a large fragment that were not read yet: the newest ones, like those of a whole table."""
        stop = self._below if self._below is not None else _live_rows(fragment)
        self._below = max(0, stop - rows)
        scanner = self._handle.scanner(
            columns=manifest.COLUMNS, fragments=[fragment], offset=self._below, limit=stop - self._below
        )
        with store_errors("read the history", self._handle):
            rows_read = scanner.to_table()
        commits = _commits(rows_read)
        _kept.put_some(_file(fragment), commits)
        if self._below == 0:
            self._left.pop()
            self._below = None
        return commits


def _read(handle: LanceTable, fragments: list[Any]) -> dict[str, Commit]:
    """The commits of whole fragments; they are kept."""
    if not fragments:
        return {}
    is_commit = equals("object_type", manifest.GRAPH_COMMIT)
    scanner = handle.scanner(columns=manifest.COLUMNS, filter=is_commit, fragments=fragments, with_row_address=True)
    by_fragment: dict[int, dict[str, Commit]] = defaultdict(dict)
    with store_errors("read the history", handle):
        rows = scanner.to_table()
    for row in rows.to_pylist():
        by_fragment[row["_rowaddr"] >> 32][row["object_id"]] = manifest.commit_of(row)
    for fragment in fragments:
        _kept.put(_file(fragment), by_fragment[fragment.fragment_id])
    return {id_: commit for commits in by_fragment.values() for id_, commit in commits.items()}


def _commits(rows: pa.Table) -> dict[str, Commit]:
    is_commit = pc.equal(rows.column("object_type"), manifest.GRAPH_COMMIT)
    return {row["object_id"]: manifest.commit_of(row) for row in rows.filter(is_commit).to_pylist()}


def _file(fragment: Any) -> str:
    file: str = fragment.metadata.files[0]._path  # `path` makes a new class at each look
    return file


def _live_rows(fragment: Any) -> int:
    deletions = fragment.metadata.deletion_file
    return int(fragment.metadata.physical_rows) - (deletions.num_deleted_rows if deletions else 0)
