"""The three schema files: they belong together, or the wrong one is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph.errors import NewerFormat, SchemaFilesDisagree
from omnigraph.schema import compile_schema
from omnigraph.schema.catalog import RangeRule
from omnigraph.schema.contract import check_contract, state_text
from omnigraph.schema.earlier_spelling import earlier_ir
from omnigraph.schema.ir import ir_hash
from omnigraph.schema.schema_difference import first_difference
from tests.schema.library import LIBRARY

_COMPILED = compile_schema(LIBRARY)
_STATE = state_text(_COMPILED.hash)


def test_state_text() -> None:
    assert json.loads(_STATE) == {
        "format_version": 1,
        "schema_ir_hash": _COMPILED.hash,
        "schema_identity_version": 1,
    }


def test_files_that_belong_together_give_the_schema() -> None:
    assert check_contract(LIBRARY, _COMPILED.ir_text, _STATE) == _COMPILED


def test_comments_in_the_source_may_change() -> None:
    assert check_contract(LIBRARY + "// more\n", _COMPILED.ir_text, _STATE).catalog == _COMPILED.catalog


def _state(**changes: object) -> str:
    return json.dumps(json.loads(_STATE) | changes)


@pytest.mark.parametrize(
    ("source", "ir", "state", "file", "problem"),
    [
        (LIBRARY, _COMPILED.ir_text, "{", "__schema_state.json", "not JSON"),
        (LIBRARY, _COMPILED.ir_text, "[]", "__schema_state.json", "not a JSON object"),
        (LIBRARY, _COMPILED.ir_text, _state(format_version=2), "__schema_state.json", "format_version is 2"),
        (LIBRARY, _COMPILED.ir_text, _state(format_version=True), "__schema_state.json", "format_version is True"),
        (
            LIBRARY,
            _COMPILED.ir_text,
            _state(schema_identity_version=3),
            "__schema_state.json",
            "schema_identity_version is 3",
        ),
        (LIBRARY, _COMPILED.ir_text, _state(schema_ir_hash=None), "__schema_state.json", "no schema_ir_hash"),
        (LIBRARY, _COMPILED.ir_text.replace("Paper", "Paper2"), _STATE, "_schema.ir.json", "hash is not the accepted"),
        (LIBRARY, "", _STATE, "_schema.ir.json", "not JSON"),
        (LIBRARY, "[" * 100_000, _STATE, "_schema.ir.json", "not JSON"),
        (LIBRARY.replace("I32", "I64"), _COMPILED.ir_text, _STATE, "_schema.pg", "property year is I64, not I32"),
        (LIBRARY + "?", _COMPILED.ir_text, _STATE, "_schema.pg", "does not compile: parse error"),
    ],
)
def test_wrong_file_is_named(source: str, ir: str, state: str, file: str, problem: str) -> None:
    with pytest.raises(SchemaFilesDisagree) as caught:
        check_contract(source, ir, state)
    assert caught.value.details["file"] == file
    assert file in caught.value.message
    assert problem in caught.value.message


def _spelled(ir: dict[str, Any]) -> tuple[str, str]:
    """A compiled form in some spelling, with the state that names it."""
    return json.dumps(ir), state_text(ir_hash(ir))


def test_any_spelling_of_the_same_meaning_is_accepted_under_its_own_hash() -> None:
    foreign = json.loads(_COMPILED.ir_text)
    foreign["nodes"].reverse()
    foreign["made_by"] = "other software"
    for ir in (earlier_ir(_COMPILED.catalog), foreign):
        accepted = check_contract(LIBRARY, *_spelled(ir))
        assert accepted.catalog == _COMPILED.catalog
        assert accepted.hash == accepted.catalog.hash == ir_hash(ir) != _COMPILED.hash
        assert json.loads(accepted.ir_text) == ir


def test_an_upper_bound_that_other_software_compiled_as_a_minimum_is_what_was_written() -> None:
    text = "node A { p: I32?  @range(p, ..3) }"
    ir = json.loads(compile_schema(text).ir_text)
    rule = ir["nodes"][0]["constraints"][0]["Range"]
    rule["min"], rule["max"] = rule["max"], rule["min"]
    accepted = check_contract(text, *_spelled(ir))
    assert accepted.catalog.nodes["A"].ranges == (RangeRule("p", None, 3),)
    rule["min"] = {"Integer": 4}
    with pytest.raises(SchemaFilesDisagree, match="node A has the constraint"):
        check_contract(text, *_spelled(ir))


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("year: I32", "year: I32?", "node Paper property year is I32, not I32?"),
        ("edge Cites: Paper -> Paper\n", "", "edge Cites exists"),
        ("    position: U32?\n", "    place: U32?\n", "edge WrittenBy property place does not exist"),
        (
            "@card(1..3)",
            "@card(1..)",
            'edge WrittenBy has cardinality {"min": 1, "max": 3}, not {"min": 1, "max": null}',
        ),
        ('"A writer"', '"The writer"', "node Author has the annotation"),
        ("    @unique(src, dst)\n", "", 'edge WrittenBy has the constraint {"Unique": ["dst", "src"]}'),
        ("title: String @index", "title: String", "interface Titled property title has the annotation"),
    ],
)
def test_the_first_difference_is_named(old: str, new: str, difference: str) -> None:
    other = compile_schema(LIBRARY.replace(old, new))
    assert other.catalog != _COMPILED.catalog
    with pytest.raises(SchemaFilesDisagree) as caught:
        check_contract(LIBRARY, *_spelled(other.ir))
    assert f"does not mean what _schema.ir.json does: {difference}" in caught.value.message
    assert first_difference(_COMPILED.catalog, compile_schema(LIBRARY).catalog) is None


def test_a_compiled_form_of_newer_software_says_so() -> None:
    with pytest.raises(NewerFormat, match="version 2"):
        check_contract(LIBRARY, *_spelled({"ir_version": 2}))
