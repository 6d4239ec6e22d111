"""Compacts the copies of the commits that a graph keeps for other software, and looks at its manifest.

The copies are read at their newest version, so nothing has to be published. The manifest is left to the publishes: each
one takes the rows of recent commits along, and joins old fragments once there are many; a version between two publishes
would make every reader fold the whole history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph import ids, limits
from omnigraph.errors import StorageError
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from omnigraph.storage.objects.native_libraries import CommitConflictError, store_errors
from omnigraph.storage.recovery import audit
from omnigraph.upkeep.optimize.optimize_report import OptimizedDataset

#: A copy of the commits is compacted when it has more than this many fragments; each commit adds one.
_COPY_FRAGMENTS = 8


def optimize_datasets(store: GraphStore, branches: Iterable[BranchRef]) -> Iterator[OptimizedDataset]:
    """Compact what belongs to some branches."""
    store.mirror.flush()
    for ref in branches:
        fragments = len(store.snapshot(ref.name).handle.get_fragments())
        yield OptimizedDataset(manifest.PATH, ref.name, fragments)
        paths = [COMMITS_PATH, *((ACTORS_PATH, audit.PATH) if ref.name == ids.MAIN else ())]
        for path in paths:
            found = _compacted(store, path, ref)
            if found is not None:
                yield found


def _compacted(store: GraphStore, path: str, ref: BranchRef) -> OptimizedDataset | None:
    """A copy, compacted in place; None when the branch has none. Whoever appends meanwhile is faster."""
    name = path.removesuffix(".lance")
    for _ in range(limits.PUBLISHER_RETRY_BUDGET):
        handle = store.tables.newest_or_none(path, ref.lineage)
        if handle is None:
            return None
        before = len(handle.get_fragments())
        if before <= _COPY_FRAGMENTS:
            return OptimizedDataset(name, ref.name, before)
        try:
            with store_errors(f"compact {path}"):
                done = handle.optimize.compact_files()
                store.tables.sync_newest(path, ref.lineage)
        except StorageError as error:
            if isinstance(error.__cause__, CommitConflictError):
                continue
            return OptimizedDataset(name, ref.name, before, error=error.message)
        removed, added = int(done.fragments_removed), int(done.fragments_added)
        return OptimizedDataset(name, ref.name, before - removed + added, removed, added)
    return OptimizedDataset(name, ref.name, before, error="it was written to each time")
