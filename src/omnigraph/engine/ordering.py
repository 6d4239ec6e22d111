"""The order of rows by values. It is total: nulls first ascending and last descending, ties by the keys that follow.

The order by search scores is `ranking.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.position_deltas import Positions


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A sort key; ``fetch`` gives its values for some row numbers, so that only contenders are looked at."""

    fetch: Callable[[Positions], pa.Array]
    descending: bool = False


def sorted_rows(keys: list[SortColumn], length: int) -> Positions:
    """All row numbers in order. Rows that are equal in every key stay in the order of their numbers."""
    rows = np.arange(length)
    return rows[_sort_indices(keys, rows)] if keys else rows


def first_rows(keys: list[SortColumn], length: int, count: int) -> Positions:
    """The first ``count`` of `sorted_rows`, by selection: only they are sorted.

    Each key is fetched for the rows that the keys before it leave tied at the cut, so later keys are looked at for few
    rows, mostly for none.
    """
    tied = np.arange(length)
    certain: list[Positions] = []
    wanted = count
    for key in keys:
        if len(tied) <= wanted or wanted == 0:
            break
        before, equal = _around_cut(key.fetch(tied), wanted, key.descending)
        certain.append(tied[before])
        wanted -= len(certain[-1])
        tied = tied[equal]
    chosen = np.sort(np.concatenate([*certain, tied[:wanted]]))
    return chosen[_sort_indices(keys, chosen)]


def _sort_indices(keys: list[SortColumn], rows: Positions) -> Positions:
    table = pa.table([key.fetch(rows) for key in keys], names=[str(number) for number in range(len(keys))])
    sort_keys = [(str(n), "descending" if k.descending else "ascending", _nulls(k)) for n, k in enumerate(keys)]
    return np.asarray(pc.sort_indices(table, sort_keys=sort_keys), np.int64)


def _nulls(key: SortColumn) -> str:
    return "at_end" if key.descending else "at_start"


def _around_cut(column: pa.Array, count: int, descending: bool) -> tuple[Positions, Positions]:
    """Rows before the value that stands at place ``count`` of the order, and rows that have this value.

    Nulls are on the outside, numbers that are none between them and the values, as Arrow sorts them.
    """
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
    values = _comparable_values(column.filter(pa.array(~missing)) if missing.any() else column)
    odd = np.zeros(len(column), np.bool_)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        odd[~missing] = np.isnan(values)
        values = values[~np.isnan(values)]
    plain = ~(missing | odd)
    classes = [plain, odd, missing] if descending else [missing, odd, plain]
    before = np.zeros(len(column), np.bool_)
    for rows in classes:
        here = int(rows.sum())
        if count > here:
            before |= rows
            count -= here
            continue
        if rows is not plain:
            return np.flatnonzero(before), np.flatnonzero(rows)
        places = np.flatnonzero(plain)
        sooner, equal = _split_values(values, count, descending)
        return np.sort(np.concatenate([np.flatnonzero(before), places[sooner]])), places[equal]
    return np.flatnonzero(before), np.zeros(0, np.int64)


def _comparable_values(column: pa.Array) -> Any:
    """Numbers as a NumPy array; texts stay an Arrow array."""
    if pa.types.is_date64(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column if is_text else np.asarray(column.to_numpy(zero_copy_only=False))


def _split_values(values: Any, count: int, descending: bool) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which values stand before the one at place ``count``, and which equal it. No nulls."""
    if isinstance(values, np.ndarray):
        place = len(values) - count if descending else count - 1
        cut = np.partition(values, place)[place]
        return (values > cut if descending else values < cut), values == cut
    order = [("", "descending" if descending else "ascending")]
    cut = values[pc.select_k_unstable(values, count, sort_keys=order)[-1].as_py()]
    sooner = (pc.greater if descending else pc.less)(values, cut)
    return _flags(sooner), _flags(pc.equal(values, cut))


def _flags(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
