"""Rules about the staged rows of one type together, and the table change that they become. No cluster is needed.

Only ids, endpoints and unique columns are read back. A row that replaces a stored one keeps its row id, which one
fragment can say of all its rows or of none; a staged fragment that mixes them is written again as two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.spark.loading.staged import StagedFragment, Staging
from omnigraph.storage.commit.preparation import PreparedTable, Workspace
from omnigraph.storage.tables.datasets import Handle
from omnigraph.storage.tables.task_staging import (
    StageTable,
    read_staged,
    read_whole,
    staged_overwrite,
    staged_replacement,
    with_row_ids,
    write_rows,
)
from omnigraph.write.change import Change, Mode, type_of
from omnigraph.write.resolved import Resolved, resolve
from omnigraph.write.set_rules import single_rows
from omnigraph.write.stage_changes import check_sets

_PLACE = "#place"  # no property can be called so


@dataclass(frozen=True, slots=True)
class Made:
    """A table change, and the fragments that it shows."""

    table: PreparedTable
    fragments: list[str]


def prepared_table(
    workspace: Workspace,
    catalog: Catalog,
    key: str,
    mode: Mode,
    table: StageTable,
    staging: Staging,
    written: list[str],
) -> Made | None:
    """Check the staged rows against the state and each other; None when nothing changes.

    Args:
        written: everything that was staged; what is written here is added.
    """
    type_ = type_of(catalog, key)
    staged = staging.fragments.get(key, [])
    rows = _keys(type_, table, staged)
    change = Change(key, rows, mode, conformed=True, fresh_ids=key in staging.fresh)
    single = rows if change.fresh_ids else single_rows(type_, change.mode, rows)
    resolved = resolve(workspace, type_, change, single, change.fresh_ids)
    check_sets(workspace, catalog, {key: resolved})
    before = workspace.snapshot.pins[key].row_count
    if single.num_rows == 0 and (mode is not Mode.OVERWRITE or before == 0):
        return None
    pin, handle = workspace.writable(key)
    parts = [_part(handle, table, each, resolved, first, written) for each, first in _placed(staged)]
    fragments = [text for part in parts for text in part]
    after = single.num_rows if mode is Mode.OVERWRITE else pin.row_count + single.num_rows - resolved.replaced.num_rows
    if mode is Mode.OVERWRITE:
        operation = staged_overwrite(handle, fragments, after)
    else:
        gone = np.asarray(resolved.replaced.column("_rowaddr").to_numpy(), np.uint64)
        operation = staged_replacement(table, handle, fragments, gone, after)
    return Made(PreparedTable(pin, handle, operation, reads_rows=mode is Mode.OVERWRITE), fragments)


def _keys(type_: NodeType | EdgeType, table: StageTable, staged: list[StagedFragment]) -> pa.Table:
    """What the rules need of the staged rows, with their place among all of them."""
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    names = list(dict.fromkeys(["id", *ends, *(name for columns in type_.uniques for name in columns)]))
    parts = [read_staged(table, each.text, names) for each in staged]
    if not parts:
        handle = table.open()
        parts = [pa.schema([handle.schema.field(name) for name in names]).empty_table()]
    rows = pa.concat_tables(parts).combine_chunks()
    return rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))


def _placed(staged: list[StagedFragment]) -> list[tuple[StagedFragment, int]]:
    firsts = np.cumsum([0, *(each.rows for each in staged)]).tolist()
    return list(zip(staged, firsts[:-1], strict=True))


def _part(
    handle: Handle, table: StageTable, fragment: StagedFragment, resolved: Resolved, first: int, written: list[str]
) -> list[str]:
    """A staged fragment as the change shows it: as it is, with row ids, or written again without some rows."""
    places = np.asarray(resolved.rows.column(_PLACE).to_numpy(), np.int64)
    mine = resolved.rows.filter(pa.array((places >= first) & (places < first + fragment.rows)))
    rows = np.asarray(mine.column(_PLACE).to_numpy(), np.int64) - first
    found = pc.index_in(mine.column("id"), value_set=resolved.replaced.column("id").combine_chunks())
    replaces = np.asarray(pc.is_valid(found).combine_chunks().to_numpy(zero_copy_only=False), bool)
    if len(rows) == fragment.rows and not replaces.any():
        return [fragment.text]
    row_ids = _row_ids(resolved, found.drop_null())
    if len(rows) == fragment.rows and replaces.all():
        return [with_row_ids(fragment.text, row_ids)]
    whole = read_whole(table, handle, fragment.text)
    updates = write_rows(table, handle, whole.take(pa.array(rows[replaces]))) if replaces.any() else []
    inserts = write_rows(table, handle, whole.take(pa.array(rows[~replaces]))) if not replaces.all() else []
    written += [*updates, *inserts]
    return [*(with_row_ids(each, row_ids) for each in updates), *inserts]


def _row_ids(resolved: Resolved, positions: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    known = np.asarray(resolved.replaced.column("_rowid").to_numpy(), np.uint64)
    return known[np.asarray(positions.to_numpy(), np.int64)]
