"""Brings the layout of an older graph to the current stamp: 1 → 2 → 3.

Each step does its work first and writes its stamp last, and can be repeated: a crash in between, or two processes at
once, end in the same state. Nothing else in the code looks at old stamps. Refusals happen in `manifest.stamp_of`.
"""

from __future__ import annotations

from omnigraph import failpoints, limits
from omnigraph.errors import CorruptGraph
from omnigraph.storage.metadata import manifest
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS, store_errors
from omnigraph.storage.tables.datasets import Tables
from omnigraph.storage.tables.lance_types import LanceTable

_LEGACY_RUN_PREFIX = "__run__"
_RACES = 8


def to_current(tables: Tables, handle: LanceTable, branch: str | None) -> LanceTable:
    """Migrate one branch of the manifest; returns its newest version. A current one comes back unchanged."""
    with store_errors("migrate the graph's layout"):
        for _ in range(_RACES):
            stamp = manifest.stamp_of(handle)
            if stamp == limits.INTERNAL_SCHEMA_VERSION:
                return handle
            try:
                if stamp == 1:
                    _mark_primary_key(handle)
                else:
                    _drop_run_branches(tables)
                failpoints.reach("migrate.between_work_and_stamp")
                handle = tables.newest(manifest.PATH, branch)
                if manifest.stamp_of(handle) == stamp:
                    handle.update_schema_metadata({manifest.STAMP.decode(): str(stamp + 1)})
                    tables.sync_newest(manifest.PATH, branch)
            except READ_EXCEPTIONS:
                if manifest.stamp_of(tables.newest(manifest.PATH, branch)) == stamp and not _raced(
                    tables, branch, handle
                ):
                    raise
            handle = tables.newest(manifest.PATH, branch)
        raise CorruptGraph("the migration of the graph's layout did not settle")


def _raced(tables: Tables, branch: str | None, handle: LanceTable) -> bool:
    """Whether another process wrote the manifest since this attempt began; then the attempt is worth repeating."""
    return bool(tables.newest(manifest.PATH, branch).version != handle.version)


def _mark_primary_key(handle: LanceTable) -> None:
    key = manifest.PRIMARY_KEY
    marked = [field.name for field in handle.schema if key in (field.metadata or {})]
    if marked == ["object_id"]:
        return
    if marked:
        raise CorruptGraph(f"the manifest marks {marked} as its primary key, not object_id")
    handle.update_field_metadata({"object_id": {key.decode(): "true"}})


def _drop_run_branches(tables: Tables) -> None:
    for name in tables.branches(manifest.PATH):
        if name.lstrip("/").startswith(_LEGACY_RUN_PREFIX):
            tables.drop_branch(manifest.PATH, name)
