"""Finding queries, wrong entry points, and words that are operators here and edges there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.errors import QueryNotFound, QueryTypeError
from omnigraph.query import check_query, check_read, check_write, parse_queries
from omnigraph.query.syntax.tree import EdgePattern, FilterClause
from tests.language.query.fixtures import small_catalog

READ = "query r() { match { $p: Person } return { $p } }"
WRITE = 'query w() { delete Person where handle = "x" }'


def test_find_gives_the_first_of_its_name() -> None:
    file = parse_queries(f"{WRITE}\n{READ}\n{READ.replace('Person', 'Team')}", "people.gq")
    assert file.find("r") is file.queries[1]
    assert file.find("w").is_write


def test_find_refuses_unknown_names() -> None:
    with pytest.raises(QueryNotFound, match="query 'x' not found"):
        parse_queries(READ).find("x")


def test_find_without_a_name_needs_exactly_one_query() -> None:
    assert parse_queries(READ).find().name == "r"
    with pytest.raises(QueryNotFound, match="holds 2 queries"):
        parse_queries(READ + WRITE).find()
    with pytest.raises(QueryNotFound, match="holds no query"):
        parse_queries("").find()


def test_a_write_is_no_read_and_a_read_no_write() -> None:
    with pytest.raises(QueryTypeError, match="read execution called on a mutation query; use mutate instead"):
        check_read(parse_queries(WRITE).find(), small_catalog())
    with pytest.raises(QueryTypeError, match="mutation execution called on a read query; use query instead"):
        check_write(parse_queries(READ).find(), small_catalog())


def test_an_error_names_query_file_and_line() -> None:
    text = "query a() { match { $p: Person } return { $p } }\n\nquery b() {\n  match { $p: Robot }\n  return { $p }\n}"
    with pytest.raises(QueryTypeError) as caught:
        check_query(parse_queries(text, "people.gq").find("b"), small_catalog())
    assert (caught.value.details["query"], caught.value.details["rule"]) == ("b", "T1")
    assert str(caught.value) == (
        "people.gq:4:11: type error: T1: unknown node type `Robot` (known: Doc, Note, Person, Team)\n"
        "    match { $p: Robot }\n            ^"
    )


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("$a in $b", EdgePattern),
        ("$a is $b", EdgePattern),
        ("$a contains $b", EdgePattern),
        ("$a starts_with $b", EdgePattern),
        ("$a in {1,2} $b", EdgePattern),
        ("$a is {1,} $b", EdgePattern),
        ("$a or $b", EdgePattern),
        ("$a and $b", EdgePattern),
        ("$a optional $b", EdgePattern),
        ("$a optional{1,2} $b", EdgePattern),
        ("$a <in> $b", EdgePattern),
        ("$a $w:in $b", EdgePattern),
        ("$a in [1]", FilterClause),
        ("$a in $b.c", FilterClause),
        ("$a contains $b.c", FilterClause),
        ("$a not in $b", FilterClause),
        ("$a is null", FilterClause),
        ("$a is not null", FilterClause),
        ('$a contains "x"', FilterClause),
        ("$a < $b", FilterClause),
        ("$a <= $b", FilterClause),
        ("$a.in in $b", FilterClause),
        ("$a.is is null", FilterClause),
        ("$a.or = 1 or $a.and = 2", FilterClause),
    ],
)
def test_ordered_choice(clause: str, kind: type) -> None:
    body = parse_queries(f"query q() {{ match {{ {clause}  $z: Z }} return {{ 1 }} }}").find().body
    assert [type(found).__name__ for found in body.match] == [kind.__name__, "NodePattern"]  # type: ignore[union-attr]


def test_the_example_of_the_documentation_is_valid() -> None:
    page = Path(__file__).parents[2] / "docs" / "query-grammar.md"
    examples = re.findall(r"```gq\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert examples
    for text in examples:
        for query in parse_queries(text).queries:
            assert check_query(query, small_catalog()).name == query.name


def test_an_operator_between_lone_variables_explains_itself() -> None:
    text = "query q($x: String, $y: [String]) { match { $p: Person  $x in $y } return { $p } }"
    with pytest.raises(QueryTypeError, match="T4: unknown edge type `in`") as caught:
        check_query(parse_queries(text).find(), small_catalog())
    assert caught.value.hint is not None
    assert "put a property on the left" in caught.value.hint
