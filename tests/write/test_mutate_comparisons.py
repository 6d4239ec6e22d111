"""`where`: every operator on every type, through Lance, through Arrow and through an index, against plain Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.storage.tables.filters import compare
from omnigraph.storage.tables.row_lookup import select_rows
from omnigraph.write.change import Change

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SCHEMA = """
node T { n: I32 @key  yes: Bool?  i32: I32? @index  i64: I64?  u32: U32? @index  u64: U64?  f32: F32? @index
         f64: F64? @index  day: Date? @index  at: DateTime?  text: String?  list: [U64]?  when: [DateTime]? }
"""
WHOLE = ("i32", "i64", "u32", "u64")
VALUES: dict[str, list[Any]] = {
    "yes": [True, False],
    "i32": [-(2**31), -1, 0, 1, 2**31 - 1],
    "i64": [-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1],
    "u32": [0, 1, 2**32 - 1],
    "u64": [0, 2**63, 2**64 - 1],
    "f32": [-0.0, 0.0, 0.1, 16777216.0, 3.4e38],
    "f64": [-0.0, 0.0, 0.1, 2.0**53, -1e308, 5e-324],
    "day": [-1, 0, 19723],
    "at": [-1, 0, 1748764800123],
    "text": ["", "a", "B", "ä", "z", "😀", "\uffff", "it's", 'x"\\', "%", "a\0b"],
}
ARROW: dict[str, pa.DataType] = {
    "yes": pa.bool_(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "day": pa.date32(),
    "at": pa.date64(),
    "text": pa.string(),
}


def _rows() -> pa.Table:
    count = max(map(len, VALUES.values())) + 1
    columns = {
        name: pa.array([*values, *[None] * (count - len(values))], ARROW[name]) for name, values in VALUES.items()
    }
    return pa.table({"n": pa.array(range(count), pa.int32()), **columns})


@pytest.fixture(scope="module", params=["plain", "indexed"])
def handle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with og.init(tmp_path_factory.mktemp(request.param) / "g", SCHEMA) as graph:
        graph.write([Change("node:T", _rows())])
        if request.param == "indexed":
            graph.ensure_indices()
        pin = graph.snapshot().tables["node:T"]
        yield graph._store.tables.newest(pin.location)


def expected(name: str, sign: str, value: Any) -> set[int]:
    """Row numbers by exact arithmetic; a 32-bit column sees the value at its own width."""
    if name == "f32":
        value = pa.scalar(float(value)).cast(pa.float32(), safe=False).as_py()
    stored = pa.array(VALUES[name], ARROW[name])
    raw = stored.view(pa.int64()).to_pylist() if name == "at" else VALUES[name]
    if name == "f32":
        raw = stored.to_pylist()
    return {row for row, each in enumerate(raw) if SIGNS[sign](_exact(each), _exact(value))}


def _exact(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value if value in (float("inf"), float("-inf")) else Fraction(value)


def found(handle: Any, name: str, sign: str, value: Any) -> tuple[set[int], set[int]]:
    """Row numbers through Lance and through Arrow alone."""
    filter_ = compare(name, ARROW[name], sign, value)
    if filter_ is None:
        return set(), set()
    stored = select_rows(handle, ["n"], filter_).column("n").to_pylist()
    assert len(set(stored)) == len(stored)
    return set(stored), set(_rows().filter(filter_.expression).column("n").to_pylist())


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("name", VALUES)
def test_stored_values_compare_with_each_other(handle: Any, name: str, sign: str) -> None:
    for value in VALUES[name]:
        right = expected(name, sign, value)
        assert found(handle, name, sign, value) == (right, right), f"{name} {sign} {value!r}"


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("name", [name for name in VALUES if name in WHOLE or name in ("f32", "f64")])
def test_numbers_of_other_widths_compare_exactly(handle: Any, name: str, sign: str) -> None:
    odd = [
        2.7,
        -2.7,
        0.5,
        -0.5,
        2**63 - 1,
        -(2**63),
        2**53 + 1,
        2.0**63,
        1e300,
        -1e300,
        2**31,
        2**32,
        0.1,
        -0.0,
        3.5e38,
    ]
    for value in odd:
        right = expected(name, sign, value)
        assert found(handle, name, sign, value) == (right, right), f"{name} {sign} {value!r}"


_NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [value for values in VALUES.values() for value in values if isinstance(value, int | float)]
    ).flatmap(
        lambda near: st.integers(-2, 2).map(lambda step: max(-(2**63), min(2**63 - 1, int(min(near, 2.0**62)) + step)))
    ),
)


@given(st.sampled_from([*WHOLE, "f32", "f64"]), st.sampled_from(sorted(SIGNS)), _NUMBERS)
def test_any_number_compares_exactly_in_memory(name: str, sign: str, value: float) -> None:
    filter_ = compare(name, ARROW[name], sign, value)
    rows = _rows().filter(filter_.expression).column("n").to_pylist() if filter_ is not None else []
    assert set(rows) == expected(name, sign, value)


def test_a_comparison_that_nothing_can_pass_is_no_filter() -> None:
    assert compare("n", pa.int32(), "=", 2.7) is None
    assert compare("n", pa.int32(), ">", 2**31) is None
    assert compare("n", pa.uint32(), "<", 0) is None
    assert compare("n", pa.bool_(), ">", True) is None
    assert compare("n", pa.float64(), "=", 2**53 + 1) is None
