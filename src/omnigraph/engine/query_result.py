"""The answer of a read: columns by position, and the ways out of them.

Inside is one Arrow table. JSON gives the values of the language's output table: dates and instants as text, numbers
that are not finite as text, 32-bit floats widened, integers of 64 bits intact. `rows`, iteration and indexing give the
same, but dates and instants as Python has them. Arrow, pandas and Polars have native types. Names need not be unique:
where a column is asked for by name, the last one is meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import pyarrow as pa

from omnigraph import limits
from omnigraph.engine.result_values import json_values, native_column, python_values
from omnigraph.errors import InputError, MissingExtra
from omnigraph.ids import did_you_mean
from omnigraph.query.temporal import format_datetime
from omnigraph.schema.catalog import PropertyType

if TYPE_CHECKING:
    import pandas
    import polars


_Values: TypeAlias = Callable[[pa.ChunkedArray, PropertyType], list[Any]]

#: Longest value in a line of a preview, so that several columns fit.
_CELL_CHARACTERS = 32


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
        table: pa.Table | list[pa.Array],
        columns: list[str],
        *,
        query_name: str,
        branch: str,
        at: str | int | datetime | None,
        commit_id: str | None,
        types: tuple[PropertyType, ...],
    ) -> None:
        given = table.columns if isinstance(table, pa.Table) else table
        self._native = [native_column(column, kind) for column, kind in zip(given, types, strict=True)]
        self._names = tuple(columns)
        self.columns = list(columns)
        self.types = types
        self.query_name = query_name
        self.branch = branch
        self.at = at
        self.commit_id = commit_id

    def __len__(self) -> int:
        return len(self._native[0]) if self._native else 0

    @cached_property
    def _table(self) -> pa.Table:
        """Made when it is asked for: an answer of a server to a short read is never a table."""
        return pa.Table.from_arrays(self._native, names=self._names)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row after row as in `rows`; only one batch of them exists at a time."""
        for start in range(0, len(self), limits.RESULT_BATCH_ROWS):
            yield from self._rows(start, limits.RESULT_BATCH_ROWS)

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Row after row as JSON values in the order of `columns`, which keeps columns with the same name apart."""
        for start in range(0, len(self), limits.RESULT_BATCH_ROWS):
            yield from zip(*self._columns(json_values, start, limits.RESULT_BATCH_ROWS), strict=True)

    def rows(self) -> list[dict[str, Any]]:
        """Every row as a dict; dates and instants as ``date`` and ``datetime`` in UTC, all else as in JSON.

        Of columns with the same name the last one wins.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.name as name } order { name } }").rows()
            [{'name': 'Ana'}, {'name': 'Bo'}]
        """
        return self._rows(0, len(self))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """One row, or the rows of a slice, as in `rows`.

        Example:
            >>> people = graph.query("query q() { match { $p: Person } return { $p.name as name } order { name } }")
            >>> people[0], people[-1:]
            ({'name': 'Ana'}, [{'name': 'Bo'}])
        """
        if isinstance(index, slice):
            numbers = pa.array(range(*index.indices(len(self))), pa.int64())
            columns = [python_values(column.take(numbers), kind) for column, kind in self._typed_columns()]
            return self._dicts(columns)
        if not isinstance(index, int):
            raise TypeError(f"rows have numbers: result[0], not result[{index!r}]; a column is result.column('name')")
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"the result has {_counted(len(self), 'row')}, none at {index}")
        return self._rows(place, 1)[0]

    def scalar(self) -> Any:
        """The only value of a result of one row and one column.

        Raises:
            InputError: there are more rows or columns, or none.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { count($p) as people } }").scalar()
            2
        """
        if (len(self), len(self.columns)) != (1, 1):
            raise InputError(
                f"a scalar is one row of one column, query '{self.query_name}' gave "
                f"{_counted(len(self), 'row')} of {_counted(len(self.columns), 'column')}",
                hint="return one aggregate, or use rows()",
            )
        return self._columns(python_values, 0, 1)[0][0]

    def column(self, name: str) -> pa.ChunkedArray:
        """One column as Arrow has it; of several with this name the last one.

        Raises:
            InputError: there is no column of this name.

        Example:
            >>> people = graph.query("query q() { match { $p: Person } return { $p.name as name } order { name } }")
            >>> people.column("name").to_pylist()
            ['Ana', 'Bo']
        """
        if name not in self.columns:
            raise InputError(
                f"the result of query '{self.query_name}' has no column '{name}'",
                hint=did_you_mean(str(name), self.columns),
                column=str(name),
            )
        return self._table.column(len(self.columns) - 1 - self.columns[::-1].index(name))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The columns for any library that knows the Arrow stream interface: ``polars.DataFrame(result)``."""
        return self._table.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """The columns as they are: Date as ``date32``, DateTime as ``timestamp[ms, UTC]``, F32 as ``float``.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.age as age } }").to_arrow().schema
            age: int32
        """
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame; needs the extra ``pandas``.

        Integers stay integers: a column with nulls has pandas' nullable type (``Int64``, ``boolean``, … with ``NA``),
        one without has the plain one (``int64``, ``bool``).

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.age as age } }").to_pandas().dtypes["age"]
            Int32Dtype()
        """
        nullable = _nullable_types(_require("pandas"))
        frame: pandas.DataFrame = self._table.to_pandas(date_as_object=False)
        for position, column in enumerate(self._table.columns):
            if column.null_count and column.type in nullable:
                frame.isetitem(position, column.to_pandas(types_mapper=nullable.get))
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A Polars DataFrame; needs the extra ``polars``. Polars wants unique names: repeated ones get a number."""
        module = _require("polars")
        frame: polars.DataFrame = module.from_arrow(self._table.rename_columns(_unique(self.columns)))
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The envelope of the interfaces, with JSON values."""
        return {**self.head(), "rows": self.json_rows(0, len(self)), **self._tail()}

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
        """What it is, and below it the first rows in lines of bounded length."""
        head = f"Result({self.query_name!r}, {_counted(len(self), 'row')}: {', '.join(self.columns)})"
        if len(self) == 0 or not self.columns:
            return _line(head)
        shown = [
            [_shown(name), *map(_shown, values)]
            for name, values in zip(self.columns, self._columns(json_values, 0, limits.PREVIEW_ROWS), strict=True)
        ]
        widths = [max(map(len, cells)) for cells in shown]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*shown, strict=True)]
        more = len(self) - limits.PREVIEW_ROWS
        return "\n".join(map(_line, [head, *lines, *([f"… {more} more"] if more > 0 else [])]))

    def _repr_html_(self) -> str:
        """A table for notebooks. Everything in it is escaped: names and values are text, never markup."""
        width = min(len(self.columns), limits.SHOWN_COLUMNS)
        shown = self._columns(json_values, 0, limits.SHOWN_ROWS)[:width]
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

    @property
    def buffer_bytes(self) -> int:
        """Bytes of what lies behind the rows, told quickly; not less than those of the rows themselves."""
        return sum(chunk.get_total_buffer_size() for column in self._native for chunk in column.chunks)

    def _tail(self) -> dict[str, Any]:
        return {} if self.commit_id is None else {"graph_commit_id": self.commit_id}

    def _json_parts(self) -> Iterator[str]:
        """The envelope in pieces of one batch each, so that a big result is never a tree of Python objects."""
        encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
        yield encode(self.head())[:-1] + ',"rows":['
        for start in range(0, len(self), limits.RESULT_BATCH_ROWS):
            yield "," if start else ""
            yield encode(self.json_rows(start, limits.RESULT_BATCH_ROWS))[1:-1]
        tail = encode(self._tail())[1:]
        yield "]" + ("," if len(tail) > 1 else "") + tail

    def _rows(self, start: int, count: int) -> list[dict[str, Any]]:
        return self._dicts(self._columns(python_values, start, count))

    def json_rows(self, start: int, count: int) -> list[dict[str, Any]]:
        """Some rows with JSON values, for interfaces that show them piece by piece."""
        return self._dicts(self._columns(json_values, start, count))

    def _dicts(self, columns: list[list[Any]]) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def _columns(self, values: _Values, start: int, count: int) -> list[list[Any]]:
        """Some rows of every column, as Python or JSON values."""
        whole = start == 0 and count >= len(self)
        return [values(column if whole else column.slice(start, count), kind) for column, kind in self._typed_columns()]

    def _typed_columns(self) -> Iterator[tuple[pa.ChunkedArray, PropertyType]]:
        return zip(self._native, self.types, strict=True)


def _require(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtra(
            f"{package} is not installed; get it with: pip install 'omnigraph[{package}]'", extra=package
        ) from None


def _nullable_types(pandas_: Any) -> dict[pa.DataType, Any]:
    """What pandas has for columns that lose something, or become objects, when a value is missing."""
    integers = {
        pa.int32(): pandas_.Int32Dtype(),
        pa.int64(): pandas_.Int64Dtype(),
        pa.uint32(): pandas_.UInt32Dtype(),
        pa.uint64(): pandas_.UInt64Dtype(),
    }
    return integers | {pa.bool_(): pandas_.BooleanDtype()}


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


def _line(text: str) -> str:
    most = limits.PREVIEW_CHARACTERS
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _shown(value: Any) -> str:
    """A name or a value as part of a line."""
    text = json.dumps(value, ensure_ascii=False)
    text = text[1:-1] if isinstance(value, str) else text
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= limits.SHOWN_CHARACTERS else f"{text[: limits.SHOWN_CHARACTERS]}…"
    import html

    return html.escape(cut, quote=True)
