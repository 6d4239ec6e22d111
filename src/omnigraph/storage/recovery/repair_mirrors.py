"""Makes the copies of the commits tell what the manifest tells: on request, for every branch.

A writer copies its commits a moment after they are visible; one that was killed in between leaves a gap until the next
commit of its branch. Rows that are missing are appended. Copies that are told twice or differently, and those that
cannot be read, are written anew, but only where the manifest itself records every commit: what other software keeps in
the copies alone is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments

from omnigraph.errors import BranchNotFound, CorruptGraph, StorageError, StoreUnavailable
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, commit_mirror
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.objects.native_libraries import (
    READ_EXCEPTIONS,
    CommitConflictError,
    is_damage,
    panics_as_damage,
    reason,
    store_errors,
)
from omnigraph.storage.tables.datasets import DATA_STORAGE_VERSION, as_dataset
from omnigraph.storage.tables.lance_types import LanceTable

_ID = "graph_commit_id"
_FAILURES: tuple[type[Exception], ...] = (StorageError, *READ_EXCEPTIONS)


def mend_mirrors(store: GraphStore) -> int:
    """Put the copies of every branch in order; returns for how many branches that took a write.

    Raises:
        CorruptGraph: a copy cannot be read, and the manifest does not record every commit that it may hold.
    """
    damaged = unreadable_mirrors(store)
    if damaged:
        _make_room(store, damaged)
    mended = 0
    for snapshot in _snapshots(store):
        mended += _mend(store, snapshot)
    return mended


def unreadable_mirrors(store: GraphStore) -> list[tuple[str, str | None]]:
    """The copies that cannot be read, as path and Lance branch; a path without branch stands for all of it."""
    whole: list[tuple[str, str | None]] = [
        (path, None) for path in (COMMITS_PATH, ACTORS_PATH) if not _is_readable(store, path, None)
    ]
    if (COMMITS_PATH, None) in whole:
        return whole
    names = [ref.lineage for ref in store.branch_refs() if ref.lineage is not None]
    return [*whole, *((COMMITS_PATH, name) for name in names if not _is_readable(store, COMMITS_PATH, name))]


def _is_readable(store: GraphStore, path: str, branch: str | None) -> bool:
    """Whether a copy can be read as a whole, or is not there at all and can simply be made."""
    try:
        with panics_as_damage():
            handle = store.tables.newest_or_none(path, branch)
            if handle is not None:
                handle.to_table()
                return branch is not None or store.tables.branches(path) is not None
            ref = store.tables.ref(path, branch) if branch else None
            return ref is None and (branch is not None or not store.objects.any_below(path))
    except _FAILURES as error:
        if not is_damage(error):
            raise StoreUnavailable(f"could not read {path}: {reason(error)}") from error
        return False


def _make_room(store: GraphStore, damaged: list[tuple[str, str | None]]) -> None:
    """Remove copies that cannot be read. A writer that appends to one meanwhile leaves it damaged, nothing else."""
    with store.mirror.held(), store.sections.hold(CONTROL):
        if not all(commit_log.is_recorded(snapshot) for snapshot in _snapshots(store)):
            raise CorruptGraph(
                f"{damaged[0][0]} cannot be read, and some commits are recorded nowhere else",
                hint="restore its files from a backup",
            )
        for path, branch in damaged:
            if branch is None:
                store.tables.clear(path)
            else:
                store.tables.drop_branch(path, branch)
        store.mirror.forget()


def _snapshots(store: GraphStore) -> Iterator[ManifestSnapshot]:
    for ref in store.branch_refs():
        try:
            yield store.snapshot(ref.name)
        except BranchNotFound:
            continue  # deleted since it was listed


def _mend(store: GraphStore, snapshot: ManifestSnapshot) -> bool:
    """A copy that moves meanwhile is left to whoever moves it: that writer compares everything."""
    with store_errors(f"copy the commits of branch '{snapshot.branch}'"):
        wanted = commit_log.own_commits(store.tables, snapshot)
        if snapshot.head is None or all(commit.branch != snapshot.branch for commit in wanted):
            return False  # of other software, or without commits of its own
        commits, actors = commit_mirror.commit_rows(wanted), commit_mirror.actor_rows(wanted)
        before = _versions(store, snapshot)
        if wanted and {commit.id for commit in wanted} <= commit_log.recorded_commits(snapshot.handle).keys():
            _rewrite_if_wrong(store, COMMITS_PATH, snapshot.lineage, commits)
            _rewrite_if_wrong(store, ACTORS_PATH, None, actors)
        commit_mirror.catch_up(store.tables, snapshot, store.sections)
        return _versions(store, snapshot) != before


def _versions(store: GraphStore, snapshot: ManifestSnapshot) -> list[int]:
    found = (
        store.tables.newest_or_none(COMMITS_PATH, snapshot.lineage),
        store.tables.newest_or_none(ACTORS_PATH),
    )
    return [handle.version if handle is not None else 0 for handle in found]


def _rewrite_if_wrong(store: GraphStore, path: str, branch: str | None, wanted: pa.Table) -> None:
    """Rows of other branches, which the copy of the actors has, stay as they are."""
    handle = store.tables.newest_or_none(path, branch)
    if handle is None:
        return
    rows = handle.to_table().cast(wanted.schema)
    about_others = pc.invert(pc.is_in(rows.column(_ID), value_set=wanted.column(_ID).combine_chunks()))
    own = rows.filter(pc.invert(about_others))
    right = wanted.filter(pc.is_in(wanted.column(_ID), value_set=own.column(_ID).combine_chunks()))
    if own.sort_by(_ID).equals(right.sort_by(_ID)):
        return
    try:
        _replace_rows(handle, pa.concat_tables([rows.filter(about_others), wanted]))
    except CommitConflictError:
        return


def _replace_rows(handle: LanceTable, rows: pa.Table) -> None:
    """Replace the rows that were read; those that others added meanwhile are a conflict or stay, never lost."""
    new = write_fragments(
        rows, as_dataset(handle), schema=handle.schema, mode="append", data_storage_version=DATA_STORAGE_VERSION
    )
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[fragment.fragment_id for fragment in handle.get_fragments()],
        updated_fragments=[],
        new_fragments=new,
    )
    lance.LanceDataset.commit(as_dataset(handle), operation, read_version=handle.version, max_retries=0)
