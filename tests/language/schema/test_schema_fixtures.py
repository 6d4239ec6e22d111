"""The schema language, case by case. A case is text: a name, a schema, and after ``=>`` what is expected of it.

valid/     the canonical rendering
invalid/   error class, place and message
columns/   the columns of each table
warnings/  code, place, entity and message of each warning
hints/     place and hint of an error
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import errors
from omnigraph.schema import compile_schema
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.compiled_schema import compile_accepted
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


@pytest.mark.parametrize(("source", "expected"), cases("hints"))
def test_error_says_what_may_have_been_meant(source: str, expected: str) -> None:
    place, hint = expected.split(" ", 1)
    with pytest.raises(errors.SourceError) as caught:
        compile_schema(source)
    error = caught.value
    assert (f"{error.line}:{error.column}", error.hint) == (place, hint)


def test_unknown_annotations_may_be_allowed() -> None:
    text = "node A { a: String @kee }"
    compiled = compile_schema(text, allow_unknown_annotations=True)
    assert [each.message for each in compiled.warnings] == [
        "@kee is kept as it is and has no effect; did you mean '@key'?"
    ]
    assert compile_accepted(text) == replace(compiled, warnings=())


def test_an_accepted_default_that_fits_nothing_is_none() -> None:
    text = 'node A { a: I32? @default("x") b: I32? @default(3) c: Date? @default("1970-01-02") }'
    properties = compile_accepted(text).catalog.nodes["A"].properties
    assert {name: each.default for name, each in properties.items()} == {"a": None, "b": 3, "c": 1}
