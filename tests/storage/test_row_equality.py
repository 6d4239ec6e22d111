"""When two rows are the same: by type and bit, never by text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.tables.row_equality import differing_columns, differing_rows, differing_values, same_rows

NAN = float("nan")
OTHER_NAN = np.frombuffer(np.array([0x7FF8000000000001], np.uint64).tobytes(), np.float64)[0]

#: type → values that differ from each other pairwise.
DISTINCT: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), [None, "", "a", "A", "null"]),
    (pa.bool_(), [None, False, True]),
    (pa.int32(), [None, 0, -1]),
    (pa.uint64(), [None, 0, 2**64 - 1, 2**63]),
    (pa.float64(), [None, 0.0, -0.0, NAN, OTHER_NAN, float("inf"), 5e-324]),
    (pa.float32(), [None, 0.0, -0.0, NAN, 1.5]),
    (pa.date32(), [None, 0, 1]),
    (pa.date64(), [None, 0, 1, 86_400_000]),
    (pa.large_binary(), [None, b"", b"\0", b"ab", b"ac"]),
    (pa.list_(pa.string()), [None, [], [None], [""], ["a", "b"], ["ab"], ["a", None], ["b", "a"]]),
    (pa.list_(pa.float64()), [None, [], [0.0], [-0.0], [NAN], [0.0, 0.0]]),
    (pa.list_(pa.float32(), 2), [None, [0.0, 0.0], [-0.0, 0.0], [0.0, NAN], [0.0, None]]),
]


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_date64(type_):
        return pa.array(values, pa.int64()).view(type_)
    return pa.array(values, type_)


@pytest.mark.parametrize(("type_", "values"), DISTINCT, ids=[str(type_) for type_, _ in DISTINCT])
def test_a_value_equals_itself_and_nothing_else(type_: pa.DataType, values: list[Any]) -> None:
    places = range(len(values))
    pairs = [(one, other) for one in places for other in places]
    array = _array(values, type_)
    left, right = (array.take(pa.array([pair[side] for pair in pairs])) for side in (0, 1))
    assert differing_values(left, right).tolist() == [one != other for one, other in pairs]


@pytest.mark.parametrize(("type_", "values"), DISTINCT, ids=[str(type_) for type_, _ in DISTINCT])
def test_slices_and_chunks_compare_like_whole_arrays(type_: pa.DataType, values: list[Any]) -> None:
    count = len(values)
    whole = _array([*values, *values], type_)
    rotated = whole[1 : count + 1]
    chunked = pa.chunked_array([rotated[:1], rotated[1:]])
    assert differing_rows(pa.table({"x": chunked}), pa.table({"x": rotated})).tolist() == [False] * count
    assert differing_rows(pa.table({"x": whole[:count]}), pa.table({"x": chunked})).tolist() == [True] * count


def test_no_rows_and_no_columns_do_not_differ() -> None:
    empty = pa.table({"x": pa.array([], pa.list_(pa.string()))})
    assert differing_rows(empty, empty).tolist() == []
    assert differing_rows(empty.select([]), empty.select([])).tolist() == []


def test_columns_tell_where_rows_differ() -> None:
    one = pa.table({"id": ["a", "b"], "x": [1, 2], "y": ["", None]})
    other = pa.table({"id": ["a", "b"], "x": [1, 3], "y": pa.array([None, None], pa.string())})
    assert {name: mask.tolist() for name, mask in differing_columns(one, other).items()} == {
        "id": [False, False],
        "x": [False, True],
        "y": [True, False],
    }
    assert same_rows(one, one).to_pylist() == [True, True]
    assert same_rows(one, other).to_pylist() == [False, False]


def test_values_of_different_types_are_not_compared() -> None:
    with pytest.raises(TypeError):
        differing_values(pa.array([1], pa.int32()), pa.array([1], pa.int64()))
