"""Lint codes and the check of one text."""

from __future__ import annotations

from omnigraph.schema.findings import SchemaFinding
from omnigraph.schema.lint import LINT_CODES, Tier, lint_schema
from omnigraph.schema.source import MAX_SOURCE_BYTES


def test_clean_schema_has_no_findings() -> None:
    assert lint_schema("node A { x: String @key }") == ()


def test_syntax_error_is_a_finding() -> None:
    (finding,) = lint_schema("node A {\n  x String\n}")
    assert (finding.code, finding.severity, finding.line, finding.column) == ("schema.syntax", "error", 2, 5)
    assert finding.message == "parse error: expected ':' after property name 'x', found 'String'"


def test_rule_and_catalog_errors_are_findings() -> None:
    assert [each.code for each in lint_schema("node A { x: String? @key }")] == ["schema.rule"]
    assert [each.code for each in lint_schema("edge E: A -> A")] == ["schema.catalog"]


def test_oversized_text_is_a_finding() -> None:
    (finding,) = lint_schema(" " * (MAX_SOURCE_BYTES + 1))
    assert (finding.code, finding.severity, finding.line) == ("limit.resource", "error", None)


def test_warnings_are_findings() -> None:
    assert lint_schema("node A { x: String\n  @default(1) }") == (
        SchemaFinding(
            "schema.warning.opaque_annotation",
            "warning",
            "@default is kept as it is and has no effect",
            "node:A.x",
            2,
            3,
        ),
    )


def test_code_table() -> None:
    assert sorted(LINT_CODES) == [
        *(f"OG-DS-{number}" for number in range(101, 106)),
        *(f"OG-MF-{number}" for number in (103, 104, 106)),
    ]
    assert {code for code, each in LINT_CODES.items() if each.emitted} == {"OG-MF-103", "OG-MF-106"}
    assert {code for code, each in LINT_CODES.items() if each.tier is Tier.VALIDATED} == {"OG-MF-103", "OG-MF-104"}
    assert {each.severity for each in LINT_CODES.values()} == {"error"}
    assert all(each.family == ("destructive" if "-DS-" in code else "maybe-fail") for code, each in LINT_CODES.items())
