"""The way in: text to compiled schema, and the shape of its errors."""

from __future__ import annotations

import copy

import pytest

from omnigraph.errors import CatalogError, ResourceLimitExceeded, SchemaError, SchemaSyntaxError
from omnigraph.schema import build_catalog, compile_schema, schema_rules
from omnigraph.schema.catalog import Annotation, Cardinality, CheckRule, Embed, RangeRule, Scalar
from omnigraph.schema.scanner import MAX_SOURCE_BYTES
from tests.schema.library import LIBRARY


def test_catalog_of_the_library() -> None:
    catalog = compile_schema(LIBRARY).catalog
    paper, author = catalog.nodes["Paper"], catalog.nodes["Author"]
    assert list(catalog.nodes) == ["Author", "Paper"]
    assert list(paper.properties) == ["doi", "keywords", "scan", "score", "state", "title", "vec", "year"]
    assert paper.implements == ("Titled",)
    assert paper.inherited == ("title",)
    assert paper.key == ("doi",)
    assert paper.indexes == (("title",), ("vec",))
    assert paper.ranges == (RangeRule("score", 0.0, 1.0), RangeRule("year", 1900, 2100))
    assert paper.checks == (CheckRule("doi", "^10[.][0-9]+/"),)
    assert paper.properties["vec"].embed == Embed("title", "acme/embed-1")
    assert paper.properties["vec"].annotations == (
        Annotation("embed", "title", (("model", "acme/embed-1"),)),
        Annotation("index"),
    )
    assert paper.properties["state"].type.enum_values == ("draft", "final", "in-review")
    assert paper.properties["state"].type.scalar is Scalar.STRING
    assert author.key == ("first", "last")
    assert author.description == "A writer"
    edge = catalog.edges["WrittenBy"]
    assert (edge.source, edge.target) == ("Paper", "Author")
    assert edge.cardinality == Cardinality(1, 3)
    assert edge.uniques == (("dst", "src"),)
    assert catalog.edge_by_word("writtenby") is edge
    assert catalog.by_table_key("node:Paper") is paper


def test_maximum_only_range_is_a_maximum() -> None:
    catalog = compile_schema("node A { x: I32 @range(x, ..100) }").catalog
    assert catalog.nodes["A"].ranges == (RangeRule("x", None, 100),)


def test_redeclared_property_loses_the_key_of_its_interface() -> None:
    catalog = compile_schema(
        "interface I { p: String @key } node A implements I { p: String } node B implements I {}"
    ).catalog
    assert (catalog.nodes["A"].key, catalog.nodes["A"].inherited) == (None, ())
    assert (catalog.nodes["B"].key, catalog.nodes["B"].inherited) == (("p",), ("p",))


def test_byte_order_mark_is_dropped_and_does_not_shift_places() -> None:
    assert compile_schema("\ufeffnode A {}").source == "node A {}"
    with pytest.raises(SchemaSyntaxError) as caught:
        compile_schema("\ufeffnode a {}")
    assert (caught.value.line, caught.value.column) == (1, 6)


def test_carriage_returns_are_spaces() -> None:
    text = 'node A @description("x") {\n  p: String // note\n  @key(p)\n}\n'
    assert compile_schema(text.replace("\n", "\r\n")).hash == compile_schema(text).hash


def test_error_shows_file_place_line_and_caret() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        compile_schema("node A {\n    x: Strin\n}\n", file="people.pg")
    text = str(caught.value)
    assert text.startswith("people.pg:2:8: parse error: expected a type (String, ")
    assert text.endswith("\n      x: Strin\n         ^")


def test_half_a_surrogate_pair_is_a_syntax_error() -> None:
    with pytest.raises(SchemaSyntaxError, match="not valid UTF-8") as caught:
        compile_schema('node A @description("\ud800") {}')
    assert caught.value.column == 22


def test_unprintable_character_is_named_by_its_number() -> None:
    with pytest.raises(SchemaSyntaxError, match=r"found character U\+0000"):
        compile_schema("\0")


def test_text_far_too_long_is_refused_unread() -> None:
    with pytest.raises(ResourceLimitExceeded) as caught:
        compile_schema("x" * (MAX_SOURCE_BYTES + 1))
    assert caught.value.details["limit"] == MAX_SOURCE_BYTES


def test_types_that_would_share_a_table_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_catalog, "table_path", lambda kind, name: f"{kind}s/{name[0]}")
    assert compile_schema("node Aa {} node B {} edge Aa: B -> B").hash
    with pytest.raises(CatalogError, match="node types 'Aa' and 'Ab' would share the table path nodes/A") as caught:
        compile_schema("node Aa {}\nnode Ab {}")
    assert caught.value.line == 2


def test_many_expensive_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_rules, "_BUDGET", 100_000)
    checks = " ".join(f'@check(p, "{number}\\\\pL{{60}}")' for number in range(20))
    with pytest.raises(SchemaError, match=r"has invalid regex .* it is too large"):
        compile_schema(f"node A {{ p: String {checks} }}")


def test_long_pattern_is_cut_in_the_message() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(f'node A {{ p: String @check(p, "{"a" * 5000}(") }}')
    assert len(caught.value.message) < 400


def test_compiled_schema_can_be_copied() -> None:
    compiled = compile_schema(LIBRARY)
    assert copy.deepcopy(compiled) == compiled


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("node A {\n  x String\n}", "schema.syntax", 2, 5),
        ("node A { x: String? @key }", "schema.rule", 1, 21),
        ("edge E: A -> A", "schema.catalog", 1, 9),
    ],
)
def test_each_kind_of_error_has_its_code_and_its_place(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises((SchemaSyntaxError, SchemaError, CatalogError)) as caught:
        compile_schema(text)
    assert (caught.value.code, caught.value.line, caught.value.column) == (code, line, column)
    assert caught.value.message.startswith(("parse error: ", "catalog error: "))


def test_an_oversized_text_has_the_code_of_a_limit() -> None:
    with pytest.raises(ResourceLimitExceeded) as caught:
        compile_schema(" " * (MAX_SOURCE_BYTES + 1))
    assert caught.value.code == "limit.resource"
