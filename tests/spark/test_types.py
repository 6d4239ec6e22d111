"""Columns of a graph and columns of a DataFrame: one mapping, the same both ways."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from omnigraph.schema import compile_schema
from omnigraph.schema.arrow import table_schema
from omnigraph.spark.types import spark_schema, spark_type_of, transfer_batch, transfer_schema

if TYPE_CHECKING:
    from omnigraph.schema.catalog import PropertyType

SCHEMA = """
node Row { key: String @key  kind: enum(a, b)?  yes: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?
           f64: F64?  day: Date?  at: DateTime?  raw: Blob?  words: [String]?  big: [U64]?  moments: [DateTime]?
           days: [Date]?  spot: Vector(2)? }
"""
ROW = compile_schema(SCHEMA).catalog.nodes["Row"]

EXPECTED = {
    "key": t.StringType(),
    "kind": t.StringType(),
    "yes": t.BooleanType(),
    "i32": t.IntegerType(),
    "i64": t.LongType(),
    "u32": t.LongType(),
    "u64": t.DecimalType(20, 0),
    "f32": t.FloatType(),
    "f64": t.DoubleType(),
    "day": t.DateType(),
    "at": t.TimestampType(),
    "raw": t.BinaryType(),
    "words": t.ArrayType(t.StringType(), True),
    "big": t.ArrayType(t.DecimalType(20, 0), True),
    "moments": t.ArrayType(t.TimestampType(), True),
    "days": t.ArrayType(t.DateType(), True),
    "spot": t.ArrayType(t.FloatType(), False),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_property_type_has_one_spark_type(name: str) -> None:
    declared: PropertyType = ROW.properties[name].type
    assert spark_type_of(declared) == EXPECTED[name]


def test_the_table_of_types_is_complete() -> None:
    assert set(EXPECTED) == set(ROW.properties)


def test_the_schema_keeps_order_and_nullability() -> None:
    schema = spark_schema(table_schema(ROW))
    assert schema.fieldNames() == ["id", *sorted(EXPECTED)]
    assert [field.name for field in schema if not field.nullable] == ["id", "key"]
    assert spark_schema(table_schema(ROW), ["u64", "id"]).fieldNames() == ["u64", "id"]


def test_values_keep_every_bit_on_their_way() -> None:
    stored = table_schema(ROW)
    rows: list[dict[str, Any]] = [
        {
            "id": "a", "key": "a", "u32": 2**32 - 1, "u64": 2**64 - 1, "f32": 0.1, "day": date(9999, 12, 31),
            "at": -1, "raw": b"\0", "words": ["x", None], "big": [2**64 - 1], "moments": [-1, None],
            "days": [date(1, 1, 1)], "spot": [0.5, -0.5],
        },
        {"id": "b", "key": "b"},
    ]  # fmt: skip
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in stored]
    batch = pa.RecordBatch.from_arrays(columns, schema=stored)
    carried = transfer_batch(batch, transfer_schema(spark_schema(stored)))
    first, second = carried.to_pylist()
    before = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert (first["u32"], first["u64"], first["big"]) == (2**32 - 1, Decimal(2**64 - 1), [Decimal(2**64 - 1)])
    assert (first["at"], first["moments"]) == (before, [before, None])
    assert (first["day"], first["days"]) == (date(9999, 12, 31), [date(1, 1, 1)])
    assert (first["words"], first["spot"], first["raw"]) == (["x", None], [0.5, -0.5], b"\0")
    assert {value for name, value in second.items() if name not in ("id", "key")} == {None}


def _column(values: list[object], type_: pa.DataType) -> pa.Array:
    if pa.types.is_date64(type_):
        return pa.array(values, pa.int64()).view(type_)
    if pa.types.is_list(type_) and pa.types.is_date64(type_.value_type):
        inner = pa.array(values, pa.list_(pa.int64()))
        return pa.ListArray.from_arrays(inner.offsets, inner.values.view(pa.date64()), type_, mask=inner.is_null())
    return pa.array(values, type_)
