"""Reads the text fixtures of this folder and shows a graph in their form.

small.txt   writes on the small graph of the query fixtures
wide.txt    writes on a graph with every type of property, see wide.pg

A case is a block: its name after ``###``, optionally ``with <parameters as JSON>``, the query, and after ``=>`` the
affected ``nodes/edges`` or the name and message of the error. Lines below say what the graph holds afterwards:

    Person 5                          so many rows
    Person: ana bo                    exactly these ids
    Person ana {"age": null}          a row with at least these values
    head moved | head stays           whether there is a new commit; every error leaves it
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.query.temporal import format_datetime, from_millis

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One block. ``outcome`` is ``nodes/edges`` or an error."""

    name: str
    params: dict[str, Any]
    query: str
    outcome: str
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def cases(file: str) -> list[Case]:
    return list(_blocks((HERE / file).read_text("utf-8")))


def _blocks(text: str) -> Iterator[Case]:
    for block in text.split("### ")[1:]:
        name, _, rest = block.partition("\n")
        body, _, after = rest.partition("\n=> ")
        params = {}
        if body.startswith("with "):
            given, _, body = body.removeprefix("with ").partition("\n")
            params = json.loads(given)
        outcome, *checks = after.splitlines()
        yield Case(name, params, body, outcome, tuple(line for line in checks if line.strip()))


def shown_rows(graph: og.Graph, type_name: str, branch: str = "main") -> dict[str, dict[str, Any]]:
    """Every row of a type by id, its values as the fixtures write them."""
    table = graph.snapshot(branch).arrow(type_name)
    columns = {field.name: _shown(table.column(field.name).combine_chunks()) for field in table.schema}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), f"an id of {type_name} occurs twice"
    return found


def _shown(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_date64(kind):
        return [None if value is None else format_datetime(from_millis(value)) for value in _millis(column)]
    if pa.types.is_list(kind) and pa.types.is_date64(kind.value_type):
        return [None if item is None else _shown(item) for item in (column[row].values for row in range(len(column)))]
    if pa.types.is_date32(kind):
        return [None if value is None else value.isoformat() for value in column.to_pylist()]
    if pa.types.is_large_binary(kind):
        return [None if value is None else "base64:" + base64.b64encode(value).decode() for value in column.to_pylist()]
    return list(column.to_pylist())


def _millis(column: pa.Array) -> list[int | None]:
    return list(column.view(pa.int64()).to_pylist())


def check(graph: og.Graph, line: str) -> None:
    """Hold the graph against one line of a case."""
    name, _, rest = line.partition(" ")
    if name.endswith(":"):
        assert set(shown_rows(graph, name[:-1])) == set(rest.split()), line
    elif rest.isdigit():
        assert graph.snapshot().count(name) == len(shown_rows(graph, name)) == int(rest), line
    else:
        id_, _, values = rest.partition(" ")
        expected = json.loads(values)
        row = shown_rows(graph, name)[id_]
        assert {key: row[key] for key in expected} == expected, line
