"""Who does the heavy part of upkeep: files of fragments that are joined, and segments of indexes.

A piece of work names a version of a table and gives back metadata, so it can run in this process or on Spark
(`spark/upkeep_tasks.py`). Nothing that it writes is visible before a commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.tables.compaction import RewrittenGroup, rewrite_group
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.table_indexes import BuiltSegment, IndexWork, build_segment


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Fragments of a table that become one, or few."""

    table: TableVersion
    fragments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """A segment of an index that is to be built.

    Attributes:
        table: where its fragments are: a version, or a draft of the one that follows.
        version: the version whose rows these are.
    """

    table: TableVersion
    version: int
    work: IndexWork


#: What the history calls the commit of a cleanup. It moves the head of every branch before the first file goes.
_CLEANUP = "cleanup"


def is_kept(store: GraphStore, planned: ManifestSnapshot, now: ManifestSnapshot) -> bool:
    """Whether files that were staged for one state of a branch are certain to be there when a later one is followed: no
    cleanup came between, which may remove what no state names. A publish on the later state fails if one comes now."""
    if planned.identity != now.identity:
        return False
    start = store.head_id(planned)
    if store.head_id(now) == start:
        return True
    for commit in commit_log.history(store.tables, now):
        if commit.id == start:
            return True
        if commit.kind == _CLEANUP:
            return False
    return False


class UpkeepEngine(Protocol):
    """Does pieces of work; answers in their order."""

    @property
    def name(self) -> str:
        """What the engine is called where one is asked for."""

    @property
    def segment_rows(self) -> int | None:
        """An index of more rows than this is built as several segments at once; None builds one."""

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewrittenGroup]: ...

    def build(self, tasks: Sequence[SegmentTask]) -> list[BuiltSegment]: ...


#: The engine for work on so many rows.
UpkeepEngines = Callable[[GraphStore, int], UpkeepEngine]


class EmbeddedUpkeep:
    """Works in this process. One processor is left to whoever writes and reads meanwhile."""

    name = "embedded"
    segment_rows = None

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._threads = max(1, min(4, (os.cpu_count() or 1) - 1))

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewrittenGroup]:
        tables = self._opened(task.table for task in tasks)
        with ThreadPoolExecutor(self._threads) as threads:
            return list(threads.map(lambda task: rewrite_group(tables[task.table], task.fragments), tasks))

    def build(self, tasks: Sequence[SegmentTask]) -> list[BuiltSegment]:
        tables = self._opened(task.table for task in tasks)

        def built(task: SegmentTask) -> BuiltSegment:
            shared = tables[task.table]
            handle = shared.checkout_version(shared.version)  # building blocks a handle
            return build_segment(handle, task.work, task.version)

        with ThreadPoolExecutor(self._threads) as threads:
            return list(threads.map(built, tasks))

    def _opened(self, versions: Iterable[TableVersion]) -> dict[TableVersion, LanceTable]:
        """Handles of their own, so that readers wait for none of this."""
        return {version: self._store.tables.fresh(version) for version in set(versions)}


def embedded(store: GraphStore, rows: int) -> UpkeepEngine:
    """Work in this process, however many rows there are."""
    return EmbeddedUpkeep(store)
