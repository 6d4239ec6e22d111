"""Whatever the text, the answer is a schema or a typed error, and it comes soon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import CatalogError, SchemaError, SchemaSyntaxError
from omnigraph.schema import CompiledSchema, compile_schema
from tests.schema.library import LIBRARY
from tests.schema.strategies import Draft, drafts
from tests.support.processor_time import processor_seconds

_SIZE = 64 << 10
_TOKENS = (
    *"{}()[]:,?@=.-\"'#/*<>\\\n",
    *("interface", "node", "edge", "implements", "enum", "Vector", "String", "I32", "Blob", "true", "A", "B", "x", "y"),
    *(
        "->",
        "..",
        "//",
        "/*",
        "*/",
        "@key",
        "@unique(",
        "@index",
        "@range(",
        "@check(",
        "@card(",
        "@embed(",
        "1",
        "2.5",
    ),
)


def _answer(text: str) -> CompiledSchema | SchemaSyntaxError | SchemaError | CatalogError:
    try:
        return compile_schema(text)
    except (SchemaSyntaxError, SchemaError, CatalogError) as error:
        assert str(error)
        return error


@given(st.text(max_size=200))
def test_any_text_has_an_answer(text: str) -> None:
    assert _answer(text) is not None


@given(st.lists(st.sampled_from(_TOKENS), max_size=60), st.sampled_from(["", " "]))
def test_any_tokens_have_an_answer(tokens: list[str], gap: str) -> None:
    assert _answer(gap.join(tokens)) is not None


@given(drafts(), st.data())
def test_any_damage_has_an_answer(draft: Draft, data: st.DataObject) -> None:
    text = draft.text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + data.draw(st.sampled_from(["", *_TOKENS]) | st.text(max_size=3)) + text[end:]
    assert _answer(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * _SIZE, id="brackets"),
        pytest.param("node A { x: " + "[" * _SIZE, id="brackets in a type"),
        pytest.param("node A { x: String" + "?" * _SIZE, id="question marks"),
        pytest.param("/*" + "*" * _SIZE, id="open comment of stars"),
        pytest.param("/* /" * (_SIZE // 4), id="open comment of openings"),
        pytest.param("/**/" * (_SIZE // 4), id="comments"),
        pytest.param("//" * (_SIZE // 2), id="line comment"),
        pytest.param(" " * _SIZE, id="spaces"),
        pytest.param('node A @x("' + "\\\\" * (_SIZE // 2), id="open string of backslashes"),
        pytest.param('node A @x("' + '\\"' * (_SIZE // 2) + '") {}', id="string of quotes"),
        pytest.param("node " + "A" * _SIZE + " {}", id="long name"),
        pytest.param("node A { " + "a" * _SIZE, id="long property"),
        pytest.param("node A " + "@x " * (_SIZE // 3) + "{}", id="annotations"),
        pytest.param("node A @x(" + "9" * _SIZE + ") {}", id="long integer"),
        pytest.param("node A @x(" + "9" * _SIZE + ".0) {}", id="long float"),
        pytest.param("node A @x(0." + "0" * _SIZE + "1) {}", id="tiny float"),
        pytest.param("node A @x(" + "0" * _SIZE + "7) {}", id="leading zeros"),
        pytest.param("node A { x: enum(" + ",".join(f"v{n}" for n in range(9000)) + ") }", id="enum"),
        pytest.param("node A { " + " ".join(f"p{n}: I32" for n in range(5500)) + " }", id="properties"),
        pytest.param("\n".join(f"node N{n} {{}}" for n in range(5000)), id="nodes"),
        pytest.param("node A {}" + "\n".join(f"edge E{n}: A -> A" for n in range(3500)), id="edges"),
        pytest.param("node A { x: String " + "@index(x) " * 6500 + "}", id="constraints"),
        pytest.param('node A { x: String @check(x, "' + "(" * 30000 + ")" * 30000 + '") }', id="nested pattern"),
        pytest.param('node A { x: String @check(x, "' + "a{1000}" * 9000 + '") }', id="large pattern"),
    ],
)
def test_large_text_is_answered_within_a_second(text: str) -> None:
    answers = []
    assert processor_seconds(lambda: answers.append(_answer(text))) < 1
    assert answers != [None]


def test_every_prefix_of_a_schema_has_an_answer() -> None:
    answers = [_answer(LIBRARY[:end]) for end in range(len(LIBRARY) + 1)]
    assert isinstance(answers[-1], CompiledSchema)
    assert sum(isinstance(each, SchemaSyntaxError) for each in answers) > len(LIBRARY) // 2
