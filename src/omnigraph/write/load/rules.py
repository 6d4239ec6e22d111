"""Rows of one type → valid rows and violations. The rules themselves are in `write/rows.py`.

A rule looks at whole columns and names only the first bad row. Halving the rows until each part is wholly good or one
bad row gives every bad row its own error, at a cost that follows the bad rows and not the good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from omnigraph.errors import InternalError, OmniGraphError
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.write.rows import conform

LINE = "#line"  # no property can be called so

_Good = TypeVar("_Good")


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Valid rows of one type in the schema of their table, and behind them where they came from.

    Attributes:
        rows: the columns of the table, then ``#line``: physical line or row number, from 1.
        fresh_ids: every id was just made, so none can exist.
    """

    rows: pa.Table
    fresh_ids: bool


@dataclass(frozen=True, slots=True)
class BadRow:
    position: int
    line: int
    error: OmniGraphError


def valid_rows(
    type_: NodeType | EdgeType, rows: pa.Table, most: int, convert: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> tuple[list[RowBatch], list[BadRow]]:
    """Split rows (columns of the type and ``#line``) into valid batches and at most ``most`` bad rows, in order.

    Args:
        convert: brings columns nearer to their stored types before the rules see them; may refuse, like a rule.
    """
    bad: list[BadRow] = []

    def attempt(start: int, count: int) -> RowBatch:
        part = rows.slice(start, count)
        conformed = conform(type_, convert(part.drop_columns([LINE])))
        return RowBatch(conformed.rows.append_column(LINE, part.column(LINE)), conformed.fresh_ids)

    def refuse(position: int, error: OmniGraphError) -> None:
        bad.append(BadRow(position, rows.column(LINE)[position].as_py(), error))

    good = list(halved(rows.num_rows, attempt, refuse, lambda: len(bad) >= most))
    return good, bad


def halved(
    count: int,
    attempt: Callable[[int, int], _Good],
    refuse: Callable[[int, OmniGraphError], None],
    enough: Callable[[], bool],
) -> Iterator[_Good]:
    """Attempt ranges of positions, largest first; what fails as a single one is refused. In order of position."""
    waiting = [(0, count)] if count else []
    while waiting and not enough():
        start, size = waiting.pop()
        try:
            yield attempt(start, size)
        except InternalError:
            raise
        except OmniGraphError as error:
            if size == 1:
                refuse(start, error)
            else:
                half = size // 2
                waiting += [(start + half, size - half), (start, half)]
