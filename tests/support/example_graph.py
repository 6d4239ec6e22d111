"""The small graph of the language fixtures, as an open graph and as plain rows.

`jsonl_rows` reads the lines of a data file into Python values; `changes` makes one write of them. Loading files is a
feature of its own; this is only enough for tests of queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.query.temporal import parse_date, parse_datetime
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.write.change import Change, Mode
from tests.language.query.fixtures import HERE, small_catalog
from tests.oracle.naive import GraphData, Row, narrow


def example_graph(root: Any) -> og.Graph:
    """The small graph, made in one commit after the first."""
    graph = og.init(root, (HERE / "schema.pg").read_text("utf-8"))
    graph.write(changes(example_data()))
    return graph


def example_data() -> GraphData:
    return jsonl_rows(small_catalog(), (HERE / "data.jsonl").read_text("utf-8").splitlines())


def jsonl_rows(catalog: Catalog, lines: Iterable[str]) -> GraphData:
    """``{"type": …, "data": …}`` and ``{"edge": …, "from": …, "to": …, "data": …}``, one a line."""
    data = GraphData(catalog, {name: [] for name in catalog.nodes}, {name: [] for name in catalog.edges})
    for entry in map(json.loads, filter(None, lines)):
        if "type" in entry:
            node = catalog.nodes[entry["type"]]
            row = {"id": _id(node, entry["data"]), **_values(node, entry["data"])}
            data.nodes[node.name].append(row)
        else:
            edge = catalog.edges[entry["edge"]]
            ends = {"id": entry["data"]["id"], "src": entry["from"], "dst": entry["to"]}
            data.edges[edge.name].append({**ends, **_values(edge, entry["data"])})
    return data


def changes(data: GraphData, mode: Mode = Mode.APPEND) -> list[Change]:
    """One change for each type that has rows."""
    types: list[NodeType | EdgeType] = [*data.catalog.nodes.values(), *data.catalog.edges.values()]
    found = []
    for type_ in types:
        rows = (data.nodes if isinstance(type_, NodeType) else data.edges)[type_.name]
        if rows:
            found.append(Change(type_.table_key, table_of(type_, rows), mode))
    return found


def table_of(type_: NodeType | EdgeType, rows: list[Row]) -> pa.Table:
    """Rows as an Arrow table that `Graph.write` takes."""
    columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in _given(type_)}
    for name, declared in type_.properties.items():
        columns[name] = array_of([row[name] for row in rows], declared.type)
    return pa.table(columns)


def array_of(values: list[Any], kind: PropertyType) -> pa.Array:
    """Python values as a stored column."""
    if kind.scalar is Scalar.DATETIME:
        instant = pa.timestamp("ms", "UTC")
        if not kind.list:
            return pa.array(values, instant)
        flat = pa.array([item for value in values for item in value or ()], instant).view(pa.int64()).view(pa.date64())
        ends = [0]
        for value in values:
            ends.append(ends[-1] + len(value or ()))
        mask = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, mask=mask)
    return pa.array(values, arrow_type(kind))


def _given(type_: NodeType | EdgeType) -> tuple[str, ...]:
    return ("id",) if isinstance(type_, NodeType) else ("id", "src", "dst")


def _id(node: NodeType, data: Mapping[str, Any]) -> str:
    return str(data[node.key[0]]) if node.key else str(data["id"])


def _values(type_: NodeType | EdgeType, data: Mapping[str, Any]) -> Row:
    return {name: _value(data.get(name), declared.type) for name, declared in type_.properties.items()}


def _value(raw: Any, kind: PropertyType) -> Any:
    if raw is None:
        return None
    if isinstance(raw, list):
        return [_value(each, kind) for each in raw]
    if kind.scalar in (Scalar.F32, Scalar.VECTOR):
        return narrow(raw)
    return _TEMPORAL[kind.scalar](raw) if kind.scalar in _TEMPORAL else raw


_TEMPORAL: dict[Scalar, Callable[[str], date | datetime]] = {Scalar.DATE: parse_date, Scalar.DATETIME: parse_datetime}
