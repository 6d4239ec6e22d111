"""The three schema files: they belong together, or the wrong one is named."""

from __future__ import annotations

import json

import pytest

from omnigraph.errors import SchemaFilesDisagree
from omnigraph.schema import compile_schema
from omnigraph.schema.contract import check_contract, state_text
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
        (LIBRARY.replace("I32", "I64"), _COMPILED.ir_text, _STATE, "_schema.pg", "compiles to sha256:"),
        (LIBRARY + "?", _COMPILED.ir_text, _STATE, "_schema.pg", "does not compile: parse error"),
    ],
)
def test_wrong_file_is_named(source: str, ir: str, state: str, file: str, problem: str) -> None:
    with pytest.raises(SchemaFilesDisagree) as caught:
        check_contract(source, ir, state)
    assert caught.value.details["file"] == file
    assert file in caught.value.message
    assert problem in caught.value.message
