"""The order of rows by values. It is total: nulls first ascending and last descending, ties by the keys that follow.

The order by search scores is `ranking.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.pieces import slices
from omnigraph.engine.position_deltas import Positions
from omnigraph.read_budget import PIECE_ROWS, UNBOUNDED, ReadBudget

Flags: TypeAlias = npt.NDArray[np.bool_]

#: More rows than this are put in order in parts when somebody may stop it.
_LONG = 2 * PIECE_ROWS

#: A part of so many rows times this is better put in order as a whole than selected from every part.
_SELECTED_SHARE = 4

#: Rows that a value near the middle is looked for in.
_SAMPLE = 1_000


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A sort key; ``fetch`` gives its values for some row numbers, so that only contenders are looked at."""

    fetch: Callable[[Positions], pa.Array]
    descending: bool = False


def sorted_rows(keys: list[SortColumn], length: int, budget: ReadBudget = UNBOUNDED) -> Positions:
    """All row numbers in order. Rows that are equal in every key stay in the order of their numbers."""
    rows = np.arange(length)
    if not keys:
        return rows
    if budget.can_stop and length > _LONG:
        return np.concatenate(list(_sorted_parts(keys, rows, budget)))
    return rows[_sort_indices(keys, rows)]


def first_rows(keys: list[SortColumn], length: int, count: int, budget: ReadBudget = UNBOUNDED) -> Positions:
    """The first ``count`` of `sorted_rows`, by selection: only they are sorted."""
    rows = np.arange(length)
    if budget.can_stop and length > _LONG:
        if count * _SELECTED_SHARE > _LONG:
            return sorted_rows(keys, length, budget)[:count]
        chosen = []
        for piece in slices(length, _LONG):
            budget.check()
            chosen.append(_first(keys, rows[piece], count))
        rows = np.sort(np.concatenate(chosen))
    return _first(keys, rows, count)


def _first(keys: list[SortColumn], tied: Positions, count: int) -> Positions:
    """The first of some rows, which ascend.

    Each key is fetched for the rows that the keys before it leave tied at the cut, so later keys are looked at for few
    rows, mostly for none.
    """
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


def _sorted_parts(keys: list[SortColumn], rows: Positions, budget: ReadBudget) -> Iterator[Positions]:
    """Rows in order, a part at a time: what stands before a value near the middle, what equals it, what follows."""
    budget.check()
    if len(rows) <= _LONG or not keys:
        yield rows[_sort_indices(keys, rows)] if keys else rows
        return
    key = keys[0]
    sample = rows[:: max(1, len(rows) // _SAMPLE)]
    middle = sample[_sort_indices([key], sample)[len(sample) // 2]]
    pivot = key.fetch(np.array([middle]))[0]
    parts: tuple[list[Positions], list[Positions], list[Positions]] = ([], [], [])
    for piece in slices(len(rows)):
        budget.check()
        here = rows[piece]
        before, equal = _against(key.fetch(here), pivot, key.descending)
        for part, chosen in zip(parts, (before, equal, ~(before | equal)), strict=True):
            part.append(here[chosen])
    sooner, same, later = (np.concatenate(part) for part in parts)
    yield from _sorted_parts(keys, sooner, budget)
    yield from _sorted_parts(keys[1:], same, budget)
    yield from _sorted_parts(keys, later, budget)


def _against(column: pa.Array, pivot: pa.Scalar, descending: bool) -> tuple[Flags, Flags]:
    """Which values stand before one of them, and which stand where it does."""
    if pa.types.is_date(column.type):
        whole = pa.int64() if pa.types.is_date64(column.type) else pa.int32()
        column, pivot = column.view(whole), pa.array([pivot]).view(whole)[0]
    missing = _flags(column.is_null())
    odd = _flags(pc.is_nan(column).fill_null(False)) if pa.types.is_floating(column.type) else np.zeros_like(missing)
    plain = ~(missing | odd)
    classes = [plain, odd, missing] if descending else [missing, odd, plain]
    if not pivot.is_valid:
        own = missing
    elif pa.types.is_floating(column.type) and np.isnan(pivot.as_py()):
        own = odd
    else:
        own = plain
    before = np.zeros(len(column), np.bool_)
    for rows in classes:
        if rows is own:
            break
        before |= rows
    if own is not plain:
        return before, own
    sooner = (pc.greater if descending else pc.less)(column, pivot).fill_null(False)
    return before | _flags(sooner), _flags(pc.equal(column, pivot).fill_null(False))


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


def _split_values(values: Any, count: int, descending: bool) -> tuple[Flags, Flags]:
    """Which values stand before the one at place ``count``, and which equal it. No nulls."""
    if isinstance(values, np.ndarray):
        place = len(values) - count if descending else count - 1
        cut = np.partition(values, place)[place]
        return (values > cut if descending else values < cut), values == cut
    order = [("", "descending" if descending else "ascending")]
    cut = values[pc.select_k_unstable(values, count, sort_keys=order)[-1].as_py()]
    sooner = (pc.greater if descending else pc.less)(values, cut)
    return _flags(sooner), _flags(pc.equal(values, cut))


def _flags(column: pa.Array) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
