"""Keeps `_graph_commits.lance` and `_graph_commit_actors.lance` in step for readers that know only those.

The manifest is the truth; the mirrors are copies that follow a moment later, off the writer's path, and anyone who
finds a gap fills it. They are never read where the manifest has commit rows, and a failure here fails no write.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments

from omnigraph import failpoints, ids, limits
from omnigraph.errors import OmniGraphError, RowLevelCasContention
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.objects.locks import CONTROL, Sections
from omnigraph.storage.objects.native_libraries import (
    READ_EXCEPTIONS,
    CommitConflictError,
    is_forked,
    panics_as_damage,
    raise_interrupt,
    return_memory,
)
from omnigraph.storage.tables.datasets import DATA_STORAGE_VERSION, Tables, TableVersion, as_dataset
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.small_fragments import small_fragments

COMMITS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)
ACTORS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)

_RACES = 32

#: A copy that fails is left to the next commit.
_COPY_FAILURES: tuple[type[Exception], ...] = (OmniGraphError, *READ_EXCEPTIONS)

#: A copy waits so long for further commits, unless somebody waits for it: then commits that follow each other closely
#: are copied together, and a merge right after the write that it merges does not compete with the copy of that write.
_GATHER_SECONDS = 0.1

#: After so many commits the process gives back memory that it does not use; what a commit needs comes and goes.
_RETURN_MEMORY_COMMITS = 250


@dataclass(frozen=True, slots=True)
class _News:
    """A commit that is to be copied, and the state it made."""

    snapshot: ManifestSnapshot
    commit: Commit


@dataclass(frozen=True, slots=True)
class _Copied:
    """How far the mirrors follow a branch, and the version of the first one that holds exactly this."""

    last: str
    commits: LanceTable


class Mirror:
    """Follows the commits of one graph in a thread of its own, which starts with the first commit."""

    def __init__(self, tables: Tables, sections: Sections, is_current: Callable[[ManifestSnapshot], bool]) -> None:
        self._tables = tables
        self._sections = sections
        self._is_current = is_current
        self._news: queue.SimpleQueue[_News | threading.Event | None] = queue.SimpleQueue()
        self._copied: dict[str, _Copied] = {}
        self._actors: LanceTable | None = None
        self._followed = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._copying = threading.Lock()

    def note(self, snapshot: ManifestSnapshot, commit: Commit) -> None:
        """A branch has a new head; the copy follows soon."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="omnigraph-mirror", daemon=True)
                self._thread.start()
                atexit.register(self.stop)  # a thread inside the storage library must not outlive the interpreter
        self._news.put(_News(snapshot, commit))

    def forget(self) -> None:
        """Somebody made the mirrors anew: compare everything with the next commit. Call it inside `held`."""
        self._copied.clear()
        self._actors = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is copied inside the block, so that a branch that goes takes its copy along. Take it before any
        section: a copy may need one."""
        with self._copying:
            yield

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything noted so far is copied."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._news.put(done)
        return done.wait(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """Copy what is left and end the thread; after a fork there is none."""
        if is_forked():
            return
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._news.put(None)
            thread.join(timeout)
            atexit.unregister(self.stop)

    def _follow(self) -> None:
        while True:
            items = self._gathered()
            branches: dict[str, list[_News]] = defaultdict(list)
            for item in items:
                if isinstance(item, _News):
                    branches[item.snapshot.branch].append(item)
            for branch, news in branches.items():
                self._copy(branch, news)
            self._followed += len(items)
            if self._followed >= _RETURN_MEMORY_COMMITS:
                self._followed = 0
                return_memory()
            for item in items:
                if isinstance(item, threading.Event):
                    item.set()
            if None in items:
                return

    def _gathered(self) -> list[_News | threading.Event | None]:
        """What is to be done next; ends with the first who waits for it."""
        items = [self._news.get()]
        deadline = time.monotonic() + _GATHER_SECONDS
        while isinstance(items[-1], _News):
            try:
                items.append(self._news.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                break
        return items

    def _copy(self, branch: str, news: list[_News]) -> None:
        """Copy commits of a branch that is still the one they were made on; a name may have been given anew."""
        with self._copying:
            try:
                with panics_as_damage():
                    self._copy_current(branch, news)
            except _COPY_FAILURES:
                self._copied.pop(branch, None)  # the next commit compares everything

    def _copy_current(self, branch: str, news: list[_News]) -> None:
        newest = news[-1].snapshot
        if not self._is_current(newest):
            return
        current = [item for item in news if item.snapshot.identity == newest.identity]
        if current and not self._extend(newest, [item.commit for item in current]):
            self._copied.pop(branch, None)
            copied = catch_up(self._tables, current[-1].snapshot, self._sections)
            if copied:
                self._copied[branch], self._actors = _Copied(current[-1].commit.id, copied[0]), copied[1]

    def _extend(self, newest: ManifestSnapshot, commits: list[Commit]) -> bool:
        """Append just the new commits, if nobody else touched the mirrors since this thread left them.

        An append to a mirror that moved is refused by the store, so nobody need look first. But a mirror's branch may
        have been removed and made again; a branch is looked at.
        """
        branch = newest.branch
        known = self._copied.get(branch)
        chain = [known.last if known else None, *(commit.id for commit in commits)]
        if known is None or any(commit.parent != parent for commit, parent in zip(commits, chain, strict=False)):
            return False
        mirrored = known.commits if branch == ids.MAIN else self._tables.newest(COMMITS_PATH, newest.lineage)
        if mirrored.version != known.commits.version:
            return False
        try:
            copied = append_strictly(mirrored, commit_rows(commits))
            named = actor_rows(commits)
            if named.num_rows:
                actors = self._actors if self._actors is not None else self._tables.newest(ACTORS_PATH)
                self._actors = append_strictly(actors, named)
        except CommitConflictError:
            return False
        self._copied[branch] = _Copied(commits[-1].id, copied)
        return True


def catch_up(tables: Tables, snapshot: ManifestSnapshot, sections: Sections) -> tuple[LanceTable, LanceTable] | None:
    """Copy what the mirrors lack of one branch.

    Returns:
        The two mirrors at the versions that hold exactly this, or None: the store did not let us, and the next commit
        tries again, or another process was here with newer commits. Its copy of a commit is in the first mirror before
        it is in the second, so knowing the first exactly is enough.
    """
    try:
        with panics_as_damage():
            # A reader of the mirrors takes the highest version for the head.
            wanted = commit_log.own_commits(tables, snapshot)
            failpoints.reach("graph_publish.before_commit_append")
            _make_mirror(tables, snapshot.lineage, sections)
            commits, exactly = _append_missing(tables, COMMITS_PATH, snapshot.lineage, commit_rows(wanted))
            failpoints.reach("graph_publish.between_commit_and_actor")
            actors, _ = _append_missing(tables, ACTORS_PATH, None, actor_rows(wanted))
            return (commits, actors) if exactly else None
    except _COPY_FAILURES as error:
        raise_interrupt(error)
        return None


def follows(tables: Tables, snapshot: ManifestSnapshot) -> bool:
    """Whether the mirrors hold the newest commit of a branch, and so all before it. Costs the same at any depth.

    Mirrors that cannot be read do not: they are copies, and nobody fails because of them.
    """
    try:
        with panics_as_damage():
            return _follows(tables, snapshot)
    except _COPY_FAILURES:
        return False


def _follows(tables: Tables, snapshot: ManifestSnapshot) -> bool:
    head = snapshot.head
    if head is None or head.version != snapshot.version:
        return False
    commit = commit_log.newest_commit(snapshot)
    mirrored = tables.newest_or_none(COMMITS_PATH, snapshot.lineage)
    if commit is None or mirrored is None or not _newest_holds(mirrored, commit.id):
        return False
    if commit.actor is None:
        return True
    actors = tables.newest_or_none(ACTORS_PATH)
    return actors is not None and _newest_holds(actors, commit.id)


def _newest_holds(handle: LanceTable, commit_id: str) -> bool:
    fragments = handle.get_fragments()
    if not fragments:
        return False
    newest = max(fragments, key=lambda fragment: fragment.fragment_id)
    column = handle.scanner(columns=["graph_commit_id"], fragments=[newest]).to_table().column(0)
    return commit_id in column.to_pylist()


def commit_rows(commits: list[Commit]) -> pa.Table:
    rows = [
        {
            "graph_commit_id": commit.id,
            "manifest_branch": None if commit.branch == ids.MAIN else commit.branch,
            "manifest_version": commit.version,
            "parent_commit_id": commit.parent,
            "merged_parent_commit_id": commit.merged_parent,
            "created_at": commit.created_at.replace(tzinfo=None),
        }
        for commit in sorted(commits, key=commit_log.lineage_order)
    ]
    return pa.Table.from_pylist(rows, schema=COMMITS_SCHEMA)


def actor_rows(commits: list[Commit]) -> pa.Table:
    rows = [
        {"graph_commit_id": commit.id, "actor_id": commit.actor, "created_at": commit.created_at.replace(tzinfo=None)}
        for commit in sorted(commits, key=commit_log.lineage_order)
        if commit.actor
    ]
    return pa.Table.from_pylist(rows, schema=ACTORS_SCHEMA)


def _make_mirror(tables: Tables, lineage: str | None, sections: Sections) -> None:
    """The mirror's branch for a branch of the graph: made on first use at the genesis row, where it misses nothing."""
    if lineage is None or tables.ref(COMMITS_PATH, lineage) is not None:
        return
    with sections.hold(CONTROL):
        if tables.ref(COMMITS_PATH, lineage) is None:
            if tables.is_local:
                tables.drop_branch(COMMITS_PATH, lineage)  # files of a fork that died before its ref
            tables.fork(TableVersion(COMMITS_PATH, None, 1), lineage)


def _append_missing(tables: Tables, path: str, branch: str | None, rows: pa.Table) -> tuple[LanceTable, bool]:
    """Append the rows whose commit the mirror lacks; returns the version that holds them all, and if it holds no other.

    Two processes may try at once: one append wins, the other looks again, so no commit is copied twice. A mirror that
    is not there begins with the first commit alone, because that is where its branches begin.
    """
    for _ in range(_RACES):
        handle = tables.newest_or_none(path, branch)
        if handle is None:
            handle = tables.write_new(path, rows.slice(0, 1))
        known = pa.array(handle.to_table(columns=["graph_commit_id"]).column(0).combine_chunks())
        missing = rows.filter(pc.invert(pc.is_in(rows.column("graph_commit_id"), value_set=known)))
        exactly = len(known) + missing.num_rows == rows.num_rows
        if missing.num_rows == 0:
            return handle, exactly
        try:
            return append_strictly(handle, missing), exactly
        except CommitConflictError:
            time.sleep(random.uniform(*limits.PUBLISH_BACKOFF_SECONDS))
    raise RowLevelCasContention(f"the copy of commits to {path} lost its race {_RACES} times")


def append_strictly(handle: LanceTable, rows: pa.Table) -> LanceTable:
    """Append rows unless the table moved since it was read; a plain append would be rebased silently.

    Small fragments are joined on the way. That is as strict: it conflicts with every append of this kind, and with
    whoever joins the same fragments, as everybody does who read the same version.
    """
    small = small_fragments(handle)
    if small:
        new = _write(handle, handle.scanner(fragments=small).to_table()) + _write(handle, rows)
        removed = sorted(fragment.fragment_id for fragment in small)
        operation: Any = lance.LanceOperation.Update(removed, updated_fragments=[], new_fragments=new)
    else:
        fragments = [fragment.metadata for fragment in handle.get_fragments()]
        operation = lance.LanceOperation.Merge(fragments + _write(handle, rows), handle.lance_schema)
    return lance.LanceDataset.commit(as_dataset(handle), operation, read_version=handle.version, max_retries=0)


def _write(handle: LanceTable, rows: pa.Table) -> list[Any]:
    return write_fragments(
        rows, as_dataset(handle), schema=handle.schema, mode="append", data_storage_version=DATA_STORAGE_VERSION
    )
