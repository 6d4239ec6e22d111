"""Candidates from the files of two states (D2).

Parts of a table whose data files and deletions are the same on both sides hold the same rows, on whatever branch they
are. Where only the deletions differ, the difference of the two sets of live places names the rows, and nothing else is
read. Parts that one side has alone are candidates as a whole.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.storage.delta.candidates import ID, Candidates, Rows, no_rows, rows_of
from omnigraph.storage.delta.columns import Matched, Side
from omnigraph.storage.delta.live import Moved, State, addresses_in, moved_places
from omnigraph.storage.faults import store_errors
from omnigraph.storage.images import RowIds, existing_rows, rows_at_addresses
from omnigraph.storage.tables import Handle


@dataclass(frozen=True, slots=True)
class FragmentPlan:
    """What the metadata of two states says, before any row is read.

    Attributes:
        before_only, after_only: fragments that the other side does not have.
        thinned: fragments with the same files and other deletions.
        rewritten_rows: rows of the fragments that one side has alone.
    """

    before_only: tuple[int, ...]
    after_only: tuple[int, ...]
    thinned: tuple[int, ...]
    rewritten_rows: int


def plan(before: Handle, after: Handle) -> FragmentPlan:
    """Compare the fragment lists of two states of one dataset."""
    with store_errors("compare two versions of a table", before, after):
        old, new = _shapes(before), _shapes(after)
    before_only = [number for number, shape in old.items() if number not in new or new[number].files != shape.files]
    after_only = [number for number, shape in new.items() if number not in old or old[number].files != shape.files]
    alone = set(before_only)
    thinned = [
        number for number, shape in old.items() if number not in alone and new[number].deletions != shape.deletions
    ]
    rows = sum(old[number].rows for number in before_only) + sum(new[number].rows for number in after_only)
    return FragmentPlan(tuple(before_only), tuple(after_only), tuple(thinned), rows)


def candidates(before: State, after: State, matched: Matched, plan_: FragmentPlan) -> Candidates:
    """Every row that the plan cannot rule out. The two sides are read at the same time."""
    handles = before.handle, after.handle
    with store_errors("compare two versions of a table", *handles), ThreadPoolExecutor(1) as beside:
        lost, regained = moved_places(before, after, plan_.thinned)
        old = beside.submit(_found, matched.before, plan_.before_only, lost)
        new = _found(matched.after, plan_.after_only, regained)
        return Candidates(old.result(), new)


def _found(side: Side, fragments: tuple[int, ...], moved: Moved) -> Rows:
    """Rows of whole fragments and rows at some places. Few of them are read completely and kept: what they hold is
    asked for next, and most of the way to a row is finding it."""
    whole = [side.handle.get_fragment(number) for number in fragments]
    count = sum(fragment.metadata.physical_rows for fragment in whole) + len(moved)
    if count == 0:
        return no_rows()
    if side.would_keep(count, _row_bytes(side.handle)):
        table = _complete(side, whole, moved)
        side.keep(table)
        return rows_of(table)
    parts = [existing_rows(side.handle, moved.row_ids, [ID])] if len(moved) else []
    if whole:
        parts.append(side.handle.scanner(columns=[ID], fragments=whole, with_row_id=True).to_table())
    return rows_of(pa.concat_tables(parts))


def _complete(side: Side, whole: list[Any], moved: Moved) -> pa.Table:
    """All columns of few rows, row ids and addresses in one read."""
    columns = list(side.columns)
    if not len(moved):
        scanner = side.handle.scanner(columns=columns, fragments=whole, with_row_id=True, with_row_address=True)
        return scanner.to_table()
    every = [addresses_in(fragment.fragment_id, fragment.metadata.physical_rows) for fragment in whole]
    return rows_at_addresses(side.handle, np.concatenate([moved.addresses, *every]), columns)


def _row_bytes(handle: Handle) -> float:
    """What a row takes on the disk, on average."""
    pieces = [fragment.metadata for fragment in handle.get_fragments()]
    size = sum(file.file_size_bytes or 0 for piece in pieces for file in piece.files)
    return float(size / max(1, sum(piece.physical_rows for piece in pieces)))


def rows_by_row_id(handle: Handle, row_ids: RowIds) -> Rows:
    """Those of the row ids that exist, with their ids."""
    if len(row_ids) == 0:
        return no_rows()
    return rows_of(existing_rows(handle, row_ids, [ID]))


@dataclass(frozen=True, slots=True)
class _Shape:
    files: tuple[str, ...]
    deletions: tuple[Any, ...] | None
    rows: int


def _shapes(handle: Handle) -> dict[int, _Shape]:
    shapes = {}
    for fragment in handle.get_fragments():
        meta = fragment.metadata
        deletion = meta.deletion_file
        shapes[fragment.fragment_id] = _Shape(
            tuple(file._path for file in meta.files),  # `path` makes a new class at each look, 0.1 ms
            (deletion.read_version, deletion.id, deletion.num_deleted_rows) if deletion else None,
            meta.physical_rows,
        )
    return shapes
