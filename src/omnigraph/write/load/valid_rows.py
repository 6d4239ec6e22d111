"""Rows of one type as they were read → valid rows with their lines, and those that break a rule about one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.write.row_rules import split_valid

LINE = "#line"  # no property can be called so


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
    lines = rows.column(LINE)
    good, bad = split_valid(type_, rows.drop_columns([LINE]), most, convert)
    batches = [
        RowBatch(part.rows.append_column(LINE, lines.take(part.positions)), part.fresh_ids)
        for part in good
        if part.rows.num_rows
    ]
    return batches, [BadRow(each.position, lines[each.position].as_py(), each.error) for each in bad]
