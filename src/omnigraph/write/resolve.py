"""Finds the stored rows that a change touches: those it replaces and those that go."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import TypeNotFound
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.stage import find_rows
from omnigraph.write.change import Change, Mode
from omnigraph.write.sets import Resolved


def resolve(
    workspace: Workspace, type_: NodeType | EdgeType, change: Change, rows: pa.Table, fresh_ids: bool
) -> Resolved:
    """A change with the stored rows it touches.

    Args:
        rows: final rows to put, each id once.
        fresh_ids: no stored row can have an id of ``rows``.
    """
    key = type_.table_key
    if key not in workspace.snapshot.pins:
        raise TypeNotFound(f"type '{type_.name}' does not exist on branch '{workspace.snapshot.branch}'")
    handle = workspace.readable(key)
    extra = ("src",) if isinstance(type_, EdgeType) else ()
    if change.put is not None and change.mode is Mode.OVERWRITE:
        everything = handle.scanner(columns=["id", *extra], with_row_id=True, with_row_address=True).to_table()
        return Resolved(type_, change, rows, everything.slice(0, 0), everything)
    ids = rows.column("id").combine_chunks()
    replaced = find_rows(handle, ids.slice(0, 0) if fresh_ids else ids, columns=extra)
    removed = replaced.slice(0, 0)
    if change.remove is not None:
        going = pc.unique(change.remove.cast(pa.string()))
        removed = find_rows(handle, going.filter(pc.invert(pc.is_in(going, value_set=ids))), columns=extra)
    return Resolved(type_, change, rows, replaced, removed)
