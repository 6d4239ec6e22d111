"""Values of a Python client as parameters. The JSON table is in tests/language/query/parameters.txt."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ParameterError
from omnigraph.query import bind_params, check_query, parse_queries
from omnigraph.query.typed import TypedMutation, TypedQuery
from tests.language.query.fixtures import small_catalog


def query(params: str, rest: str = "") -> TypedQuery | TypedMutation:
    text = f"query q({params}) {{ match {{ $p: Person }} return {{ $p.name }} {rest} }}"
    return check_query(parse_queries(text).find(), small_catalog())


def bound(kind: str, value: object) -> Any:
    return bind_params(query(f"$x: {kind}"), {"x": value})["x"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("I32", np.int8(-3), -3),
        ("I64", np.uint64(3), 3),
        ("U32", np.uint16(7), 7),
        ("F64", np.float32(0.5), 0.5),
        ("F32", np.int32(2), 2.0),
        ("Bool", np.bool_(True), True),
        ("String", np.str_("ana"), "ana"),
        ("Date", date(2024, 1, 1), date(2024, 1, 1)),
        ("Date", np.datetime64("2024-01-01"), date(2024, 1, 1)),
        ("DateTime", datetime(2024, 1, 1, 12, 0, 0, 1999), datetime(2024, 1, 1, 12, 0, 0, 1000, tzinfo=UTC)),
        (
            "DateTime",
            datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 1, 1, 10, tzinfo=UTC),
        ),
        ("DateTime", date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
        (
            "DateTime",
            np.datetime64("2024-01-01T10:00:00.123456789"),
            datetime(2024, 1, 1, 10, 0, 0, 123000, tzinfo=UTC),
        ),
        ("[I32]", np.array([1, 2]), (1, 2)),
        ("[I32]", (1, np.int64(2)), (1, 2)),
        ("[Date]", [date(2024, 1, 1), "2024-01-02"], (date(2024, 1, 1), date(2024, 1, 2))),
        ("Vector(2)", np.array([1, 2.5], dtype=np.float32), (1.0, 2.5)),
        ("Vector(2)", (np.float64(1), 2), (1.0, 2.0)),
    ],
)
def test_client_value(kind: str, value: object, expected: object) -> None:
    found = bound(kind, value)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(found, datetime):
        assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("F64", Decimal("1.5"), "expected float"),
        ("I64", Decimal("1"), "expected integer number"),
        ("F64", Fraction(1, 2), "expected float"),
        ("F64", float("nan"), "expected float, got nan, which is not finite"),
        ("F64", np.float32("inf"), "expected float, got inf, which is not finite"),
        ("F64", 10**400, "value exceeds F64"),
        ("F32", 10**39, "value exceeds F32"),
        ("F64", 1 + 2j, "expected float"),
        ("I64", np.float64(3), "expected integer number"),
        ("I64", 10**50, "value with more than 40 digits exceeds I64"),
        ("I64", "1" * 5000, "expected integer string, got '" + "1" * 40 + "…'"),
        ("String", b"ana", "expected string, got bytes"),
        ("String", date(2024, 1, 1), "expected string, got date"),
        ("Date", datetime(2024, 1, 1), "expected date string"),
        ("Blob", b"\x00", "expected blob URI string, got bytes"),
        ("[String]", {"a"}, "expected array for [String]"),
        ("[String]", "ab", "expected array for [String]"),
        ("Vector(2)", np.array([[1.0, 2.0]]), "expected 2 values for Vector(2), got 1"),
        ("Vector(2)", np.array([[1.0], [2.0]]), "vector element is not numeric"),
        ("Vector(2)", [10**400, 1], "vector element is not a finite number of 32 bits"),
        ("DateTime", datetime.min.replace(tzinfo=timezone(timedelta(hours=2))), "invalid DateTime literal"),
    ],
)
def test_client_value_is_refused(kind: str, value: object, why: str) -> None:
    with pytest.raises(ParameterError) as caught:
        bound(kind, value)
    assert caught.value.message.startswith(f"param 'x': {why}")
    assert caught.value.details["parameter"] == "x"


def test_no_parameters() -> None:
    assert bind_params(query("")) == {}
    assert bind_params(query(""), None) == {}
    assert bind_params(query("$x: I32?"), MappingProxyType({})) == {"x": None}


def test_missing_parameters_are_found_even_when_unused() -> None:
    with pytest.raises(ParameterError, match="parameter 'b' not provided"):
        bind_params(query("$a: I32, $b: I32"), {"a": 1})


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"handel": "ana"}, "did you mean 'handle'?"),
        ({"$handle": "ana"}, "did you mean 'handle'?"),
        ({"handle": "ana", "zzz": {}}, "known: handle, limit"),
        ({3: 3}, "known: handle, limit"),
    ],
)
def test_unknown_parameters_are_refused(given: dict[str, object], hint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        bind_params(query("$handle: String?, $limit: I32?"), given)
    assert caught.value.message == f"query 'q' has no parameter '{list(given)[-1]}'"
    assert caught.value.hint == hint
    assert caught.value.details["parameter"] == str(list(given)[-1])


def test_a_query_without_parameters_takes_none() -> None:
    with pytest.raises(ParameterError, match=r"query 'q' has no parameter 'x' \(it takes none\)"):
        bind_params(query(""), {"x": 1})


@pytest.mark.parametrize("part", ["limit $n", "offset $n"])
def test_row_counts_are_not_negative(part: str) -> None:
    assert bind_params(query("$n: I32", part), {"n": 0}) == {"n": 0}
    with pytest.raises(ParameterError, match="param 'n': expected at least 0, got -1"):
        bind_params(query("$n: I32", part), {"n": -1})


def test_k_of_rrf_is_positive() -> None:
    text = (
        "query q($v: Vector(2), $k: I32) { match { $d: Doc } return { $d } "
        "order { rrf(nearest($d.vec, $v), nearest($d.vec, $v), $k) } limit $k }"
    )
    typed = check_query(parse_queries(text).find(), small_catalog())
    with pytest.raises(ParameterError, match="param 'k': expected at least 1, got 0"):
        bind_params(typed, {"v": [0, 0], "k": 0})


KINDS = ["String", "I32", "U64", "F32", "F64", "Bool", "Date", "DateTime", "Blob", "[I32]?", "[Date]", "Vector(2)"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(KINDS), JSON)
def test_any_json_is_bound_or_refused(kind: str, value: object) -> None:
    try:
        found = bound(kind, value)
    except ParameterError as error:
        assert "x" in error.message
    else:
        hash(found)
        assert found is not None or kind.endswith("?")
