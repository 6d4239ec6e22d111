"""Random schema changes on graphs with rows: applied as planned and whole afterwards, or refused, changing nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import InputError, OmniGraphError, UnsupportedSchemaChange
from omnigraph.schema import compile_schema
from omnigraph.schema.arrow import arrow_type, table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.write.change import Change
from tests.schema.strategies import Draft, drafts, edited

#: Some drafts have annotations that mean nothing.
pytestmark = pytest.mark.filterwarnings("ignore::omnigraph.SchemaWarning")

_ROWS = 3


@settings(max_examples=6)
@given(drafts(), st.data())
def test_random_changes_leave_a_whole_graph(
    tmp_path_factory: pytest.TempPathFactory, draft: Draft, data: st.DataObject
) -> None:
    _change_and_check(tmp_path_factory.mktemp("g"), draft, data)


@pytest.mark.torture
@settings(max_examples=300)
@given(drafts(), st.data())
def test_many_random_changes_leave_a_whole_graph(
    tmp_path_factory: pytest.TempPathFactory, draft: Draft, data: st.DataObject
) -> None:
    _change_and_check(tmp_path_factory.mktemp("g"), draft, data)


def _change_and_check(folder: Path, draft: Draft, data: st.DataObject) -> None:
    wanted = edited(draft, data)
    try:
        compile_schema(wanted)
    except OmniGraphError:
        assume(False)
    with og.init(folder / uuid4().hex, draft.text()) as graph:
        rows = _fill(graph)
        before = graph.snapshot()
        try:
            plan = graph.schema.apply(wanted).plan
        except UnsupportedSchemaChange as error:
            assert error.message == graph.schema.plan(wanted).first_refusal()
            assert graph.snapshot().version == before.version
            assert graph.schema.text == draft.text()
        except InputError:
            assert graph.snapshot().version == before.version
        else:
            assert graph.schema.plan(wanted).steps == ()
            assert graph.schema.text == (wanted if plan.steps else draft.text())
            _check_tables(graph, plan.to_dict()["steps"], rows)
        report = graph.verify()
        assert report.ok, str(report)


def _check_tables(graph: og.Graph, steps: list[dict[str, Any]], rows: dict[str, int]) -> None:
    """Each table has the columns of its type, and as many rows as before."""
    renamed = {f"{step['type_kind']}:{step['to']}": f"{step['type_kind']}:{step['from']}" for step in _renames(steps)}
    tables = graph.snapshot().tables
    types = _types(graph.catalog)
    assert set(tables) == {type_.table_key for type_ in types}
    for type_ in types:
        stored = graph.snapshot().arrow(type_.table_key)
        assert set(stored.column_names) == set(table_schema(type_).names)
        assert stored.num_rows == rows.get(renamed.get(type_.table_key, type_.table_key), 0)


def _renames(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for step in steps if step["kind"] == "rename_type"]


def _fill(graph: og.Graph) -> dict[str, int]:
    """A few rows in every table whose rules let them in; returns how many each has."""
    for type_ in _types(graph.catalog):
        try:
            columns = {name: _column(found.type) for name, found in type_.properties.items()}
            if isinstance(type_, EdgeType):
                columns |= _ends(graph, type_)
            graph.write([Change(type_.table_key, pa.table(columns))])
        except (OmniGraphError, _NoRows):
            continue
    return {key: pin.row_count for key, pin in graph.snapshot().tables.items()}


class _NoRows(Exception):
    """A type whose rows would be too large, or have nowhere to end."""


def _ends(graph: og.Graph, edge: EdgeType) -> dict[str, pa.Array]:
    found = {}
    for column, node in (("src", edge.source), ("dst", edge.target)):
        ids = graph.snapshot().arrow(f"node:{node}", ["id"]).column("id").to_pylist()
        if len(ids) < _ROWS:
            raise _NoRows
        found[column] = pa.array(ids[:_ROWS], pa.string())
    return found


def _column(type_: PropertyType) -> pa.Array:
    if type_.scalar is Scalar.VECTOR and (type_.dimension or 0) > 64:
        if not type_.nullable:
            raise _NoRows
        return pa.nulls(_ROWS, pa.null())
    values = [_VALUES.get(type_.scalar, _number)(type_, number) for number in range(_ROWS)]
    return pa.array([[value] for value in values] if type_.list else values, arrow_type(type_))


def _number(type_: PropertyType, number: int) -> Any:
    return number


_VALUES: dict[Scalar, Callable[[PropertyType, int], Any]] = {
    Scalar.STRING: lambda type_, number: (
        type_.enum_values[number % len(type_.enum_values)] if type_.enum_values else f"text {number}"
    ),
    Scalar.BOOL: lambda type_, number: bool(number % 2),
    Scalar.F32: lambda type_, number: number + 0.1,
    Scalar.F64: lambda type_, number: number + 0.1,
    Scalar.BLOB: lambda type_, number: bytes([number]),
    Scalar.VECTOR: lambda type_, number: [float(number)] * (type_.dimension or 0),
}


def _types(catalog: Catalog) -> list[NodeType | EdgeType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]
