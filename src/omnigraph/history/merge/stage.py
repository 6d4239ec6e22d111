"""From a computed merge to staged tables: one transaction per table on the target's lineage."""

from __future__ import annotations

from omnigraph.history.merge.compute import Computed
from omnigraph.storage.commit.prepared import Merged, Prepared, PreparedTable
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.stage import stage_change
from omnigraph.write.commit import found_rows, side_by_side
from omnigraph.write.sets import Resolved


def stage(workspace: Workspace, computed: Computed) -> Prepared:
    """Write the files of a merge. Rows that it does not change are not touched, so they keep their versions."""

    def stage_one(change: Resolved) -> tuple[str, PreparedTable] | None:
        key = change.type.table_key
        pin, handle = workspace.writable(key)
        rows = change.rows.select(handle.schema.names)
        staged = stage_change(handle, pin.row_count, rows, found_rows(change.replaced), found_rows(change.removed))
        # Not `reads_rows`: when the target moves, the whole merge is computed again on what it became.
        return (key, PreparedTable(pin, handle, staged, reads_rows=False)) if staged is not None else None

    moving = [change for key, change in computed.changes.items() if key not in computed.pointers]
    tables = side_by_side(stage_one, moving)
    return Prepared(
        tables=dict(table for table in tables if table is not None),
        pointers=computed.pointers,
        merged=Merged(computed.source.head, computed.missing),
    )
