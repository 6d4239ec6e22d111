"""Long work in pieces, between which a budget is asked. Plain arrays; knows nothing of types or tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph.engine.position_deltas import Positions
from omnigraph.read_budget import PIECE_ROWS, ReadBudget

_T = TypeVar("_T")


def slices(length: int, most: int | None = None) -> Iterator[slice]:
    """A range in parts of bounded length."""
    most = most or PIECE_ROWS
    for begin in range(0, length, most):
        yield slice(begin, min(begin + most, length))


def cuts(counts: Positions, within: Positions | None = None) -> Iterator[slice]:
    """Rows in parts that give few entries together, or are one row each.

    Args:
        counts: the entries of each row.
        within: ascending labels; rows with one label stay together.
    """
    ends = np.cumsum(counts + 1)
    begin = 0
    while begin < len(counts):
        before = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, before + PIECE_ROWS, side="right")), begin + 1)
        if within is not None and end < len(counts):
            whole = int(np.searchsorted(within, within[end]))
            end = whole if whole > begin else int(np.searchsorted(within, within[begin], side="right"))
        yield slice(begin, end)
        begin = end


def stacked(parts: list[npt.NDArray[Any]], check: Callable[[], None]) -> npt.NDArray[Any]:
    """Arrays one after the other. The list is emptied, so that they can be let go."""
    if len(parts) == 1:
        return parts.pop()
    found = np.empty(sum(map(len, parts)), parts[0].dtype)
    end = len(found)
    while parts:
        part = parts.pop()
        found[end - len(part) : end] = part
        end -= len(part)
        check()
    return found


def finished(work: Generator[None, None, _T], check: Callable[[], None] = lambda: None) -> _T:
    """The outcome of work that pauses now and then; ``check`` is called in every pause."""
    while True:
        check()
        try:
            next(work)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def buckets(column: Positions, budget: ReadBudget) -> Iterator[Positions]:
    """Row numbers in groups of bounded size by ascending values; each value is in one group, ascending inside a value.

    Args:
        column: numbers, none of them below -1 or far above their count.
    """
    sizes = np.bincount(column + 1)
    budget.check()
    group = (np.cumsum(sizes) // (4 * PIECE_ROWS)).astype(np.uint16 if len(column) < PIECE_ROWS << 17 else np.int64)
    of = np.empty(len(column), group.dtype)
    for piece in slices(len(column)):
        of[piece] = group[column[piece] + 1]
        budget.check()
    order = np.argsort(of, kind="stable")
    ends = np.cumsum(np.bincount(of))
    begin = 0
    for end in ends.tolist():
        budget.check()
        if end > begin:
            yield order[begin:end]
        begin = end


def different_rows(columns: list[Positions], budget: ReadBudget) -> tuple[list[Positions], Positions]:
    """The different rows of some columns of positions, ascending, and which of them each row is."""
    widths = [int(column.max(initial=-1)) + 2 for column in columns]
    if math.prod(widths) >= 1 << 62:
        unique, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return [unique[:, number] for number in range(len(columns))], inverse.reshape(-1)
    keys = columns[0] + 1
    for column, width in zip(columns[1:], widths[1:], strict=True):
        keys = keys * width + (column + 1)
    if not budget.can_stop or len(keys) <= 4 * PIECE_ROWS:
        found, inverse = np.unique(keys, return_inverse=True)
        inverse = inverse.reshape(-1)
    else:
        parts, inverse, first = [], np.empty(len(keys), np.int64), 0
        for rows in buckets(columns[0], budget):
            part, of = np.unique(keys[rows], return_inverse=True)
            inverse[rows] = of.reshape(-1) + first
            first += len(part)
            parts.append(part)
        found = np.concatenate(parts)
    unique_columns = []
    for width in reversed(widths[1:]):
        found, rest = np.divmod(found, width)
        unique_columns.append(rest - 1)
    return [found - 1, *reversed(unique_columns)], inverse
