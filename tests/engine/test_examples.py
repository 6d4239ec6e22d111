"""The reads of the language fixtures, run by the engine and by the naive evaluator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.engine.running import json_rows, oracle_answer
from tests.language.query.fixtures import HERE, QueryCase, read_cases
from tests.oracle.naive import Answer, GraphData
from tests.support.example_graph import example_data, example_graph
from tests.support.small_graphs import rows_of


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("example")) as graph:
        yield graph


@pytest.fixture(scope="module")
def data() -> GraphData:
    return example_data()


def complaint(case: QueryCase, actual: list[dict[str, Any]]) -> str | None:
    """What is wrong with an answer to a case, or None."""
    columns = list(case.expected[0]) if case.expected else list(actual[0]) if actual else []
    rows = [tuple(row.values()) for row in case.expected]
    return Answer(columns, rows, "total" if case.mode == "=" else "none").complaint(actual)


@pytest.mark.parametrize("case", read_cases(), ids=str)
def test_naive_evaluator_gives_the_written_rows(case: QueryCase, data: GraphData) -> None:
    answer = oracle_answer(case.query, data, case.params)
    assert complaint(case, answer.expected()) is None
    assert answer.complaint(case.expected) is None
    assert case.mode == "~" or len(case.expected) < 2 or answer.order in ("total", "keys")


@pytest.mark.parametrize("case", read_cases(), ids=str)
def test_engine_gives_the_written_rows(case: QueryCase, graph: og.Graph) -> None:
    found = graph.query(case.query, params=case.params)
    assert complaint(case, json_rows(found)) is None
    assert json.loads(found.to_json())["rows"] == json_rows(found)


def test_example_graph_holds_the_rows_of_the_file(graph: og.Graph, data: GraphData) -> None:
    lines = (HERE / "data.jsonl").read_text("utf-8").splitlines()
    every = {**data.nodes, **data.edges}
    assert sum(map(len, every.values())) == len(lines) == 28
    for type_name, rows in every.items():
        assert set(rows_of(graph, type_name)) == {row["id"] for row in rows}
    assert rows_of(graph, "Follows")["f1"]["src"] == "ana"


def test_query_of_a_file_is_chosen_by_name(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "two.gq"
    path.write_text(
        "query a() { match { $t: Team } return { count($t) as n } }\n"
        "query b() { match { $d: Doc } return { count($d) as n } }\n"
    )
    assert graph.query(path, name="b").rows() == [{"n": 4}]
    assert graph.query(path.read_text(), "a").rows() == [{"n": 3}]
    with pytest.raises(og.errors.QueryNotFound):
        graph.query(path, name="c")


def test_parameters_may_stand_in_the_place_of_the_name(graph: og.Graph) -> None:
    text = "query q($h: String) { match { $p: Person { handle: $h } } return { $p.name as name } }"
    assert graph.query(text, {"h": "ana"}).scalar() == graph.query(text, "q", {"h": "ana"}).scalar() == "Ana Ruiz"
    assert graph.explain(text, {"h": "ana"}, run=True).rows == 1
    with pytest.raises(og.errors.InputError, match="parameters are given twice"):
        graph.query(text, {"h": "ana"}, {"h": "bo"})
    with pytest.raises(og.errors.InputError, match="the name of a query is a text, not int"):
        graph.query(text, 7)  # type: ignore[arg-type]
    with pytest.raises(og.errors.ParameterError, match="did you mean 'h'"):
        graph.explain(text, {"H": "ana"})


def test_result_knows_where_it_comes_from(graph: og.Graph) -> None:
    head = graph.commits.head()
    text = "query team_names() { match { $t: Team } return { $t.label } }"
    found = graph.query(text)
    assert (found.query_name, found.branch, found.at, found.commit_id) == ("team_names", "main", None, head.id)
    past = graph.query(text, at=head.id)
    assert (past.at, past.commit_id) == (head.id, head.id)


@pytest.mark.parametrize(
    ("text", "params", "error", "message"),
    [
        ("query q() { match { $p: Robot } return { $p.name } }", {}, "QueryTypeError", "T1"),
        ("query q() { match { $p Person } return { $p.name } }", {}, "QuerySyntaxError", "Person"),
        ("query q($h: String) { match { $p: Person { handle: $h } } return { $p.name } }", {}, "ParameterError", "h"),
        ("query q() { delete Person where handle = \"ana\" }", {}, "QueryTypeError", "use mutate instead"),
        ("query q($n: I64) { match { $p: Person } return { $p } limit $n }", {"n": -1}, "ParameterError", "n"),
    ],
)  # fmt: skip
def test_wrong_query_is_refused(text: str, params: dict[str, Any], error: str, message: str, graph: og.Graph) -> None:
    with pytest.raises(getattr(og.errors, error), match=message):
        graph.query(text, params=params)
    assert graph.snapshot().count("Person") == 5
