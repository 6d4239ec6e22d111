"""The schema language, case by case. A case is text: a name, a schema, and after ``=>`` what is expected of it.

valid/     the canonical rendering
invalid/   error class, place and message
columns/   the columns of each table
warnings/  code, place, entity and message of each warning
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import errors
from omnigraph.schema import compile_schema
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType
from tests.schema.rendering import render

_HERE = Path(__file__).parent


def cases(folder: str) -> list[object]:
    return list(_read_cases(folder))


def _read_cases(folder: str) -> Iterator[object]:
    for path in sorted((_HERE / folder).glob("*.txt")):
        for block in path.read_text("utf-8").split("### ")[1:]:
            name, _, rest = block.partition("\n")
            source, _, expected = rest.rpartition("\n=>") if not rest.startswith("=>") else ("", "", rest[2:])
            yield pytest.param(source, expected.strip(), id=f"{path.stem}: {name}")


@pytest.mark.parametrize(("source", "expected"), cases("valid"))
def test_schema_is_rendered_canonically(source: str, expected: str) -> None:
    catalog = compile_schema(source).catalog
    assert render(catalog).strip() == expected
    assert compile_schema(render(catalog)).catalog == catalog


@pytest.mark.parametrize(("source", "expected"), cases("invalid"))
def test_schema_is_refused_at_its_place(source: str, expected: str) -> None:
    kind, place, message = expected.split(" ", 2)
    with pytest.raises(errors.SourceError) as caught:
        compile_schema(source, file="people.pg")
    error = caught.value
    assert type(error) is getattr(errors, kind)
    assert message in error.message
    assert place == (f"{error.line}:{error.column}" if error.line else "-")


@pytest.mark.parametrize(("source", "expected"), cases("columns"))
def test_tables_have_columns(source: str, expected: str) -> None:
    catalog = compile_schema(source).catalog
    tables: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    assert [f"{table.table_key} {', '.join(table_schema(table).names)}" for table in tables] == expected.splitlines()


@pytest.mark.parametrize(("source", "expected"), cases("warnings"))
def test_schema_is_warned_about(source: str, expected: str) -> None:
    found = compile_schema(source).warnings
    wanted = expected.splitlines()
    assert len(found) == len(wanted)
    for finding, line in zip(found, wanted, strict=True):
        code, place, entity, message = line.split(" ", 3)
        assert (finding.code, f"{finding.line}:{finding.column}", finding.entity) == (code, place, entity)
        assert finding.severity == "warning"
        assert finding.message.startswith(message)
