"""The Arrow schemas of tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.schema import compile_schema
from omnigraph.schema.arrow import arrow_type, edge_schema, instant_texts, node_schema
from omnigraph.schema.stable_ids import prop_id
from tests.schema.library import LIBRARY

_CATALOG = compile_schema(LIBRARY).catalog


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("String", pa.string()),
        ("Bool", pa.bool_()),
        ("I32", pa.int32()),
        ("I64", pa.int64()),
        ("U32", pa.uint32()),
        ("U64", pa.uint64()),
        ("F32", pa.float32()),
        ("F64", pa.float64()),
        ("Date", pa.date32()),
        ("DateTime", pa.date64()),
        ("Blob", pa.large_binary()),
        ("Vector(3)", pa.list_(pa.field("item", pa.float32(), nullable=True), 3)),
        ("enum(a, b)", pa.string()),
        ("[String]", pa.list_(pa.field("item", pa.string(), nullable=True))),
        ("[DateTime]", pa.list_(pa.field("item", pa.date64(), nullable=True))),
    ],
)
def test_type_and_nullability(spelling: str, expected: pa.DataType) -> None:
    node = compile_schema(f"node A {{ a: {spelling} b: {spelling}? }}").catalog.nodes["A"]
    schema = node_schema(node)
    assert arrow_type(node.properties["a"].type) == expected
    assert [(field.type, field.nullable) for field in schema][1:] == [(expected, False), (expected, True)]


def test_node_table() -> None:
    schema = node_schema(_CATALOG.nodes["Paper"])
    assert schema.names == ["id", "doi", "keywords", "scan", "score", "state", "title", "vec", "year"]
    assert schema.field("id") == pa.field("id", pa.string(), nullable=False)
    assert schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}


def test_edge_table() -> None:
    schema = edge_schema(_CATALOG.edges["WrittenBy"])
    assert schema.names == ["id", "src", "dst", "position"]
    assert not any(schema.field(name).nullable for name in ("id", "src", "dst"))
    assert schema.field("src").metadata is None
    assert schema.field("position").nullable


def test_user_columns_carry_their_number() -> None:
    paper = node_schema(_CATALOG.nodes["Paper"])
    for field in list(paper)[1:]:
        number = str(prop_id("node", "Paper", field.name)).encode()
        assert field.metadata[b"omnigraph.stable_property_id"] == number
    edge = edge_schema(_CATALOG.edges["WrittenBy"])
    number = str(prop_id("edge", "WrittenBy", "position")).encode()
    assert edge.field("position").metadata == {b"omnigraph.stable_property_id": number}


def test_only_blob_columns_are_marked() -> None:
    marked = [field.name for field in node_schema(_CATALOG.nodes["Paper"]) if b"omnigraph.blob" in field.metadata]
    assert marked == ["scan"]


def test_texts_of_instants_are_those_of_the_pattern() -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999  # the years 1 and 9999
    values = [None, 0, -1, 1, 951_825_600_500, first, last, last + 1, *range(first, last, 10**12 + 7)]
    instants = pa.array(values, pa.timestamp("ms"))
    for part in (instants, instants.slice(3, 50), instants.slice(0, 0)):
        assert instant_texts(part).equals(pc.strftime(part, "%Y-%m-%dT%H:%M:%SZ"))
