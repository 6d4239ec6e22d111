"""Results on the wire: as JSON in pieces, as lines, as Arrow and back."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from omnigraph.engine.query_result import Result
from omnigraph.errors import UnknownAnswer
from omnigraph.schema.catalog import PropertyType, Scalar
from omnigraph.wire import json_results
from omnigraph.wire.arrow_results import length_of, property_type, read_result, write_result

KINDS = (
    PropertyType(Scalar.STRING),
    PropertyType(Scalar.U64, nullable=True),
    PropertyType(Scalar.F32, nullable=True),
    PropertyType(Scalar.DATETIME, nullable=True),
    PropertyType(Scalar.DATE, nullable=True, list=True),
    PropertyType(Scalar.VECTOR, dimension=2),
    PropertyType(Scalar.STRING, nullable=True, enum_values=("a", "b")),
)


def result(rows: int, names: Sequence[str] = ("s", "u", "f", "t", "l", "v", "e"), at: object = None) -> Result:
    instants = pa.array([None, 1500, -1] * rows, pa.timestamp("ms", "UTC"))[:rows]
    columns = [
        pa.array([f'name "{number}" \u00e4' for number in range(rows)]),
        pa.array([2**64 - 1, None, 0] * rows, pa.uint64())[:rows],
        pa.array([0.5, float("nan"), None] * rows, pa.float32())[:rows],
        instants,
        pa.array([[1, None], None, []] * rows, pa.list_(pa.date32()))[:rows],
        pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float32(), 2)),
        pa.array(["a", None, "b"] * rows)[:rows],
    ]
    table = pa.table(columns, names=[str(place) for place in range(len(columns))])
    return Result(table, list(names), query_name="q", branch="main", at=at, commit_id="01J", types=KINDS)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, 1, 3, 20_000])
def test_the_pieces_are_the_envelope(rows: int) -> None:
    found = result(rows)
    pieces = list(json_results.envelope_pieces(found))
    assert json.loads(b"".join(pieces)) == found.to_dict()
    assert json_results.is_small(found) == (rows < 20_000)
    if rows < 20_000:
        assert json.loads(json_results.envelope(found)) == found.to_dict()
    else:
        assert len(pieces) > 2 and max(map(len, pieces)) < 2 * 1024**2
    lines = b"".join(json_results.line_pieces(found)).splitlines()
    assert [json.loads(line) for line in lines] == found.to_dict()["rows"]


def test_wide_rows_make_small_pieces() -> None:
    kind = PropertyType(Scalar.VECTOR, dimension=4096)
    table = pa.table({"v": pa.array([[0.5] * 4096] * 600, pa.list_(pa.float32(), 4096))})
    found = Result(table, ["v"], query_name="q", branch="main", at=None, commit_id=None, types=(kind,))
    pieces = list(json_results.envelope_pieces(found))
    assert not json_results.is_small(found) and len(pieces) > 8
    whole = json.loads(b"".join(pieces))
    assert len(whole["rows"]) == 600 and "graph_commit_id" not in whole


@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_arrow_there_and_back_is_the_same(rows: int) -> None:
    sent = result(rows, ["x", "x", "f", "t", "l", "v", "e"], at=datetime(2026, 1, 31, 12, tzinfo=UTC))
    file = io.BytesIO()
    write_result(sent, file)
    assert length_of(sent) == len(file.getvalue())
    got = read_result(io.BytesIO(file.getvalue()))
    assert got.columns == sent.columns and got.types == sent.types
    assert got.to_arrow().equals(sent.to_arrow()) or rows > 0
    assert list(got.values()) == list(sent.values())
    assert got.head() == sent.head() and (got.query_name, got.branch, got.commit_id) == ("q", "main", "01J")


def test_what_is_no_stream_of_a_query_is_said() -> None:
    table = pa.table({"a": [1]})
    plain = io.BytesIO()
    with pa.ipc.new_stream(plain, table.schema) as writer:
        writer.write_table(table)
    whole = io.BytesIO()
    write_result(result(3), whole)
    cut = whole.getvalue()[: len(whole.getvalue()) // 2]
    lying = whole.getvalue().replace(b'"U64?"', b'"I64?"')
    for wrong in (b"", b"nothing at all", plain.getvalue(), cut, lying):
        with pytest.raises(UnknownAnswer):
            read_result(io.BytesIO(wrong))


@pytest.mark.parametrize(
    "kind",
    [
        *(PropertyType(scalar) for scalar in Scalar if scalar is not Scalar.VECTOR),
        *KINDS,
    ],
    ids=str,
)
def test_the_spelling_of_a_type_is_read_back(kind: PropertyType) -> None:
    assert property_type(str(kind)) == kind
