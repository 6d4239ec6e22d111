"""The answer of a read: columns by position, and the ways out of them.

Inside is one Arrow table. Names need not be unique, so nothing here looks a column up by name. `rows`, iteration and
JSON give the values of the language's output table: dates and instants as text, numbers that are not finite as text,
32-bit floats widened, integers of 64 bits intact. `rows()` equals the rows of the parsed `to_json()`. Arrow, pandas and
Polars give native dates and instants.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import MissingExtra
from omnigraph.query.temporal import format_datetime
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropertyType, Scalar

if TYPE_CHECKING:
    import pandas
    import polars


INSTANT = pa.timestamp("ms", "UTC")


def native_type(kind: PropertyType) -> pa.DataType:
    """The Arrow type of a result column."""
    if kind.scalar is Scalar.DATETIME:
        return pa.list_(pa.field("item", INSTANT)) if kind.list else INSTANT
    return arrow_type(kind)


def native_column(column: pa.ChunkedArray | pa.Array, kind: PropertyType) -> pa.ChunkedArray:
    """A column in its native type. Free for columns that have it already, and for stored instants."""
    target = native_type(kind)
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if chunked.type == target:
        return chunked
    return pa.chunked_array([_native(chunk, kind, target) for chunk in chunked.chunks], target)


def _native(array: pa.Array, kind: PropertyType, target: pa.DataType) -> pa.Array:
    if kind.scalar is Scalar.DATETIME and pa.types.is_date64(array.type):
        return array.view(pa.int64()).view(INSTANT)  # a cast would drop the time of day
    if kind.scalar is Scalar.DATETIME and _is_list(array.type) and pa.types.is_date64(array.type.value_type):
        return _with_items(array, _native(_items(array), replace(kind, list=False), INSTANT))
    return array.cast(target)


def json_values(column: pa.ChunkedArray, kind: PropertyType) -> list[Any]:
    """A column in its native type as a list of JSON values."""
    if column.num_chunks == 1:
        return _json_values(column.chunk(0), kind)
    return [value for chunk in column.chunks for value in _json_values(chunk, kind)]


def _json_values(array: pa.Array, kind: PropertyType) -> list[Any]:
    is_list = kind.list or kind.scalar is Scalar.VECTOR
    items = _readable(_items(array) if is_list else array, kind.scalar)
    values: list[Any] = (_with_items(array, items) if is_list else items).to_pylist()
    if pa.types.is_floating(items.type) and not pc.all(pc.is_finite(items), min_count=0).as_py():
        return [_worded(value) for value in values]
    return values


def _readable(array: pa.Array, scalar: Scalar) -> pa.Array:
    """An array whose Python values are JSON values, but for floats that are not finite."""
    match scalar:
        case Scalar.DATE:
            return array.cast(pa.string())
        case Scalar.DATETIME:
            # Without a zone, because the zone is known and its database need not be installed.
            return pc.strftime(array.view(pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
        case Scalar.F32 | Scalar.VECTOR:
            return array.cast(pa.float64())
        case _:
            return array


def _worded(value: Any) -> Any:
    if isinstance(value, list):
        return [_worded(item) for item in value]
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _items(array: pa.Array) -> pa.Array:
    """The elements of all lists one after the other, without what lies hidden under null lists."""
    return pc.list_flatten(array)


def _with_items(array: pa.Array, items: pa.Array) -> pa.Array:
    """The same lists with other elements, as many and in the same order as `_items` gave."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, items, mask=pc.is_null(array))


class Result:
    """The rows of one read. Got from `Graph.query`.

    Attributes:
        columns: names in the order of the projections; they need not be unique.
        types: the type of each column.
        query_name: which query of the text ran.
        branch: where it ran.
        at: the moment that was asked for, or None for the newest state.
        commit_id: head of the state that was read, or None when unknown.
    """

    def __init__(
        self,
        table: pa.Table,
        columns: list[str],
        *,
        query_name: str,
        branch: str,
        at: str | int | datetime | None,
        commit_id: str | None,
        types: tuple[PropertyType, ...],
    ) -> None:
        native = [native_column(column, kind) for column, kind in zip(table.columns, types, strict=True)]
        self._table = pa.Table.from_arrays(native, names=columns)
        self.columns = list(columns)
        self.types = types
        self.query_name = query_name
        self.branch = branch
        self.at = at
        self.commit_id = commit_id

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row after row as in `rows`; only one batch of them exists at a time."""
        for start in range(0, len(self), limits.RESULT_BATCH_ROWS):
            yield from self._rows(start, limits.RESULT_BATCH_ROWS)

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Row after row as JSON values in the order of `columns`, which keeps columns with the same name apart."""
        for start in range(0, len(self), limits.RESULT_BATCH_ROWS):
            columns = [self._json_column(index, start, limits.RESULT_BATCH_ROWS) for index in range(len(self.columns))]
            yield from zip(*columns, strict=True)

    def rows(self) -> list[dict[str, Any]]:
        """Every row as a dict of JSON values. Of columns with the same name the last one wins.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.name as name } order { name } }").rows()
            [{'name': 'Ana'}, {'name': 'Bo'}]
        """
        return self._rows(0, len(self))

    def to_arrow(self) -> pa.Table:
        """The columns as they are: Date as ``date32``, DateTime as ``timestamp[ms, UTC]``, F32 as ``float``.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.age as age } }").to_arrow().schema
            age: int32
        """
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame; needs the extra ``pandas``."""
        _require("pandas")
        return self._table.to_pandas(date_as_object=False)

    def to_polars(self) -> polars.DataFrame:
        """A Polars DataFrame; needs the extra ``polars``. Polars wants unique names: repeated ones get a number."""
        module = _require("polars")
        frame: polars.DataFrame = module.from_arrow(self._table.rename_columns(_unique(self.columns)))
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The envelope of the interfaces, with JSON values."""
        return {**self.head(), "rows": self.rows(), **self._tail()}

    def to_json(self, *, indent: int | None = None) -> str:
        """The envelope as JSON text: on one line, or indented for people.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { count($p) as people } }").to_json()
            '{"query_name":"q",...,"rows":[{"people":2}],...}'
        """
        if indent is not None:
            return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)
        return "".join(self._json_parts())

    def __repr__(self) -> str:
        names = ", ".join(self.columns)
        return f"Result({self.query_name!r}, {_counted(len(self), 'row')}: {names})"

    def _repr_html_(self) -> str:
        """A table for notebooks. Everything in it is escaped: names and values are text, never markup."""
        width = min(len(self.columns), limits.SHOWN_COLUMNS)
        shown = [self._json_column(index, 0, limits.SHOWN_ROWS) for index in range(width)]
        head = "".join(f"<th>{_cell(name)}</th>" for name in self.columns[:width])
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in zip(*shown, strict=True)
        )
        note = f"{_counted(len(self), 'row')}, {_counted(len(self.columns), 'column')}"
        if len(self) > limits.SHOWN_ROWS or len(self.columns) > width:
            rows = _counted(min(len(self), limits.SHOWN_ROWS), "row")
            note += f"; the first {rows} and {_counted(width, 'column')} are shown"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{note}</p>"

    def head(self) -> dict[str, Any]:
        """The envelope without the rows: which query, on which state, how many rows, their columns."""
        moment = format_datetime(self.at) if isinstance(self.at, datetime) else self.at
        return {
            "query_name": self.query_name,
            "target": {
                "branch": self.branch if moment is None else None,
                "snapshot": None if moment is None else str(moment),
            },
            "row_count": len(self),
            "columns": list(self.columns),
        }

    def _tail(self) -> dict[str, Any]:
        return {} if self.commit_id is None else {"graph_commit_id": self.commit_id}

    def _json_parts(self) -> Iterator[str]:
        """The envelope in pieces of one batch each, so that a big result is never a tree of Python objects."""
        encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
        yield encode(self.head())[:-1] + ',"rows":['
        for start in range(0, len(self), limits.RESULT_BATCH_ROWS):
            yield "," if start else ""
            yield encode(self._rows(start, limits.RESULT_BATCH_ROWS))[1:-1]
        tail = encode(self._tail())[1:]
        yield "]" + ("," if len(tail) > 1 else "") + tail

    def _rows(self, start: int, count: int) -> list[dict[str, Any]]:
        values = [self._json_column(index, start, count) for index in range(len(self.columns))]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True)]

    def _json_column(self, index: int, start: int, count: int) -> list[Any]:
        column = self._table.column(index)
        whole = start == 0 and count >= len(column)
        return json_values(column if whole else column.slice(start, count), self.types[index])


def _require(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtra(
            f"{package} is not installed; get it with: pip install 'omnigraph[{package}]'", extra=package
        ) from None


def _unique(names: list[str]) -> list[str]:
    """The same names with ``_2``, ``_3`` … behind repeated ones, avoiding names that are there already."""
    taken = set(names)
    seen: set[str] = set()
    found = []
    for name in names:
        number, free = 1, name
        while free in seen or (number > 1 and free in taken):
            number += 1
            free = f"{name}_{number}"
        seen.add(free)
        found.append(free)
    return found


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= limits.SHOWN_CHARACTERS else f"{text[: limits.SHOWN_CHARACTERS]}…"
    return html.escape(cut, quote=True)
