"""Carries out the plan of a cleanup. Version files go first, so that whoever misses a file finds its version gone.

The files behind them are written down before, because nobody could find them by their versions any more: a cleanup that
is killed leaves the list, and the next one removes what is on it. Their names are never used again, so a list is right
whenever somebody comes back to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from omnigraph import failpoints, ids
from omnigraph.errors import CorruptGraph, StorageError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest, reclaimed
from omnigraph.storage.objects.file_sizes import ListedFile
from omnigraph.upkeep.cleanup.removal_plan import RemovalPlan, TableRemoval

#: Where the lists are.
DIRECTORY = f"{reclaimed.DIRECTORY}/doomed"

#: Files between two failpoints.
_BATCH = 1_000


def remove(store: GraphStore, plan: RemovalPlan) -> dict[str, str]:
    """Remove what a plan says. Returns what went wrong, by location; the other tables are cleaned all the same."""
    list_name = _write_list(store, plan)
    failpoints.reach("cleanup.after_list")
    errors: dict[str, str] = {}
    ordered = sorted(plan.tables, key=lambda table: table.location != manifest.PATH)  # states before their tables
    for step in (_versions, _files):
        for table in (table for table in ordered if table.location not in errors):
            try:
                step(store, table)
            except StorageError as error:
                errors[table.location] = error.message
    _delete(store, [*plan.legacy, *plan.topologies])
    store.tables.forget_open()
    failpoints.reach("cleanup.before_list_removed")
    if list_name is not None and not errors:
        store.objects.delete(list_name)
    return errors


def finish_lists(store: GraphStore) -> None:
    """Remove what cleanups before this one left, which were killed."""
    for name in store.objects.names(DIRECTORY):
        content = store.objects.read(f"{DIRECTORY}/{name}")
        if content is None:
            continue
        try:
            paths = [str(path) for path in json.loads(content)["files"]]
        except (ValueError, KeyError, TypeError):
            raise CorruptGraph(
                f"{DIRECTORY}/{name} is unreadable", hint="remove it; the files that it named stay", file=name
            ) from None
        store.objects.delete_all(paths)
        store.objects.delete(f"{DIRECTORY}/{name}")


def _write_list(store: GraphStore, plan: RemovalPlan) -> str | None:
    paths = [file.path for table in plan.tables for file in table.files]
    if not paths:
        return None
    name = f"{DIRECTORY}/{ids.new_ulid()}.json"
    store.objects.write(name, json.dumps({"files": paths}).encode())
    return name


def _versions(store: GraphStore, table: TableRemoval) -> None:
    for directory in sorted({file.path.rpartition("/_versions/")[0] for file in table.versions}):
        store.tables.note_newest(directory)
    _delete(store, table.versions)
    for lineage, files in table.forks.items():
        store.tables.drop_ref(table.location, lineage)
        _delete(store, (file for file in files if "/_versions/" in file.path))
    if table.whole:
        store.tables.mark_removed(table.location)
        _delete(store, (file for file in table.whole if "/_versions/" in file.path))


def _files(store: GraphStore, table: TableRemoval) -> None:
    _delete(store, [*table.files, *table.unfinished])
    _delete(store, (file for files in table.forks.values() for file in files))
    _delete(store, table.whole)
    emptied = [f"{table.location}/tree/{lineage}" for lineage in table.forks]
    for directory in emptied + ([table.location] if table.whole else []):
        store.objects.remove_empty(directory)


def _delete(store: GraphStore, files: Iterable[ListedFile]) -> None:
    paths = [file.path for file in files]
    for first in range(0, len(paths), _BATCH):
        failpoints.reach("cleanup.between_files")
        store.objects.delete_all(paths[first : first + _BATCH])
