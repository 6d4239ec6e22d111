"""Canonical text of values and composite ids."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import InternalError, InvalidRow
from omnigraph.schema.arrow import arrow_type, canonical_text, composite_id
from omnigraph.schema.catalog import PropertyType, Scalar


def _texts(scalar: Scalar, values: list[Any]) -> list[str | None]:
    type_ = PropertyType(scalar)
    found: list[str | None] = canonical_text(pa.array(values, arrow_type(type_)), type_).to_pylist()
    return found


@pytest.mark.parametrize(
    ("scalar", "values", "expected"),
    [
        (Scalar.STRING, ["per-ana", "", None, " é\n"], ["per-ana", "", None, " é\n"]),
        (Scalar.I32, [-4, 0, 2**31 - 1, None], ["-4", "0", "2147483647", None]),
        (Scalar.I64, [-(2**63)], ["-9223372036854775808"]),
        (Scalar.U32, [2**32 - 1], ["4294967295"]),
        (Scalar.U64, [18446744073709551615], ["18446744073709551615"]),
        (Scalar.BOOL, [True, False, None], ["true", "false", None]),
        (Scalar.DATE, [dt.date(2024, 1, 1), dt.date(1969, 12, 31), None], ["19723", "-1", None]),
        (Scalar.F64, [1.5, 0.0, -0.0, 16777216.0, -3.0, None], ["1.5", "0", "0", "16777216", "-3", None]),
        (
            Scalar.F64,
            [1e21, 1e-7, 0.1, 123456789012345680.0],
            ["1" + "0" * 21, "0.0000001", "0.1", "123456789012345680"],
        ),
        (Scalar.F32, [0.1, 16777216.0, 1e10], ["0.1", "16777216", "10000000000"]),
        (Scalar.F64, [], []),
        (Scalar.F64, [None], [None]),
    ],
)
def test_text_of_values(scalar: Scalar, values: list[Any], expected: list[str | None]) -> None:
    assert _texts(scalar, values) == expected


def test_datetime_is_milliseconds_since_the_epoch() -> None:
    stored = pa.array([1704067200000, -1, None], pa.int64()).cast(pa.date64())
    assert canonical_text(stored, PropertyType(Scalar.DATETIME)).to_pylist() == ["1704067200000", "-1", None]


def test_timestamp_keeps_its_time_of_day() -> None:
    moment = pa.array([dt.datetime(2024, 1, 1, 5, 0, 0, 1000)], pa.timestamp("us"))
    assert canonical_text(moment, PropertyType(Scalar.DATETIME)).to_pylist() == ["1704085200001"]


def test_text_is_rendered_after_narrowing() -> None:
    wide = pa.array([0.1, 16777217.0], pa.float64())
    assert canonical_text(wide, PropertyType(Scalar.F32)).to_pylist() == ["0.1", "16777216"]


def test_slices_keep_their_own_rows() -> None:
    values = pa.array([1e30, None, 2.0, 1e30]).slice(1, 3)
    assert canonical_text(values, PropertyType(Scalar.F64)).to_pylist() == [None, "2", "1" + "0" * 30]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(InvalidRow, match="finite") as caught:
        _texts(Scalar.F64, [1.0, None, value, 2.0])
    assert caught.value.details["row"] == 2


@pytest.mark.parametrize(
    "type_",
    [PropertyType(Scalar.BLOB), PropertyType(Scalar.VECTOR, dimension=2), PropertyType(Scalar.STRING, list=True)],
)
def test_types_without_canonical_text_are_refused(type_: PropertyType) -> None:
    with pytest.raises(InternalError, match="no canonical text"):
        canonical_text(pa.array([None], arrow_type(type_)), type_)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_float_text_is_the_shortest_that_reads_back(values: list[float]) -> None:
    for value, text in zip(values, _texts(Scalar.F64, list(values)), strict=True):
        assert text is not None
        assert float(text) == value
        assert "e" not in text and not text.endswith(".0") and text != "-0"
        digits = list(Decimal(text).normalize().as_tuple().digits)
        assert len(digits) == len(Decimal(repr(value)).normalize().as_tuple().digits)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=20))
def test_narrow_float_text_reads_back_at_its_width(values: list[float]) -> None:
    for value, text in zip(values, _texts(Scalar.F32, list(values)), strict=True):
        assert text is not None
        assert np.float32(text) == np.float32(value)
        assert "e" not in text and len(text.strip("-0.").replace(".", "")) <= 39


def test_composite_ids_of_the_examples() -> None:
    assert composite_id([pa.array(["Ada"]), pa.array(["Byron"])]).to_pylist() == ['["Ada","Byron"]']
    assert composite_id([pa.array(["7"]), pa.array(["acme"])]).to_pylist() == ['["7","acme"]']


def test_composite_id_with_a_missing_part_is_missing() -> None:
    parts = [pa.array(["a", None, "b"]), pa.array(["c", "d", None])]
    assert composite_id(parts).to_pylist() == ['["a","c"]', None, None]


def test_composite_id_of_one_column_and_of_no_rows() -> None:
    assert composite_id([pa.array(["a"])]).to_pylist() == ['["a"]']
    assert composite_id([pa.array([], pa.string())]).to_pylist() == []
    with pytest.raises(InternalError):
        composite_id([])


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=10))
def test_composite_id_is_compact_json(rows: list[tuple[str, str]]) -> None:
    columns = [pa.array([row[index] for row in rows], pa.string()) for index in range(2)]
    expected = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    assert composite_id(columns).to_pylist() == expected


def test_every_control_character_is_escaped_as_json_does() -> None:
    signs = [chr(code) for code in range(0x80)]
    expected = [json.dumps([sign], ensure_ascii=False) for sign in signs]
    assert composite_id([pa.array(signs)]).to_pylist() == expected
