"""Total order of rows: nulls first ascending and last descending, ties by what comes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.adjacency import Positions


@dataclass(frozen=True, slots=True)
class Key:
    """A sort key; ``fetch`` gives its values for some row numbers, so that only contenders are looked at."""

    fetch: Callable[[Positions], pa.Array]
    descending: bool = False


def sorted_rows(keys: list[Key], length: int, top: int | None = None) -> Positions:
    """Row numbers in order; only the first ``top`` if that is known to be enough."""
    if not keys:
        rows = np.arange(length)
        return rows if top is None else rows[:top]
    chosen = np.arange(length)
    if top is not None and top < length:
        chosen = _contenders(keys[0], chosen, top)
    table = pa.table([key.fetch(chosen) for key in keys], names=[str(number) for number in range(len(keys))])
    order = np.asarray(pc.sort_indices(table, sort_keys=[_way(n, key) for n, key in enumerate(keys)]), np.int64)
    return chosen[order if top is None else order[:top]]


def _way(number: int, key: Key) -> tuple[str, str, str]:
    return (str(number), "descending", "at_end") if key.descending else (str(number), "ascending", "at_start")


def _contenders(key: Key, rows: Positions, top: int) -> Positions:
    """Rows that may be among the first, by the first key alone; all of them when that cannot be told cheaply."""
    column = key.fetch(rows)
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not number or column.null_count or top == 0:
        return rows
    found = np.asarray(column.to_numpy(zero_copy_only=False))
    if key.descending:
        return np.asarray(rows[found >= np.partition(found, len(found) - top)[len(found) - top]])
    return np.asarray(rows[found <= np.partition(found, top - 1)[top - 1]])
