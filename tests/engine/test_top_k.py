"""Selecting the first rows gives exactly what sorting all of them gives, and looks at less."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.ordering import SortColumn, first_rows, sorted_rows
from omnigraph.engine.position_deltas import Positions

_DAYS = st.integers(-3, 3).map(lambda days: date(2024, 1, 1) + timedelta(days))

#: Few different values, so that ties are common.
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int32": (pa.int32(), st.integers(-2, 2)),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    "float32": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan")])),
    "float64": (pa.float64(), st.sampled_from([0.0, -0.0, 0.1, 1e300, float("inf"), float("nan")])),
    "string": (pa.string(), st.sampled_from(["", "a", "A", "ab", "é", "z", "\U0001f600"])),
    "bool": (pa.bool_(), st.booleans()),
    "date32": (pa.date32(), _DAYS),
    "date64": (pa.date64(), st.integers(-2, 2)),
    "null": (pa.null(), st.none()),
}


@st.composite
def _columns(draw: st.DrawFn) -> tuple[list[pa.Array], list[bool]]:
    length = draw(st.integers(0, 30))
    columns, descending = [], []
    for _ in range(draw(st.integers(1, 3))):
        type_, values = VALUES[draw(st.sampled_from(sorted(VALUES)))]
        drawn = draw(st.lists(st.none() | values, min_size=length, max_size=length))
        column = pa.array(drawn, pa.int64()).view(type_) if type_ == pa.date64() else pa.array(drawn, type_)
        columns.append(column)
        descending.append(draw(st.booleans()))
    return columns, descending


def _keys(columns: list[pa.Array], descending: list[bool], seen: list[int] | None = None) -> list[SortColumn]:
    def fetch(number: int) -> Callable[[Positions], pa.Array]:
        def of(rows: Positions) -> pa.Array:
            if seen is not None:
                seen[number] += len(rows)
            return columns[number].take(pa.array(rows))

        return of

    return [SortColumn(fetch(number), way) for number, way in enumerate(descending)]


@given(_columns(), st.data())
def test_the_first_rows_are_those_of_a_full_sort(drawn: tuple[list[pa.Array], list[bool]], data: st.DataObject) -> None:
    columns, descending = drawn
    length = len(columns[0])
    count = data.draw(st.integers(0, length))
    keys = _keys(columns, descending)
    assert first_rows(keys, length, count).tolist() == sorted_rows(keys, length)[:count].tolist()


@pytest.mark.parametrize("descending", [False, True])
def test_a_second_key_is_looked_at_for_ties_at_the_cut_only(descending: bool) -> None:
    first = pa.array(np.arange(10_000) // 10)
    second = pa.array([f"{number:05d}" for number in range(10_000)])
    seen = [0, 0]
    found = first_rows(_keys([first, second], [descending, False], seen), 10_000, 25)
    whole = sorted_rows(_keys([first, second], [descending, False]), 10_000)
    assert found.tolist() == whole[:25].tolist()
    assert seen == [10_000 + 25, 10 + 25]  # each once more to put the chosen rows in order
