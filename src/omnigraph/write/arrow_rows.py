"""Rows in memory, however a caller holds them → Arrow. `Graph.load` and `Graph.write` both take them here.

Known are Arrow tables, batches, readers and datasets, pandas and Polars frames, lists of dicts, and whatever has
``__arrow_c_stream__``. No library is imported for it: a frame is known by the module of its class. What can be read in
pieces is, so that a reader never has to fit into memory twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InputError

#: What callers may hand over as rows of one type; one of those that `is_rows` knows.
Rows = Any

#: Before the name of a column: another one that says which rows name it, where some do not. No property is called so.
GIVEN = "#given "

#: From here on floats do not hold every whole number.
_EXACT = 2.0**53

_BATCH_ROWS = 131_072
_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)


def is_rows(value: Any) -> bool:
    """Whether a value holds rows. A Spark DataFrame does not: it belongs to another engine."""
    if _is_of("pyspark", value):
        return False
    return hasattr(value, "__arrow_c_stream__") or _is_dataset(value) or _is_frame(value) or _is_dicts(value)


def row_batches(rows: Rows, name: str) -> Iterator[pa.Table]:
    """The rows in pieces that fit into memory; without rows one empty piece, which has the columns.

    Args:
        name: what messages call them.
    """
    with_columns = None
    try:
        opened = _opened(rows)
        schema = opened.schema
        with_columns = schema.empty_table()
        for batch in opened.to_batches() if isinstance(opened, pa.Table) else opened:
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                with_columns = None
                yield without_dictionaries(pa.Table.from_batches([batch.slice(start, _BATCH_ROWS)], schema))
    except _REFUSED as error:
        raise _no_rows(rows, name, error) from None
    if with_columns is not None:
        yield with_columns


def table_of(rows: Rows, name: str) -> pa.Table:
    """The rows as one table."""
    if isinstance(rows, Iterator) and not is_rows(rows):
        rows = list(rows)
    if not is_rows(rows):
        raise InputError(f"{name} are a {type(rows).__name__}", hint="pass an Arrow table, a frame or a list of dicts")
    return without_dictionaries(rows) if isinstance(rows, pa.Table) else pa.concat_tables(row_batches(rows, name))


def without_dictionaries(table: pa.Table) -> pa.Table:
    """Categories as the values that they stand for."""
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            type_ = pa.string() if pa.types.is_string_view(field.type.value_type) else field.type.value_type
            chunks = [chunk.dictionary.cast(type_).take(chunk.indices) for chunk in table.column(position).chunks]
            table = table.set_column(position, field.name, pa.chunked_array(chunks, type_))
    return table


def _opened(rows: Rows) -> Any:
    """A table, or a reader of batches."""
    if isinstance(rows, pa.Table | pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if _is_of("pandas", rows):
        return _from_pandas(rows)
    if _is_dicts(rows):
        return _from_dicts(rows)
    if _is_dataset(rows):
        return rows.scanner().to_reader()
    if not hasattr(rows, "__arrow_c_stream__"):
        rows = rows.collect()  # a lazy frame
    if hasattr(rows, "to_frame"):
        raise InputError(f"a {type(rows).__name__} is one column, not rows", hint="pass a frame: to_frame()")
    return pa.RecordBatchReader.from_stream(rows)


def _is_of(library: str, value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == library


def _is_dataset(value: Any) -> bool:
    """Those of Arrow, and what is derived from them, as datasets of Lance are."""
    kinds = [kind.__module__ for kind in type(value).__mro__]
    return "pyarrow._dataset" in kinds and hasattr(value, "scanner")


def _is_frame(value: Any) -> bool:
    return (_is_of("pandas", value) and hasattr(value, "columns")) or (
        _is_of("polars", value) and hasattr(value, "collect")
    )


def _is_dicts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _from_pandas(frame: Any) -> pa.Table:
    """The columns without the index. What pandas calls missing (NaN, NaT, NA) is null."""
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except _REFUSED:
        for position, name in enumerate(frame.columns):
            _column(str(name), frame.iloc[:, position].tolist())
        raise
    return _days(_without_gaps(table.replace_schema_metadata(None)))


def _from_dicts(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One column per key that any row has; what a row does not have is null and not given. So is what pandas calls
    missing, which is given."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    given = {f"{GIVEN}{name}": pa.array([name in row for row in rows]) for name in names}
    return _without_gaps(pa.table(columns | {name: each for name, each in given.items() if each.false_count}))


def _without_gaps(table: pa.Table) -> pa.Table:
    """Whole numbers that pandas made floats only because some are missing are whole numbers again, unless they may have
    been rounded. A column in which every value is missing says nothing about its type."""
    for position, column in enumerate(table.columns):
        name = table.field(position).name
        if len(column) == column.null_count:
            table = table.set_column(position, name, pa.nulls(len(column)))
        elif pa.types.is_float64(column.type) and column.null_count and pc.max(pc.abs(column)).as_py() < _EXACT:
            with contextlib.suppress(pa.ArrowInvalid):
                table = table.set_column(position, name, column.cast(pa.int64()))
    return table


def _days(table: pa.Table) -> pa.Table:
    """pandas has no days: a column of midnights without a zone may be one of days, which are instants as well."""
    for position, column in enumerate(table.columns):
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            days = column.cast(pa.date32())  # drops the time of day
            if pc.all(pc.equal(days.cast(column.type), column)).as_py():
                table = table.set_column(position, table.field(position).name, days)
    return table


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except OverflowError:
        with contextlib.suppress(*_REFUSED):
            return pa.array(values, pa.uint64(), from_pandas=True)
        problem, hint = "a number has more than 64 bits", "no type of the schema holds it"
    except _REFUSED:
        place = _first_refused(values)
        problem = f"it holds {_kinds(values[: place + 1])}"
        hint = f"row {place + 1} does not fit the rows before it"
    raise InputError(f"column '{name}' cannot be read: {problem}", hint=hint)


def _kinds(values: list[Any]) -> str:
    """What some values are, as Python calls it."""
    return " and ".join(dict.fromkeys(type(value).__name__ for value in values if value is not None))


def _first_refused(values: list[Any]) -> int:
    """How many values come before the first that does not fit them; found by halving."""
    low, high = 0, len(values)
    while high - low > 1:
        half = (low + high) // 2
        try:
            pa.array(values[:half], from_pandas=True)
            low = half
        except _REFUSED:
            high = half
    return low


def _no_rows(rows: Rows, name: str, error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    return InputError(f"{name} cannot be read as rows of a {type(rows).__name__}: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error.args[0] if error.args else error).split("\n", 1)[0][:200]
