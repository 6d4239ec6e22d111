"""Results: the same values by every way out."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import errors, limits
from omnigraph.engine.query_result import Result
from omnigraph.schema.catalog import PropertyType, Scalar


def kind(scalar: Scalar, **extra: Any) -> PropertyType:
    return PropertyType(scalar, nullable=True, **extra)


def result(*columns: tuple[str, pa.Array | pa.ChunkedArray, PropertyType], **facts: Any) -> Result:
    """A result from name, array and type of each column."""
    table = pa.Table.from_arrays([array for _, array, _ in columns], names=[name for name, _, _ in columns])
    given = {"query_name": "q", "branch": "main", "at": None, "commit_id": "01C", **facts}
    return Result(table, [name for name, _, _ in columns], types=tuple(each for _, _, each in columns), **given)


def instants(*millis: int | None) -> pa.Array:
    """Instants as tables store them."""
    return pa.array(millis, pa.int64()).view(pa.date64())


def numbered(count: int) -> Result:
    return result(("n", pa.array(range(count), pa.int64()), kind(Scalar.I64)))


def texts(*values: str | None) -> Result:
    return result(("t", pa.array(values, pa.string()), kind(Scalar.STRING)))


ONE_OF_EACH = [
    (kind(Scalar.STRING), pa.array(['ä\u2028"\\\n', None]), ['ä\u2028"\\\n', None]),
    (kind(Scalar.STRING, enum_values=("a", "b")), pa.array(["b", None]).dictionary_encode(), ["b", None]),
    (kind(Scalar.STRING), pa.nulls(2), [None, None]),
    (kind(Scalar.BOOL), pa.array([True, None]), [True, None]),
    (kind(Scalar.I32), pa.array([-(2**31), None], pa.int32()), [-(2**31), None]),
    (kind(Scalar.I64), pa.array([2**63 - 1, -(2**63)], pa.int64()), [2**63 - 1, -(2**63)]),
    (kind(Scalar.U32), pa.array([2**32 - 1, None], pa.uint32()), [2**32 - 1, None]),
    (kind(Scalar.U64), pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    (kind(Scalar.F64), pa.array([131.0, None]), [131.0, None]),
    (kind(Scalar.F64), pa.array([float("inf"), float("-inf")]), ["Infinity", "-Infinity"]),
    (kind(Scalar.F64), pa.array([float("nan"), None]), ["NaN", None]),
    (kind(Scalar.F32), pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
    (kind(Scalar.DATE), pa.array([date(1, 1, 1), date(9999, 12, 31)]), ["0001-01-01", "9999-12-31"]),
    (
        kind(Scalar.DATETIME),
        instants(1_748_766_600_000, -62_135_596_800_000),
        ["2025-06-01T08:30:00.000Z", "0001-01-01T00:00:00.000Z"],
    ),
    (kind(Scalar.DATETIME), instants(253_402_300_799_999, None), ["9999-12-31T23:59:59.999Z", None]),
    (
        kind(Scalar.DATETIME),
        pa.array([datetime(2024, 1, 1, 0, 0, 0, 7_000, tzinfo=UTC), None], pa.timestamp("ms", "UTC")),
        ["2024-01-01T00:00:00.007Z", None],
    ),
    (kind(Scalar.STRING, list=True), pa.array([["a", None], None]), [["a", None], None]),
    (kind(Scalar.I64, list=True), pa.array([[], [2**63 - 1]], pa.list_(pa.int64())), [[], [2**63 - 1]]),
    (kind(Scalar.DATE, list=True), pa.array([[date(2024, 2, 29)], None]), [["2024-02-29"], None]),
    (
        kind(Scalar.DATETIME, list=True),
        pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), instants(0, None), mask=pa.array([False, True])),
        [["1970-01-01T00:00:00.000Z", None], None],
    ),
    (
        kind(Scalar.F32, list=True),
        pa.array([[0.5, float("inf")], None], pa.list_(pa.float32())),
        [[0.5, "Infinity"], None],
    ),
    (kind(Scalar.VECTOR, dimension=2), pa.array([[1.0, 0.5], None], pa.list_(pa.float32(), 2)), [[1.0, 0.5], None]),
]


@pytest.mark.parametrize(("type_", "array", "expected"), ONE_OF_EACH, ids=lambda value: str(value)[:20])
def test_every_type_has_its_json_value(type_: PropertyType, array: pa.Array, expected: list[Any]) -> None:
    found = result(("x", array, type_))
    shown = [row["x"] for row in found.to_dict()["rows"]]
    assert shown == expected == [row[0] for row in found.values()]
    assert [type(value) for value in shown] == [type(value) for value in expected]
    assert json.loads(found.to_json())["rows"] == found.to_dict()["rows"]


@pytest.mark.parametrize(("type_", "array", "expected"), ONE_OF_EACH, ids=lambda value: str(value)[:20])
def test_python_has_dates_and_instants_and_else_the_values_of_json(
    type_: PropertyType, array: pa.Array, expected: list[Any]
) -> None:
    found = result(("x", array, type_))
    read = {Scalar.DATE: date.fromisoformat, Scalar.DATETIME: datetime.fromisoformat}.get(type_.scalar)

    def native(value: Any) -> Any:
        if isinstance(value, list):
            return [native(each) for each in value]
        return value if read is None or value is None else read(value)

    rows = [{"x": native(value)} for value in expected]
    assert found.rows() == list(found) == [found[0], found[1]] == found[:] == rows
    assert [type(row["x"]) for row in found.rows()] == [type(row["x"]) for row in rows]


def test_an_instant_is_aware_and_needs_no_database_of_zones() -> None:
    value = result(("at", instants(7), kind(Scalar.DATETIME))).scalar()
    assert (value, value.tzinfo) == (datetime(1970, 1, 1, 0, 0, 0, 7_000, tzinfo=UTC), UTC)


@pytest.mark.parametrize(("type_", "array", "expected"), ONE_OF_EACH, ids=lambda value: str(value)[:20])
def test_slices_and_chunks_do_not_change_values(type_: PropertyType, array: pa.Array, expected: list[Any]) -> None:
    chunked = pa.chunked_array([array.slice(0, 1), array.slice(1, 1), array.slice(2), array])
    found = result(("x", chunked, type_))
    assert [row["x"] for row in found.to_dict()["rows"]] == expected + expected
    assert found.rows()[2:] == result(("x", array, type_)).rows()


def test_arrow_keeps_native_types() -> None:
    table = result(
        ("at", instants(1_748_766_600_123, None), kind(Scalar.DATETIME)),
        ("day", pa.array([date(2024, 1, 1), None]), kind(Scalar.DATE)),
        ("f", pa.array([0.1, None], pa.float32()), kind(Scalar.F32)),
        ("big", pa.array([2**64 - 1, None], pa.uint64()), kind(Scalar.U64)),
    ).to_arrow()
    assert table.schema.types == [pa.timestamp("ms", "UTC"), pa.date32(), pa.float32(), pa.uint64()]
    assert table.column("at").to_pylist() == [datetime(2025, 6, 1, 8, 30, 0, 123_000, tzinfo=UTC), None]


def test_a_repeated_name_is_kept_in_arrow_and_the_last_one_wins_in_rows() -> None:
    found = result(
        ("x", pa.array([1]), kind(Scalar.I64)),
        ("y", pa.array([2]), kind(Scalar.I64)),
        ("x", pa.array(["three"]), kind(Scalar.STRING)),
    )
    assert found.columns == ["x", "y", "x"]
    assert found.to_arrow().column_names == ["x", "y", "x"]
    assert found.rows() == [{"x": "three", "y": 2}]
    assert json.loads(found.to_json())["rows"] == [{"x": "three", "y": 2}]
    assert found.to_json().count('"x":') == 1


def test_row_keys_follow_the_projections() -> None:
    found = result(*[(name, pa.array([1]), kind(Scalar.I64)) for name in ("z", "a", "m")])
    assert list(found.rows()[0]) == ["z", "a", "m"]
    assert list(json.loads(found.to_json())["rows"][0]) == ["z", "a", "m"]


def test_the_envelope_has_the_fields_of_a_read() -> None:
    assert texts("a").to_dict() == {
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["t"],
        "rows": [{"t": "a"}],
        "graph_commit_id": "01C",
    }
    assert list(texts("a").to_dict()) == [
        "query_name", "target", "row_count", "columns", "rows", "graph_commit_id"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "shown"),
    [("01ABC", "01ABC"), (7, "7"), (datetime(2025, 1, 1, tzinfo=UTC), "2025-01-01T00:00:00.000Z")],
)
def test_a_read_of_the_past_names_the_moment_instead_of_the_branch(at: Any, shown: str) -> None:
    found = result(("n", pa.array([1]), kind(Scalar.I64)), at=at)
    assert found.to_dict()["target"] == {"branch": None, "snapshot": shown}
    assert json.loads(found.to_json()) == found.to_dict()


def test_an_unknown_commit_is_left_out() -> None:
    found = result(("n", pa.array([1]), kind(Scalar.I64)), commit_id=None)
    assert "graph_commit_id" not in found.to_dict()
    assert json.loads(found.to_json()) == found.to_dict()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_the_same_for_any_number_of_batches(
    count: int, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RESULT_BATCH_ROWS", 3)
    found = numbered(count)
    assert json.loads(found.to_json(indent=indent)) == found.to_dict()
    assert ("\n" in found.to_json(indent=indent)) == (indent is not None)


def test_json_is_compact_and_keeps_letters() -> None:
    text = texts("ä").to_json()
    assert '"rows":[{"t":"ä"}]' in text
    assert "\n" not in text
    assert ": " not in text


def test_iteration_gives_the_rows_without_making_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESULT_BATCH_ROWS", 10)
    made = []
    inner = Result._rows

    def spied(self: Result, start: int, count: int) -> list[dict[str, Any]]:
        made.append(start)
        return inner(self, start, count)

    monkeypatch.setattr(Result, "_rows", spied)
    rows = iter(numbered(35))
    assert next(rows) == {"n": 0}
    assert made == [0]
    assert [row["n"] for row in rows] == list(range(1, 35))
    assert made == [0, 10, 20, 30]


def test_no_rows_still_have_columns() -> None:
    found = numbered(0)
    assert (len(found), found.rows(), list(found), found.columns) == (0, [], [], ["n"])
    assert found.to_arrow().schema.names == ["n"]
    assert json.loads(found.to_json())["row_count"] == 0


def test_rows_are_indexed_as_in_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESULT_BATCH_ROWS", 2)
    found, rows = numbered(5), numbered(5).rows()
    assert [found[place] for place in range(-5, 5)] == rows + rows
    for part in (slice(None), slice(1, 3), slice(-2, None), slice(None, None, 2), slice(None, None, -1), slice(9, 12)):
        assert found[part] == rows[part]
    for place in (5, -6):
        with pytest.raises(IndexError, match=f"the result has 5 rows, none at {place}"):
            found[place]
    with pytest.raises(TypeError, match=r"rows have numbers: result\[0\], not result\['n'\]"):
        found["n"]  # type: ignore[call-overload]


def test_a_scalar_is_the_only_value() -> None:
    assert texts("a").scalar() == "a"
    assert texts(None).scalar() is None
    two = result(("a", pa.array([1]), kind(Scalar.I64)), ("b", pa.array([1]), kind(Scalar.I64)))
    for found, size in ((numbered(0), "0 rows of 1 column"), (numbered(2), "2 rows of 1 column"), (two, "1 row of 2")):
        with pytest.raises(errors.InputError, match=f"a scalar is one row of one column, query 'q' gave {size}"):
            found.scalar()


def test_a_column_is_found_by_its_name() -> None:
    found = result(
        ("x", pa.array([1]), kind(Scalar.I64)),
        ("name", pa.array(["a"]), kind(Scalar.STRING)),
        ("x", pa.array([2]), kind(Scalar.I64)),
    )
    assert found.column("x").to_pylist() == [2] == [row["x"] for row in found.rows()]
    assert found.column("name").type == pa.string()
    with pytest.raises(errors.InputError) as caught:
        found.column("nmae")
    assert str(caught.value) == "the result of query 'q' has no column 'nmae' (did you mean 'name'?)"


def test_other_libraries_take_a_result_as_a_stream() -> None:
    found = result(("at", instants(7, None), kind(Scalar.DATETIME)), ("n", pa.array([1, 2]), kind(Scalar.I64)))
    assert pa.table(found) == found.to_arrow()
    assert pa.RecordBatchReader.from_stream(found).read_all().num_rows == 2


def test_repr_says_what_is_inside_and_shows_the_first_rows() -> None:
    assert repr(numbered(0)) == "Result('q', 0 rows: n)"
    assert repr(numbered(1)) == "Result('q', 1 row: n)\nn\n0"
    assert repr(numbered(7)) == "Result('q', 7 rows: n)\nn\n0\n1\n2\n3\n4\n… 2 more"
    found = result(
        ("name", pa.array(["Ana", None, "two\nlines"]), kind(Scalar.STRING)),
        ("day", pa.array([date(2024, 1, 1), None, None]), kind(Scalar.DATE)),
    )
    assert repr(found).splitlines() == [
        "Result('q', 3 rows: name, day)", "name        day", "Ana         2024-01-01", "null        null",
        "two\\nlines  null",
    ]  # fmt: skip


def test_repr_is_bounded() -> None:
    wide = result(*[(f"column{n}", pa.array(["x" * 10_000] * 9), kind(Scalar.STRING)) for n in range(100)])
    lines = repr(wide).splitlines()
    assert len(lines) == limits.PREVIEW_ROWS + 3
    assert max(map(len, lines)) == limits.PREVIEW_CHARACTERS


class Tags(HTMLParser):
    """What a browser would see as markup."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.words += data


ATTACKS = [
    "<script>alert(1)</script>",
    "</td></tr></table><img src=x onerror=alert(1)>",
    "<!-- --><svg/onload=alert(1)>",
    "&lt;b&gt;already escaped&lt;/b&gt;",
    "\"'><iframe srcdoc='<p>'>",
    "x" * 199 + "<b>",
    "]]><style>*{display:none}</style>",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_markup_in_values_and_names_is_shown_as_text(attack: str) -> None:
    lists = pa.array([[attack]], pa.list_(pa.string()))
    seen = Tags(
        result(
            (attack, pa.array([attack]), kind(Scalar.STRING)),
            ("l", lists, kind(Scalar.STRING, list=True)),
        )._repr_html_()
    )
    assert seen.tags == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    assert seen.attributes == []
    assert attack[:100] in seen.words


def test_a_big_result_is_shown_in_part_with_a_note() -> None:
    wide = result(*[(f"c{n}", pa.array(range(1000)), kind(Scalar.I64)) for n in range(100)])
    shown = wide._repr_html_()
    assert shown.count("<tr>") == limits.SHOWN_ROWS + 1
    assert shown.count("<th>") == limits.SHOWN_COLUMNS
    assert "1000 rows, 100 columns; the first 50 rows and 30 columns are shown" in shown
    assert "the first" not in numbered(3)._repr_html_()


def test_a_long_value_is_cut() -> None:
    assert len(texts("y" * 100_000)._repr_html_()) < 1_000


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_missing_package_is_named_with_its_extra(package: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.MissingExtra, match=rf"pip install 'omnigraph\[{package}\]'") as caught:
        getattr(numbered(1), method)()
    assert isinstance(caught.value, ImportError)
    assert caught.value.details == {"extra": package}


def test_polars_gets_unique_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda table: table))
    names = ["x", "x", "x_2", "y", "x"]
    found: Any = result(*[(name, pa.array([1]), kind(Scalar.I64)) for name in names]).to_polars()
    assert len(set(found.column_names)) == 5
    assert found.column_names[0] == "x"
    assert found.column_names[2:4] == ["x_2", "y"]


def test_pandas_gets_native_instants() -> None:
    pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = result(
        ("at", instants(1_748_766_600_123), kind(Scalar.DATETIME)),
        ("day", pa.array([date(2024, 1, 1)]), kind(Scalar.DATE)),
        ("x", pa.array([1]), kind(Scalar.I64)),
        ("x", pa.array([2]), kind(Scalar.I64)),
    ).to_pandas()
    assert list(frame.columns) == ["at", "day", "x", "x"]
    assert frame["at"][0].isoformat() == "2025-06-01T08:30:00.123000+00:00"
    assert frame["day"][0].date() == date(2024, 1, 1)


def test_pandas_keeps_integers_exact() -> None:
    pytest.importorskip("pandas", reason="the extra pandas is not installed")
    huge = 2**63 - 1
    frame = result(
        ("n", pa.array([huge, None], pa.int64()), kind(Scalar.I64)),
        ("n", pa.array([huge, 0], pa.int64()), kind(Scalar.I64)),
        ("u", pa.array([None, 2**64 - 1], pa.uint64()), kind(Scalar.U64)),
        ("i", pa.array([None, 1], pa.int32()), kind(Scalar.I32)),
        ("w", pa.array([None, 1], pa.uint32()), kind(Scalar.U32)),
        ("b", pa.array([None, True]), kind(Scalar.BOOL)),
        ("c", pa.array([False, True]), kind(Scalar.BOOL)),
        ("f", pa.array([None, 0.5]), kind(Scalar.F64)),
    ).to_pandas()
    found = ["Int64", "int64", "UInt64", "Int32", "UInt32", "boolean", "bool", "float64"]
    assert [str(each) for each in frame.dtypes] == found
    assert [frame.iloc[0, 0], frame.iloc[0, 1], frame.iloc[1, 2]] == [huge, huge, 2**64 - 1]
    assert frame.iloc[1, 0] is frame.iloc[0, 5]


def test_polars_gets_native_instants() -> None:
    pytest.importorskip("polars", reason="the extra polars is not installed")
    frame = result(("at", instants(1_748_766_600_123), kind(Scalar.DATETIME))).to_polars()
    assert frame["at"][0] == datetime(2025, 6, 1, 8, 30, 0, 123_000, tzinfo=UTC)


def test_a_table_that_does_not_fit_its_types_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Result(
            pa.table({"a": [1]}), ["a"], query_name="q", branch="main", at=None, commit_id=None,
            types=(kind(Scalar.I64), kind(Scalar.I64)),
        )  # fmt: skip
