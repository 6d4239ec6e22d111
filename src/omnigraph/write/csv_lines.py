"""Rows → CSV text that a load reads as the same rows. The one form of a CSV export.

Text is quoted and null is an empty field, so that empty text and null differ; dates and instants are ISO text, lists
and vectors are JSON arrays, blobs are base64. Nothing else is done to a text: one that a spreadsheet takes for a
formula is written as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from omnigraph.write.json_lines import json_values

_TEXT = pa.large_string()
_INSTANT = pa.timestamp("ms", "UTC")


def write_csv(target: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a header and rows into a path or an open binary file.

    Args:
        schema: columns of the table that the rows are from; blobs come as bytes.
    """
    columns = pa.schema([(field.name, _column(field.type)) for field in schema])
    options = pcsv.WriteOptions(quoting_style="needed", quoting_header="none")
    with pcsv.CSVWriter(target, columns, write_options=options) as writer:
        for batch in batches:
            arrays = [_written(column, type_) for column, type_ in zip(batch.columns, columns.types, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=columns))


def _column(stored: pa.DataType) -> pa.DataType:
    """What is handed to Arrow's writer: its own form of numbers, truth values and dates; text for the rest."""
    if pa.types.is_integer(stored) or pa.types.is_floating(stored):
        return stored
    return stored if pa.types.is_boolean(stored) or pa.types.is_date32(stored) else _TEXT


def _written(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_ or pa.types.is_string(column.type):
        return column.cast(type_)
    if pa.types.is_date64(column.type):
        moments = column.view(pa.int64()).view(_INSTANT)
        return pc.replace_substring(moments.cast(_TEXT), " ", "T")
    texts = json_values(column)
    if pa.types.is_large_binary(column.type) or pa.types.is_binary(column.type):
        return pc.utf8_trim(texts, '"')
    return texts
