"""Columns of a graph ↔ columns of a DataFrame. One table, both ways, the same for every job of this package.

| property            | Spark               |     | property    | Spark           |
|---------------------|---------------------|-----|-------------|-----------------|
| String, enum        | string              |     | F32, F64    | float, double   |
| Bool                | boolean             |     | Date        | date            |
| I32, I64            | int, bigint         |     | DateTime    | timestamp (UTC) |
| U32                 | bigint              |     | Blob        | binary          |
| U64                 | decimal(20,0)       |     | [T]         | array<T>        |
|                     |                     |     | Vector(n)   | array<float>    |
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from omnigraph.errors import InternalError
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropertyType

_SCALARS: tuple[tuple[pa.DataType, t.DataType], ...] = (
    (pa.string(), t.StringType()),
    (pa.bool_(), t.BooleanType()),
    (pa.int32(), t.IntegerType()),
    (pa.int64(), t.LongType()),
    (pa.uint32(), t.LongType()),
    (pa.uint64(), t.DecimalType(20, 0)),
    (pa.float32(), t.FloatType()),
    (pa.float64(), t.DoubleType()),
    (pa.date32(), t.DateType()),
    (pa.date64(), t.TimestampType()),
    (pa.large_binary(), t.BinaryType()),
    (pa.binary(), t.BinaryType()),
)

_INSTANT = pa.timestamp("us", "UTC")


def spark_type(stored: pa.DataType) -> t.DataType:
    """The type of a DataFrame's column for a stored one."""
    if isinstance(stored, pa.BaseExtensionType):  # how Lance keeps blobs
        return t.BinaryType()
    if pa.types.is_fixed_size_list(stored):
        return t.ArrayType(spark_type(stored.value_type), containsNull=False)
    if pa.types.is_list(stored):
        return t.ArrayType(spark_type(stored.value_type), containsNull=True)
    found = next((spark for arrow, spark in _SCALARS if arrow == stored), None)
    if found is None:
        raise InternalError(f"a column of type {stored} has no type in Spark")
    return found


def spark_type_of(type_: PropertyType) -> t.DataType:
    """The type of a DataFrame's column for a property."""
    return spark_type(arrow_type(type_))


def spark_schema(stored: pa.Schema, columns: Sequence[str] | None = None) -> t.StructType:
    """Columns of a table as a DataFrame has them, all or some, in the order given."""
    names = stored.names if columns is None else columns
    fields = [stored.field(name) for name in names]
    return t.StructType([t.StructField(each.name, spark_type(each.type), each.nullable) for each in fields])


def transfer_schema(schema: t.StructType) -> pa.Schema:
    """The Arrow schema in which rows travel between Python and the JVM."""
    found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return found


def transfer_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Stored rows as they travel to the JVM; columns by position."""
    columns = [_transfer(column, field.type) for column, field in zip(batch.columns, target, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _transfer(column: pa.Array, target: pa.DataType) -> pa.Array:
    if column.type == target:
        return column
    if pa.types.is_date64(column.type):
        return pc.multiply(column.view(pa.int64()), 1_000).view(target)  # a cast would drop the time of day
    if pa.types.is_list(target):
        items = _transfer(pc.list_flatten(column), target.value_type)
        lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
        return pa.ListArray.from_arrays(offsets, items, type=target, mask=pc.is_null(column))
    return column.cast(target)
