"""Rows of one type as they were read → valid rows with their lines, and those that break a rule about one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.write.load.stored_matches import StoredMatches
from omnigraph.write.row_rules import split_valid

LINE = "#line"  # no property can be called so


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of a load are read.

    Attributes:
        most: stop looking after about this many bad rows.
        rounds: times finer than a millisecond are rounded; otherwise they are refused.
        stored: rows that those of a merge may mean; None when none has to be looked up.
    """

    most: int = limits.LOAD_COUNTED_VIOLATIONS
    rounds: bool = False
    stored: StoredMatches | None = None

    @property
    def keeps(self) -> bool:
        """Whether a row may leave out what a stored row says."""
        return self.stored is not None and self.stored.keeps

    def optional(self, type_: NodeType | EdgeType) -> list[str]:
        """Properties for which it matters whether a row leaves them out or says that they are null."""
        return [name for name, prop in type_.properties.items() if self.keeps or prop.default is not None]


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Valid rows of one type in the schema of their table, and behind them where they came from.

    Attributes:
        rows: the columns of the table, then ``#line``: physical line, or number of the row from 1 (CSV too).
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
    type_: NodeType | EdgeType,
    rows: pa.Table,
    reading: Reading,
    convert: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> tuple[list[RowBatch], list[BadRow]]:
    """Split rows (columns of the type and ``#line``) into valid batches and at most so many bad rows, in order.

    Args:
        convert: brings columns nearer to their stored types before the rules see them; may refuse, like a rule.
    """
    lines = rows.column(LINE)
    stored = reading.stored

    def completed(some: pa.Table) -> pa.Table:
        some = convert(some)
        return some if stored is None else stored.complete(type_, some)

    good, bad = split_valid(type_, rows.drop_columns([LINE]), reading.most, completed)
    batches = [
        RowBatch(part.rows.append_column(LINE, lines.take(part.positions)), part.fresh_ids)
        for part in good
        if part.rows.num_rows
    ]
    return batches, [BadRow(each.position, lines[each.position].as_py(), each.error) for each in bad]
