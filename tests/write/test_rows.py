"""Rules about one row: known columns, types, nulls, enum, range, check, id."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import (
    CheckViolation,
    EnumViolation,
    IdMismatch,
    InvalidRow,
    MissingValue,
    RangeViolation,
)
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.write.row_rules import conform

SCHEMA = """
node All {
  k: String @key
  t: String?  b: Bool?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?
  day: Date?  at: DateTime?  v: Vector(3)?
  ts: [String]?  ns: [I32]?  fs: [F32]?  ats: [DateTime]?  bs: [Bool]?
}
node Ruled {
  k: String @key
  age: I32? @range(age, 0..120)
  ratio: F64? @range(ratio, 0.5..)
  code: String? @check(code, "^[A-Z]+$")
  kind: enum(core, platform, research)?
}
node Required { name: String  age: I32  vec: Vector(2)  tags: [String] }
node Free { text: String? }
edge Link: All -> All { weight: F32?  kind: enum(a, b)? }
"""
CATALOG = compile_schema(SCHEMA).catalog


def _conform(type_name: str, **columns: Any) -> list[dict[str, Any]]:
    type_ = CATALOG.nodes.get(type_name) or CATALOG.edges[type_name]
    rows: list[dict[str, Any]] = conform(type_, pa.table(columns)).rows.to_pylist()
    return rows


def _value(column: str, values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """What one column of `All` becomes."""
    rows = _conform("All", k=[str(number) for number in range(len(values))], **{column: values})
    return [row[column] for row in rows]


def _refused(column: str, values: pa.Array) -> InvalidRow:
    with pytest.raises(InvalidRow) as caught:
        _value(column, values)
    assert caught.value.details["property"] == column
    return caught.value


INTEGERS = {
    "i": (pa.int32(), "I32"),
    "l": (pa.int64(), "I64"),
    "u": (pa.uint32(), "U32"),
    "w": (pa.uint64(), "U64"),
}
BOUNDS = {"i": (-(2**31), 2**31 - 1), "l": (-(2**63), 2**63 - 1), "u": (0, 2**32 - 1), "w": (0, 2**64 - 1)}


@pytest.mark.parametrize("column", INTEGERS)
def test_an_integer_of_any_width_fits_or_is_refused_with_its_value(column: str) -> None:
    low, high = BOUNDS[column]
    for source in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        signed = not pa.types.is_unsigned_integer(source)
        ends = (-(2 ** (source.bit_width - 1)) if signed else 0, 2 ** (source.bit_width - signed) - 1)
        for value in {*ends, 0, 1, max(ends[0], low), min(ends[1], high)}:
            values = pa.array([None, value], source)
            if low <= value <= high:
                assert _value(column, values) == [None, value]
            else:
                error = _refused(column, values)
                assert error.message == f"property '{column}' value {value} exceeds {INTEGERS[column][1]} range"
                assert error.details["row"] == 1


def test_a_whole_decimal_is_an_integer_as_spark_carries_large_ones() -> None:
    assert _value("w", pa.array([None, 2**64 - 1], pa.decimal128(20))) == [None, 2**64 - 1]
    assert (
        _refused("i", pa.array([2**31], pa.decimal128(20))).message == "property 'i' value 2147483648 exceeds I32 range"
    )


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("i", pa.array([3.0])),
        ("i", pa.array(["3"])),
        ("i", pa.array([True])),
        ("i", pa.array([Decimal("3.5")])),
        ("i", pa.array([date(2024, 1, 1)])),
        ("b", pa.array([1])),
        ("b", pa.array(["true"])),
        ("t", pa.array([1])),
        ("t", pa.array([b"x"])),
        ("t", pa.array([date(2024, 1, 1)])),
        ("d", pa.array(["1.5"])),
        ("d", pa.array([True])),
        ("day", pa.array(["2024-01-01"])),
        ("day", pa.array([datetime(2024, 1, 1)])),
        ("day", pa.array([19723])),
        ("at", pa.array(["2024-01-01T00:00:00Z"])),
        ("at", pa.array([0])),
        ("ts", pa.array(["x"])),
        ("ts", pa.array([[1]])),
        ("t", pa.array([["x"]])),
        ("v", pa.array([1.0])),
        ("ns", pa.array([[1.5]])),
        ("t", pa.array([{"a": 1}])),
        ("t", pa.array([timedelta(1)])),
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_refused(column: str, values: pa.Array) -> None:
    assert "expects" in _refused(column, values).message or "list value" in _refused(column, values).message


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_every_text_type_is_taken(type_: pa.DataType) -> None:
    values = pa.array(["a", None, "", "ü😀", "a"], pa.string()).cast(type_)
    assert _value("t", values) == ["a", None, "", "ü😀", "a"]
    assert [row["id"] for row in _conform("All", k=pa.array(["x", "y"]).cast(type_))] == ["x", "y"]


def test_columns_may_come_in_chunks() -> None:
    values = pa.chunked_array([pa.array([1, 2], pa.int64()), pa.array([], pa.int64()), pa.array([None, 4], pa.int64())])
    assert _value("i", values) == [1, 2, None, 4]
    dictionaries = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()])
    assert _value("t", dictionaries) == ["a", "b", "c"]
    assert _conform("All", k=pa.chunked_array([], pa.string())) == []


def test_a_null_column_is_null_in_every_type() -> None:
    for column in ("t", "b", "i", "l", "u", "w", "f", "d", "day", "at", "v", "ts", "ns", "fs", "ats", "bs"):
        assert _value(column, pa.nulls(2)) == [None, None]
        assert _conform("All", k=["a"])[0][column] is None


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00", "America/New_York"])
def test_an_instant_keeps_its_time_of_day(unit: str, zone: str | None) -> None:
    moments = [0, 1_717_228_799, -1, -86_401, 1_748_764_800, 4_102_444_799]  # seconds since the epoch
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    values = pa.array([moment * scale for moment in moments], pa.timestamp(unit, zone))
    stored = conform(CATALOG.nodes["All"], pa.table({"k": list("abcdef"), "at": values})).rows.column("at")
    assert stored.type == pa.date64()
    assert stored.combine_chunks().view(pa.int64()).to_pylist() == [moment * 1000 for moment in moments]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_digits_below_a_millisecond_are_refused_unless_they_are_zeros(unit: str) -> None:
    step = {"us": 10**3, "ns": 10**6}[unit]
    whole = pa.array([0, step, -step, 5 * step, None], pa.timestamp(unit))
    stored = conform(CATALOG.nodes["All"], pa.table({"k": list("abcde"), "at": whole})).rows.column("at")
    assert stored.combine_chunks().view(pa.int64()).to_pylist() == [0, 1, -1, 5, None]
    for fine in (1, step - 1, -1, -step - 1):
        error = _refused("at", pa.array([0, fine], pa.timestamp(unit)))
        assert error.message.endswith("is finer than a millisecond")
        assert (error.details["property"], error.details["row"]) == ("at", 1)


def test_a_day_is_an_instant_at_midnight_and_instants_pass_unchanged() -> None:
    days = conform(CATALOG.nodes["All"], pa.table({"k": ["a"], "at": [date(2024, 1, 1)]})).rows.column("at")
    assert days.combine_chunks().view(pa.int64()).to_pylist() == [1_704_067_200_000]
    exact = pa.array([1_748_764_800_123], pa.int64()).view(pa.date64())
    kept = conform(CATALOG.nodes["All"], pa.table({"k": ["a"], "at": exact})).rows.column("at")
    assert kept.combine_chunks().view(pa.int64()).to_pylist() == [1_748_764_800_123]


def test_a_zoned_python_time_is_stored_as_utc() -> None:
    moment = datetime(2025, 6, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    stored = conform(CATALOG.nodes["All"], pa.table({"k": ["a"], "at": [moment]})).rows.column("at")
    assert stored.combine_chunks().view(pa.int64()).to_pylist() == [1_748_764_800_000]
    assert moment == datetime(2025, 6, 1, 8, tzinfo=UTC)


def test_floats_are_rounded_to_their_width_and_must_stay_finite() -> None:
    assert _value("f", pa.array([0.1, 1, None])) == [pytest.approx(0.1, rel=1e-6), 1.0, None]
    assert _value("f", pa.array([16_777_217])) == [16_777_216.0]
    assert _value("d", pa.array([1.5], pa.float32())) == [1.5]
    assert _value("d", pa.array([2**62])) == [float(2**62)]
    error = _refused("f", pa.array([1.0, 1e39]))
    assert (error.message, error.details["row"]) == ("property 'f' value 1e+39 exceeds F32 range", 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", ["f", "d", "v", "fs"])
def test_a_number_that_is_not_finite_is_refused(column: str, value: float) -> None:
    values = {"v": [[1.0, value, 0.0]], "fs": [[1.0, value]]}.get(column, [value])
    assert "is not a finite number" in _refused(column, pa.array(values)).message


def _lists(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Lists of any list type; Arrow makes views from Python only."""
    plain = pa.array(values, pa.list_(type_.value_type))
    return pa.array(plain.to_pylist(), type_) if "view" in str(type_) else plain.cast(type_)


VECTOR_TYPES = [
    pa.list_(pa.float32(), 3),
    pa.list_(pa.float64(), 3),
    pa.list_(pa.int64(), 3),
    pa.list_(pa.float32()),
    pa.list_(pa.float64()),
    pa.large_list(pa.float64()),
    pa.list_(pa.int8()),
    pa.list_view(pa.float32()),
    pa.large_list_view(pa.float64()),
    pa.list_(pa.float16()),
]


@pytest.mark.parametrize("type_", VECTOR_TYPES, ids=str)
def test_a_vector_is_taken_from_every_list_of_numbers(type_: pa.DataType) -> None:
    cast = _lists([[1, 2, 3], None, [4, 5, 6], None], type_)
    assert _value("v", cast) == [[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0], None]
    assert _value("v", cast.slice(1, 2)) == [None, [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    "type_", [pa.list_(pa.float64()), pa.list_(pa.float32(), 2), pa.list_view(pa.float64())], ids=str
)
def test_a_vector_of_the_wrong_length_is_refused(type_: pa.DataType) -> None:
    error = _refused("v", _lists([None, [1.0, 2.0]], type_))
    assert error.message == "vector property 'v' expects 3 dimensions, got 2"
    assert error.details["row"] == 1


@pytest.mark.parametrize("type_", [pa.list_(pa.float32(), 3), pa.list_(pa.float64()), pa.list_(pa.int64())], ids=str)
def test_a_vector_has_no_holes(type_: pa.DataType) -> None:
    values = _lists([[1, None, 3]], type_)
    assert _refused("v", values).message == "vector property 'v' elements must be numeric, got null"


def test_a_vector_of_texts_is_refused() -> None:
    assert _refused("v", pa.array([["a", "b", "c"]])).message == (
        "vector property 'v' elements must be numeric, got String"
    )


@pytest.mark.parametrize(
    "wrap", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda value: pa.list_(value, 2)]
)
def test_lists_are_taken_from_every_list_type(wrap: Any) -> None:
    texts = _lists([["a", "b"], None, ["c", None]], wrap(pa.string()))
    assert _value("ts", texts) == [["a", "b"], None, ["c", None]]
    assert _value("ts", texts.slice(1)) == [None, ["c", None]]
    numbers = _lists([[1, 2], None, [3, None]], wrap(pa.int64()))
    assert _value("ns", numbers) == [[1, 2], None, [3, None]]
    assert _value("ts", pa.array([[], ["x"]], pa.list_(pa.large_string()))) == [[], ["x"]]


def test_list_elements_obey_the_type() -> None:
    assert _refused("ns", pa.array([[1], [2**31]])).message == "list value 2147483648 exceeds I32 range"
    assert _refused("fs", pa.array([[1e39]])).message == "list value 1e+39 exceeds F32 range"
    assert "expects" in _refused("ns", pa.array([["1"]])).message
    moments = pa.array([[datetime(2024, 1, 1, 12, 30)]], pa.list_(pa.timestamp("us")))
    stored = conform(CATALOG.nodes["All"], pa.table({"k": ["a"], "ats": moments})).rows.column("ats")
    assert stored.combine_chunks().flatten().view(pa.int64()).to_pylist() == [1_704_112_200_000]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"age": [121]}, RangeViolation, "@range violation on Ruled.age: value 121 > max 120"),
        ({"age": [-1]}, RangeViolation, "@range violation on Ruled.age: value -1 < min 0"),
        ({"ratio": [0.25]}, RangeViolation, "@range violation on Ruled.ratio: value 0.25 < min 0.5"),
        (
            {"code": ["ab"]},
            CheckViolation,
            "@check violation on Ruled.code: value 'ab' does not match pattern '^[A-Z]+$'",
        ),
        ({"code": [""]}, CheckViolation, "@check violation on Ruled.code: value '' does not match pattern '^[A-Z]+$'"),
        (
            {"kind": ["ops"]},
            EnumViolation,
            "invalid enum value 'ops' for Ruled.kind (expected: core, platform, research)",
        ),
        (
            {"kind": ["Core"]},
            EnumViolation,
            "invalid enum value 'Core' for Ruled.kind (expected: core, platform, research)",
        ),
        ({"nick": ["x"]}, InvalidRow, "unknown input field 'nick' for 'node:Ruled'"),
        ({"_rowid": [1]}, InvalidRow, "unknown input field '_rowid' for 'node:Ruled'"),
        ({"src": ["x"]}, InvalidRow, "unknown input field 'src' for 'node:Ruled'"),
        ({"id": ["y"]}, IdMismatch, "node Ruled explicit id 'y' does not match its canonical @key id 'a'"),
    ],
)
def test_a_broken_rule_has_its_exact_message(columns: dict[str, Any], error: type[InvalidRow], message: str) -> None:
    with pytest.raises(error) as caught:
        _conform("Ruled", k=["a"], **columns)
    assert caught.value.message == message


def test_values_on_the_edge_of_a_rule_and_nulls_pass() -> None:
    rows = _conform("Ruled", k=["a", "b", "c"], age=[0, 120, None], ratio=[0.5, 1e300, None], code=["A", "ZZ", None])
    assert [row["age"] for row in rows] == [0, 120, None]
    assert _conform("Ruled", k=["a"], kind=["core"], id=["a"])[0]["id"] == "a"


def test_the_first_bad_row_is_named() -> None:
    with pytest.raises(RangeViolation) as caught:
        _conform("Ruled", k=list("abcd"), age=[1, None, 500, 600])
    assert caught.value.details == {"type": "Ruled", "property": "age", "row": 2}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("name", "non-nullable property 'name' has null or invalid values"),
        ("age", "non-nullable property 'age' has null or invalid values"),
        ("tags", "non-nullable property 'tags' has null or invalid values"),
        ("vec", "non-nullable vector property 'vec' has null values"),
    ],
)
def test_a_required_property_is_required(missing: str, message: str) -> None:
    whole: dict[str, list[Any]] = {"name": ["x", "y"], "age": [1, 2], "vec": [[1.0, 2.0]] * 2, "tags": [["a"], []]}
    assert len(_conform("Required", **whole)) == 2
    for columns in (
        {name: value for name, value in whole.items() if name != missing},
        {**whole, missing: [whole[missing][0], None]},
    ):
        with pytest.raises(MissingValue) as caught:
            _conform("Required", **columns)
        assert caught.value.message == message


def test_a_key_is_required() -> None:
    for key in ([None], pa.nulls(1)):
        with pytest.raises(MissingValue):
            _conform("All", k=key)
    with pytest.raises(MissingValue):
        _conform("All", t=["x"])


def test_a_column_may_not_occur_twice() -> None:
    rows = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["k", "k"])
    with pytest.raises(InvalidRow, match="column 'k' occurs twice in the rows of 'node:All'"):
        conform(CATALOG.nodes["All"], rows)


def test_tables_without_rows_or_columns_are_fine_where_nothing_is_required() -> None:
    assert _conform("Free") == []
    assert _conform("All", k=pa.array([], pa.string())) == []
    with pytest.raises(MissingValue, match="edge Link needs a column 'src'"):
        _conform("Link")


def test_edges_need_both_ends_as_text() -> None:
    with pytest.raises(MissingValue, match="edge Link needs a column 'dst'"):
        _conform("Link", src=["a"])
    with pytest.raises(MissingValue, match="edge Link has a null 'dst'") as caught:
        _conform("Link", src=["a", "b"], dst=["a", None])
    assert caught.value.details["row"] == 1
    with pytest.raises(InvalidRow, match="property 'src' expects String, got I64"):
        _conform("Link", src=[1], dst=["a"])
    assert _conform("Link", src=["a"], dst=["b"], weight=[1])[0]["weight"] == 1.0
    with pytest.raises(EnumViolation, match=r"invalid enum value 'c' for Link\.kind"):
        _conform("Link", src=["a"], dst=["b"], kind=["c"])


def test_ids_are_fresh_given_or_both() -> None:
    fresh = [row["id"] for row in _conform("Free", text=["x"] * 1000)]
    assert len(set(fresh)) == 1000
    assert all(len(id_) == 26 for id_ in fresh)
    assert [row["id"] for row in _conform("Free", id=["a", "b"])] == ["a", "b"]
    given, made = (row["id"] for row in _conform("Free", id=["a", None]))
    assert (given, len(made)) == ("a", 26)
    assert [row["id"] for row in _conform("Link", id=["e"], src=["a"], dst=["b"])] == ["e"]


@pytest.mark.parametrize("ids", [["a", ""], ["", None], ["", ""]])
def test_an_empty_id_is_refused(ids: list[str | None]) -> None:
    with pytest.raises(InvalidRow, match="node:Free has an empty id"):
        _conform("Free", id=ids)


def test_an_id_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidRow, match="property 'id' expects String, got I64"):
        _conform("Free", id=[1])


@pytest.mark.parametrize(
    ("schema", "columns", "id_"),
    [
        ("node T { d: Date @key }", {"d": [date(2024, 1, 1)]}, "19723"),
        ("node T { tenant: String slot: U32 @key(tenant, slot) }", {"tenant": ["acme"], "slot": [7]}, '["7","acme"]'),
        ("node T { v: F32 @key }", {"v": [16_777_217]}, "16777216"),
        ("node T { v: F64 @key }", {"v": [1e21]}, "1000000000000000000000"),
        ("node T { v: F64 @key }", {"v": [-0.0]}, "0"),
        ("node T { v: F64 @key }", {"v": [0.1]}, "0.1"),
        ("node T { v: I64 @key }", {"v": [-5]}, "-5"),
        ("node T { v: U64 @key }", {"v": pa.array([2**64 - 1], pa.uint64())}, "18446744073709551615"),
        ("node T { v: Bool @key }", {"v": [True]}, "true"),
        ("node T { v: DateTime @key }", {"v": [datetime(2025, 6, 1, 8)]}, "1748764800000"),
        ("node T { v: String @key }", {"v": ['a"b\\c|d']}, 'a"b\\c|d'),
        ("node T { a: String b: String @key(a, b) }", {"a": ['x","y'], "b": ["z"]}, '["x\\",\\"y","z"]'),
        ("node T { a: String b: String @key(a, b) }", {"a": ["x|y\n"], "b": ["\\"]}, '["x|y\\n","\\\\"]'),
    ],
)
def test_the_id_of_a_keyed_node_is_the_text_of_its_key(schema: str, columns: dict[str, Any], id_: str) -> None:
    type_ = compile_schema(schema).catalog.nodes["T"]
    assert conform(type_, pa.table(columns)).rows.column("id").to_pylist() == [id_]
    again = conform(type_, pa.table({**columns, "id": [id_]}))
    assert again.rows.column("id").to_pylist() == [id_]
    with pytest.raises(IdMismatch):
        conform(type_, pa.table({**columns, "id": [id_ + " "]}))
