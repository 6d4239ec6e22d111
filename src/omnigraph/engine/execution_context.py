"""One run of one query: the snapshot, the parameters, the instant, what was searched, and what each step did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import ids
from omnigraph.engine.fetch_values import fetch_values
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.table_rows import TableRows
from omnigraph.errors import InputError
from omnigraph.query.plan.logical_plan import Step, TopK
from omnigraph.query.typed import (
    Constant,
    Distance,
    Entity,
    KeyId,
    Now,
    ParamRef,
    PropertyRef,
    Rank,
    TextMatch,
    TextVector,
    Variable,
)
from omnigraph.read_budget import PIECE_ROWS, UNBOUNDED, ReadBudget
from omnigraph.schema.arrow import id_text

if TYPE_CHECKING:
    from omnigraph.engine.search.text_index import TextHits
    from omnigraph.engine.search.text_search import TextSearch

#: What a query knows before it runs.
Given: TypeAlias = ParamRef | Constant | Now | KeyId | TextVector


@dataclass(slots=True)
class ExecutionTrace:
    """What each step did, for `explain(run=True)`: the step, the rows that it gave, the seconds that it took.

    Attributes:
        said: what the step that runs has to say about how it found its rows.
        notes: what finished steps said, by the identity of the step.
    """

    steps: list[tuple[Step | TopK, int, float]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    notes: dict[int, str] = field(default_factory=dict)

    def finished(self, step: Step | TopK, rows: int, seconds: float) -> None:
        self.steps.append((step, rows, seconds))
        if self.said:
            self.notes[id(step)] = ", ".join(self.said)
            self.said.clear()


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """One run of one query: its snapshot, parameters, instant and bounds, and who wants to know what it did."""

    view: GraphView
    params: Mapping[str, Any]
    now: datetime
    trace: ExecutionTrace | None = None
    budget: ReadBudget = UNBOUNDED
    searches: dict[tuple[str, str], TextSearch] = field(default_factory=dict)
    ranking: dict[Rank, Any] = field(default_factory=dict)  # the best rows of the ranked variable, once they are known

    def rows(self, variable: Variable) -> TableRows:
        if variable.entity is Entity.NODE:
            return self.view.nodes(variable.type_name)
        return self.view.edges(variable.type_name)

    def fetch(self, variable: Variable, name: str, positions: Positions) -> pa.Array:
        """A property of the rows at some positions; null where the position is negative."""
        if len(positions) <= PIECE_ROWS and self.budget.max_bytes is None:
            return self.rows(variable).values(name, positions)
        return fetch_values(self.rows(variable), name, positions, self.budget)

    def value(self, operand: Given) -> Any:
        return given_value(operand, self.params, self.now)

    def texts(self, field: PropertyRef) -> TextSearch:
        """The search in a column of texts."""
        key = (field.variable.type_name, field.property)
        found = self.searches.get(key)
        if found is None:
            from omnigraph.engine.search.text_search import TextSearch

            rows = self.rows(field.variable)
            index = self.view.text_index(*key)
            found = TextSearch(
                index, lambda positions: self.fetch(field.variable, field.property, positions), len(rows), self.budget
            )
            self.searches[key] = found
        return found

    def found(self, test: TextMatch) -> TextHits | None:
        """All rows that a text condition is true for; None when it is unknown for every row."""
        query = self.value(test.query)
        return None if query is None else self.texts(test.field).matching(test.function, query, self.edits(test))

    def vector(self, score: Distance) -> npt.NDArray[np.float32]:
        """The vector that distances are measured from."""
        return np.asarray(self.value(score.query), np.float32)

    def edits(self, test: TextMatch) -> int | None:
        return None if test.max_edits is None else self.value(test.max_edits)

    def note(self, text: str) -> None:
        """Say how rows were found, for whoever explains the query."""
        if self.trace is not None:
            self.trace.said.append(text)


def given_value(operand: Given, params: Mapping[str, Any], now: datetime) -> Any:
    """A constant in the form that Arrow compares: instants are milliseconds, dates are dates."""
    match operand:
        case Now():
            return _plain(now)
        case ParamRef():
            return _plain(params[operand.name])
        case Constant():
            return _plain(operand.value)
        case TextVector():
            return params[operand.key]
        case KeyId():
            found = given_value(operand.value, params, now)
            if isinstance(found, tuple):
                return tuple(id_text(each, operand.key) for each in found)
            return None if found is None else id_text(found, operand.key)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return ids.micros(value) // 1_000
    if isinstance(value, tuple):
        is_plain = bool(value) and isinstance(value[0], float)  # the parts of a list or vector are all of one kind
        return value if is_plain else tuple(_plain(part) for part in value)
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise InputError("a value expects Unicode text, got a lone surrogate")
    return value
