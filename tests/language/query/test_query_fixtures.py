"""The query language, case by case, from text to typed query; see `fixtures.py` for the files."""

from __future__ import annotations

import json
import re

import pytest

from omnigraph import errors
from omnigraph.query import bind_params, check_query, parse_queries
from omnigraph.query.lint_queries import lint
from omnigraph.query.syntax.tree import QueryFile
from omnigraph.query.typed import TypedMutation, TypedQuery
from tests.language.query.fixtures import (
    HERE,
    QueryCase,
    TextCase,
    read_cases,
    small_catalog,
    text_cases,
    wide_catalog,
    write_cases,
)


def summary(query: TypedQuery | TypedMutation) -> str:
    """The columns of a read, the statements of a write."""
    if isinstance(query, TypedQuery):
        return ", ".join(f"{column.name}: {column.type}" for column in query.columns)
    return ", ".join(f"{type(statement).__name__} {statement.type_name}" for statement in query.changes)


@pytest.mark.parametrize("case", text_cases("valid"), ids=str)
def test_text_is_accepted(case: TextCase) -> None:
    typed = [check_query(query, wide_catalog()) for query in parse_queries(case.text).queries]
    assert "\n".join(map(summary, typed)) == case.expected
    assert len({*typed, *typed}) <= len(typed)  # planners put them into sets and dicts


@pytest.mark.parametrize("case", text_cases("invalid"), ids=str)
def test_text_is_refused_at_its_place(case: TextCase) -> None:
    expected, _, hint = case.expected.partition("\n   (")
    kind, place, message = expected.split(" ", 2)
    with pytest.raises(errors.SourceError) as caught:
        for query in parse_queries(case.text, "people.gq").queries:
            check_query(query, wide_catalog())
    error = caught.value
    assert type(error) is getattr(errors, kind)
    assert f"{error.line}:{error.column}" == place
    assert error.message == message
    assert (error.hint or "") == hint.removesuffix(")")
    assert str(error).startswith(f"people.gq:{place}: ")


@pytest.mark.parametrize("case", text_cases("invalid"), ids=str)
def test_error_knows_its_rule(case: TextCase) -> None:
    rule = re.search(r"type error: (T\d+):", case.expected)
    named = re.match(r"(?:\w+: )(?:X\d+ )?(T\d+)", case.name)
    assert not named or (rule and rule[1] == named[1])
    with pytest.raises(errors.SourceError) as caught:
        for query in parse_queries(case.text).queries:
            check_query(query, wide_catalog())
    assert caught.value.details.get("rule") == (rule[1] if rule else None)


def test_every_rule_has_a_case() -> None:
    found = {rule for case in text_cases("invalid") for rule in re.findall(r"type error: (T\d+):", case.expected)}
    assert found == {f"T{number}" for number in range(1, 26)}


@pytest.mark.parametrize("case", read_cases(), ids=str)
def test_read_is_typed(case: QueryCase) -> None:
    typed = check_query(parse_queries(case.query).find("q"), small_catalog())
    assert isinstance(typed, TypedQuery)
    assert set(bind_params(typed, case.params)) == {parameter.name for parameter in typed.params}
    for row in case.expected:
        assert list(row) == [column.name for column in typed.columns]


@pytest.mark.parametrize("case", write_cases(), ids=str)
def test_write_is_typed(case: QueryCase) -> None:
    query = parse_queries(case.query).find("q")
    if "type_error" in case.expected:
        with pytest.raises(errors.QueryTypeError, match=re.escape(case.expected["type_error"])):
            check_query(query, small_catalog())
        return
    typed = check_query(query, small_catalog())
    assert isinstance(typed, TypedMutation)
    assert set(bind_params(typed, case.params)) == {parameter.name for parameter in typed.params}


PARAMETER_LINES = [line for line in (HERE / "parameters.txt").read_text("utf-8").splitlines() if line.strip()]


@pytest.mark.parametrize("line", PARAMETER_LINES)
def test_parameter_from_json(line: str) -> None:
    """``type | JSON object | => value`` or ``! message``."""
    kind, given, expected = (part.strip() for part in line.split(" | "))
    text = f"query q($x: {kind}) {{ match {{ $p: Person }} return {{ $p.name }} }}"
    typed = check_query(parse_queries(text).find(), small_catalog())
    if expected.startswith("! "):
        with pytest.raises(errors.ParameterError) as caught:
            bind_params(typed, json.loads(given))
        assert caught.value.message == expected[2:]
    else:
        assert repr(bind_params(typed, json.loads(given))["x"]) == expected.removeprefix("=> ")


LINTED = sorted((HERE / "lint").glob("*.gq"))


@pytest.mark.parametrize("path", LINTED, ids=lambda path: path.stem)
def test_lint_report(path: object) -> None:
    name = getattr(path, "name", "")
    report = lint((HERE / "lint" / name).read_text("utf-8"), wide_catalog(), name)
    expected = json.loads((HERE / "lint" / name).with_suffix(".json").read_text("utf-8"))
    assert report.to_dict() == expected
    assert list(report.to_dict()) == list(expected)


def test_layout_does_not_change_the_tree() -> None:
    def spread(text: str) -> str:
        return re.sub(r' (?=[^"]*(?:"[^"]*"[^"]*)*$)', "  // note\n\t/* gap */ ", text)

    def tree(text: str) -> QueryFile:
        return parse_queries(text)

    for case in read_cases():
        assert tree(spread(case.query)) == tree(case.query)
