"""Values of a column for bindings: how large they will be is looked at before they are fetched, piece by piece."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.pieces import slices
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.table_rows import TableRows
from omnigraph.errors import ResourceLimitExceeded
from omnigraph.read_budget import ReadBudget

#: So few values of a column that is in memory are smaller than what it costs to sum up their sizes beforehand.
_FEW = 8

#: Arrow's own bound for the texts of one array, in bytes.
_TEXT_BYTES = 2**31 - 1


def fetch_values(rows: TableRows, name: str, positions: Positions, budget: ReadBudget) -> pa.Array:
    """A column at some positions; null where the position is negative.

    Raises:
        ResourceLimitExceeded: the values would take more memory than they may.
    """
    if rows.fetches_singly(name, positions) or (len(positions) <= _FEW and rows.has_column(name)):
        found = rows.values(name, positions)
        budget.hold(found.nbytes)
        return found
    column = rows.column(name, budget)
    size = _size_at(column, positions, budget)
    budget.hold(size)
    if pa.types.is_string(column.type) and size > _TEXT_BYTES:
        raise ResourceLimitExceeded("query_bytes", size, _TEXT_BYTES)
    parts = []
    for piece in slices(len(positions)):
        budget.check()
        parts.append(rows.values(name, positions[piece]))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else rows.values(name, positions)


def _size_at(column: pa.Array, positions: Positions, budget: ReadBudget) -> int:
    """Bytes of the values at some positions."""
    if len(column) == 0:
        return 0
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_list(kind):
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        each = column.values.nbytes / max(len(column.values), 1) if pa.types.is_list(kind) else 1
        return int(_sum_between(offsets, positions, budget) * each) + 4 * len(positions)
    return int(column.nbytes / len(column) * len(positions))


def _sum_between(offsets: npt.NDArray[np.int32], positions: Positions, budget: ReadBudget) -> int:
    total = 0
    for piece in slices(len(positions)):
        budget.check()
        here = positions[piece]
        here = here[here >= 0]
        total += int((offsets[here + 1] - offsets[here]).sum(dtype=np.int64))
    return total
