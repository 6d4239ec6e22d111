"""The lint report as an object. Whole reports are in tests/language/query/lint/."""

from __future__ import annotations

from omnigraph.query.lint_queries import SchemaSource, lint
from tests.language.query.fixtures import small_catalog

GOOD = "query a() { match { $p: Person } return { $p } }"
BAD = "query b() {\n  match { $p: Robot } return { $p } }"


def test_warnings_do_not_fail() -> None:
    report = lint('query w() { insert Note { text: "a" } }', small_catalog())
    assert report.ok
    assert (report.count("error"), report.count("warning"), report.count("info")) == (0, 1, 0)


def test_every_query_is_checked() -> None:
    report = lint(f"{BAD}\n{GOOD}\n{BAD}", small_catalog(), "people.gq")
    assert [result.status for result in report.results] == ["error", "ok", "error"]
    assert not report.ok
    assert (report.results[2].line, report.results[2].column) == (5, 11)


def test_schema_source_is_shown() -> None:
    from_file = lint(GOOD, small_catalog(), schema_source=SchemaSource("file", "people.pg"))
    assert from_file.to_dict()["schema_source"] == {"kind": "file", "path": "people.pg"}
    from_graph = lint(GOOD, small_catalog(), schema_source=SchemaSource("graph", "s3://b/g.omni"))
    assert from_graph.to_dict()["schema_source"] == {"kind": "graph", "uri": "s3://b/g.omni"}


def test_a_pattern_of_a_write_counts_as_read() -> None:
    text = "query u($c: String) { match { $p: Person { city: $c }  $p $m:memberOf $t } update $m set { role: null } }"
    operation = lint(text, small_catalog()).results[0].operation
    assert operation is not None
    shown = operation.to_dict()
    assert shown["writes"] == [{"kind": "edge", "type_name": "MemberOf"}]
    assert shown["reads"] == [
        {"kind": "edge", "type_name": "MemberOf"},
        {"kind": "node", "type_name": "Person"},
        {"kind": "node", "type_name": "Team"},
    ]


def test_an_update_of_found_nodes_covers_what_it_sets() -> None:
    text = "query u($h: String) { match { $t: Team  $p memberOf $t } update $t set { budget: 1 } }"
    assert lint(text, small_catalog()).findings == ()


def test_an_update_that_is_wrong_covers_nothing() -> None:
    text = (
        "query u($h: String) { update Person set { age: 1 } where handle = $h }\n"
        'query v($h: String) { update Person set { city: "x", joined: 3 } where handle = $h }'
    )
    report = lint(text, small_catalog())
    assert [finding.property for finding in report.findings] == ["city", "joined", "seen", "tags"]
    assert {finding.query_names for finding in report.findings} == {("u",)}


def test_a_file_that_does_not_parse_reports_its_place() -> None:
    report = lint("query a() {\n  oops }", small_catalog())
    assert report.results == ()
    assert report.findings[0].code == "Q000"
    assert report.findings[0].message.endswith("(line 2, column 3)")
