"""Candidates from the files of two states (D2).

Parts of a table whose data files and deletions are the same on both sides hold the same rows, on whatever branch they
are. Where only the deletions differ, the difference of the two sets of live places names the rows, and nothing else is
read. Parts that one side has alone are candidates as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.storage.delta.candidates import ID, Candidates, Rows, no_rows, rows_of
from omnigraph.storage.delta.live import State, moved_rows
from omnigraph.storage.faults import store_errors
from omnigraph.storage.images import RowIds, existing_rows
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
    with store_errors("compare two versions of a table"):
        old, new = _shapes(before), _shapes(after)
    before_only = [number for number, shape in old.items() if number not in new or new[number].files != shape.files]
    after_only = [number for number, shape in new.items() if number not in old or old[number].files != shape.files]
    alone = set(before_only)
    thinned = [
        number for number, shape in old.items() if number not in alone and new[number].deletions != shape.deletions
    ]
    rows = sum(old[number].rows for number in before_only) + sum(new[number].rows for number in after_only)
    return FragmentPlan(tuple(before_only), tuple(after_only), tuple(thinned), rows)


def candidates(before: State, after: State, plan_: FragmentPlan) -> Candidates:
    """Every row that the plan cannot rule out."""
    with store_errors("compare two versions of a table"):
        lost, regained = moved_rows(before, after, plan_.thinned)
        return Candidates(
            _joined(_scanned(before.handle, plan_.before_only), rows_by_row_id(before.handle, lost)),
            _joined(_scanned(after.handle, plan_.after_only), rows_by_row_id(after.handle, regained)),
        )


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


def _scanned(handle: Handle, fragments: tuple[int, ...]) -> Rows:
    if not fragments:
        return no_rows()
    chosen = [handle.get_fragment(number) for number in fragments]
    return rows_of(handle.scanner(columns=[ID], fragments=chosen, with_row_id=True).to_table())


def _joined(one: Rows, other: Rows) -> Rows:
    return Rows(pa.concat_arrays([one.ids, other.ids]), np.concatenate([one.row_ids, other.row_ids]))
