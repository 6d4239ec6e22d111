"""Total order of rows: nulls first ascending and last descending, ties by what comes after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.adjacency import Positions


@dataclass(frozen=True, slots=True)
class Key:
    column: pa.Array
    descending: bool = False


def sorted_rows(keys: list[Key], length: int, top: int | None = None) -> Positions:
    """Row numbers in order; only the first ``top`` if that is known to be enough."""
    if not keys:
        rows = np.arange(length)
        return rows if top is None else rows[:top]
    chosen = _contenders(keys[0], top) if top is not None and top < length else None
    if chosen is not None:
        keys = [Key(key.column.take(pa.array(chosen)), key.descending) for key in keys]
    table = pa.table([key.column for key in keys], names=[str(number) for number in range(len(keys))])
    order = np.asarray(pc.sort_indices(table, sort_keys=[_way(n, key) for n, key in enumerate(keys)]), np.int64)
    order = order if top is None else order[:top]
    return order if chosen is None else chosen[order]


def _way(number: int, key: Key) -> tuple[str, str, str]:
    return (str(number), "descending", "at_end") if key.descending else (str(number), "ascending", "at_start")


def _contenders(key: Key, top: int) -> Positions | None:
    """Rows that may be among the first, by the first key alone; None when that cannot be told cheaply."""
    column = key.column
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not number or column.null_count or top == 0:
        return None
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    if key.descending:
        border = np.partition(values, len(values) - top)[len(values) - top]
        return np.flatnonzero(values >= border)
    border = np.partition(values, top - 1)[top - 1]
    return np.flatnonzero(values <= border)
