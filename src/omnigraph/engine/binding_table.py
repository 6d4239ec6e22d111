"""A table of bindings: one column of row positions per variable, -1 where an optional variable has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from omnigraph.engine.pieces import buckets, slices, stacked
from omnigraph.engine.position_deltas import Positions
from omnigraph.query.typed import Variable
from omnigraph.read_budget import PIECE_ROWS, UNBOUNDED, ReadBudget

#: More bindings than this are looked at in parts when somebody may stop it.
_LONG = 8 * PIECE_ROWS


@dataclass(frozen=True, slots=True)
class BindingTable:
    """Columns of equal length.

    Attributes:
        length: number of bindings, also when there is no column.
        columns: positions by variable name.
        outer: bindings of the surrounding block; ``rows`` says which of them each binding extends.
    """

    length: int
    columns: dict[str, Positions] = field(default_factory=dict)
    outer: BindingTable | None = None
    rows: Positions | None = None

    def of(self, variable: Variable) -> Positions:
        """Positions of a variable of this block or a surrounding one."""
        found = self.columns.get(variable.name)
        if found is not None:
            return found
        if self.outer is None or self.rows is None:
            raise KeyError(variable.name)
        return self.outer.of(variable)[self.rows]

    def has(self, variable: Variable) -> bool:
        return variable.name in self.columns or (self.outer is not None and self.outer.has(variable))

    def take(self, rows: Positions | npt.NDArray[np.bool_]) -> BindingTable:
        """Some bindings, by row numbers or by a mask."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        length = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)
        return BindingTable(length, columns, self.outer, self.rows[rows] if self.rows is not None else None)

    def kept(self, mask: npt.NDArray[np.bool_], budget: ReadBudget) -> BindingTable:
        """The bindings with a true flag."""
        if not budget.can_stop or self.length <= _LONG:
            return self.take(mask)
        parts = []
        for piece in slices(self.length, _LONG):
            budget.check()
            parts.append(self.part(piece).take(mask[piece]))
        return BindingTable.stacked(parts, budget.check)

    def extended(self, rows: Positions, **columns: Positions) -> BindingTable:
        """Each binding once per entry of ``rows``, with new columns beside."""
        base = self.take(rows)
        return BindingTable(base.length, {**base.columns, **columns}, base.outer, base.rows)

    def bind(self, variable: Variable, rows: Positions, positions: Positions) -> BindingTable:
        base = self.take(rows)
        return BindingTable(base.length, {**base.columns, variable.name: positions}, base.outer, base.rows)

    def part(self, piece: slice) -> BindingTable:
        """Some consecutive bindings; nothing is copied."""
        columns = {name: column[piece] for name, column in self.columns.items()}
        rows = self.rows[piece] if self.rows is not None else None
        return BindingTable(len(range(self.length)[piece]), columns, self.outer, rows)

    @property
    def width(self) -> int:
        """Bytes of one binding."""
        return 8 * (len(self.columns) + (self.rows is not None))

    @staticmethod
    def stacked(parts: list[BindingTable], check: Callable[[], None]) -> BindingTable:
        """Tables of the same columns and outer bindings as one. The parts are used up."""
        if len(parts) == 1:
            return parts[0]
        length, first = sum(part.length for part in parts), parts[0]
        columns = {name: stacked([part.columns.pop(name) for part in parts], check) for name in list(first.columns)}
        rows = None if first.rows is None else stacked([part.rows for part in parts if part.rows is not None], check)
        return BindingTable(length, columns, first.outer, rows)

    def distinct(self, names: list[str], *, in_order: bool = False, budget: ReadBudget = UNBOUNDED) -> BindingTable:
        """Only these columns, equal bindings once. Which outer binding they extend counts as a column.

        Args:
            in_order: each stands where the first of its equals did; else anywhere.
        """
        keys = [self.columns[name] for name in names]
        if self.rows is not None:
            keys.append(self.rows)
        if not keys:
            return BindingTable(min(self.length, 1))
        first = np.sort(_first_of_each(keys, budget)) if in_order else _first_of_each(keys, budget)
        columns = {name: self.columns[name][first] for name in names}
        return BindingTable(len(first), columns, self.outer, self.rows[first] if self.rows is not None else None)


def _first_of_each(keys: list[Positions], budget: ReadBudget) -> Positions:
    """Row numbers of the first occurrence of every combination."""
    if len(keys) > 1 and len(keys[0]) > _LONG and budget.can_stop:
        return np.concatenate([rows[_first([key[rows] for key in keys])] for rows in buckets(keys[0], budget)])
    return _first(keys)


def _first(keys: list[Positions]) -> Positions:
    if len(keys) == 1:
        column = keys[0]
        top = int(column.max()) + 1 if len(column) else 0
        if top <= 4 * len(column) + 1024 and (len(column) == 0 or column.min() >= 0):
            seen = np.full(top, -1, np.int64)
            seen[column[::-1]] = np.arange(len(column) - 1, -1, -1)
            return seen[seen >= 0]
        return np.unique(column, return_index=True)[1]
    order = np.lexsort(keys)
    differs = np.zeros(len(order), np.bool_)
    differs[:1] = True
    for key in keys:
        ordered = key[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    return order[differs]
