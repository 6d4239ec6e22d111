"""Every rule of the planner fires on a plan that it is for, saves work there, and leaves the answer as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.engine.execution_context import ExecutionTrace
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.query_runner import run_plan
from omnigraph.engine.table_rows import TableRows
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.plan import RULES, Plan, build_plan, optimise
from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import TopK

PEOPLE, DEGREE = 30, 6
SCHEMA = """
node Person { name: String @key  age: I32  note: String? }
edge Knows: Person -> Person
"""

#: rule → a query that it is for. The work is counted without and with the rule, the other rules being on.
QUERIES = {
    "factorized_aggregate": """query q() {
        match { $a: Person  $a knows $b  $b knows $c }
        return { $a.name as name, count($c) as paths } order { name } }""",
    "join_order": """query q() {
        match { $a: Person  $b: Person  $a knows $b  $b.name = "p7" } return { $a.name as name } order { name } }""",
    "predicate_pushdown": """query q() {
        match { $a: Person  $a knows $b  $b knows $c  $a.age < 3 } return { $c.name as name } order { name } }""",
    "rank_first": """query q() {
        match { $a: Person  $a knows $b }
        return { $a.name as name, $b.name as other } order { bm25($a.note, "n3") } limit 5 }""",
    "semi_join": """query q() {
        match { $a: Person  not { $a knows $b  $b knows $c  $c knows $d  $d knows $e  $e.age < $a.age } }
        return { $a.name as name } order { name } }""",
    "early_distinct": """query q() {
        match { $a: Person  $a knows $b  $b knows $c } return distinct { $c.name as name } order { name } }""",
    "top_k": """query q() {
        match { $a: Person  $a knows $b }
        return { $a.name as name, $b.note as note } order { $a.age, $b.note } limit 5 }""",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    folder: Path = tmp_path_factory.mktemp("savings")
    people = [f'{{"type":"Person","data":{{"name":"p{n}","age":{n},"note":"n{n % 7}"}}}}' for n in range(PEOPLE)]
    knows = [
        f'{{"edge":"Knows","from":"p{n}","to":"p{(n * step + step) % PEOPLE}"}}'
        for n in range(PEOPLE)
        for step in range(1, DEGREE + 1)
    ]
    (folder / "people.jsonl").write_text("\n".join([*people, *knows]))
    with og.init(folder / "g", SCHEMA) as made:
        made.load(folder / "people.jsonl", "append")
        yield made


def _planned(graph: og.Graph, text: str, off: str | None) -> tuple[GraphView, Plan]:
    snapshot = graph.snapshot()
    view = GraphView(graph.internals.store, snapshot._stored, graph.catalog)
    query = check_read(parse_queries(text).find(None), graph.catalog)
    rules = tuple(rule for rule in RULES if rule.__name__ != off)
    return view, optimise(build_plan(query), Estimator(view, graph.catalog), rules)


def _run(graph: og.Graph, name: str, off: str | None, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], int, int]:
    """The rows of the answer, the bindings that all steps made, and the values that were fetched."""
    view, plan = _planned(graph, QUERIES[name], off)
    trace, fetched = ExecutionTrace(), 0
    values, column = TableRows.values, TableRows.column

    def counted(self: TableRows, name: str, positions: Any) -> Any:
        nonlocal fetched
        fetched += len(positions)
        return values(self, name, positions)

    def counted_whole(self: TableRows, name: str, *budget: Any) -> Any:
        nonlocal fetched
        fetched += len(self)
        return column(self, name, *budget)

    with monkeypatch.context() as patched:
        patched.setattr(TableRows, "values", counted)
        patched.setattr(TableRows, "column", counted_whole)
        table = run_plan(view, plan, bind_params(plan.query, None), trace)
    bindings = sum(rows for step, rows, _ in trace.steps if not isinstance(step, TopK))
    return table.to_pylist(), bindings, fetched


def test_a_distinct_count_forgets_how_a_node_was_reached(graph: og.Graph) -> None:
    text = "query q() { match { $a: Person  $a knows $b  $b knows $c } return { count(distinct $c) as n } }"
    assert "early_distinct" in _planned(graph, text, None)[1].applied
    assert (
        "early_distinct"
        not in _planned(graph, text.replace("distinct $c) as n", "distinct $c) as n, sum($b.age) as s"), None)[
            1
        ].applied
    )
    assert graph.query(text).rows() == [{"n": PEOPLE}]


@pytest.mark.parametrize("name", QUERIES)
def test_a_rule_fires_and_saves_work_and_keeps_the_answer(
    graph: og.Graph, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in _planned(graph, QUERIES[name], None)[1].applied
    assert name not in _planned(graph, QUERIES[name], name)[1].applied
    _run(graph, name, None, monkeypatch)  # columns that are read once and kept are in memory for both
    with_rule, bindings, fetched = _run(graph, name, None, monkeypatch)
    without, more_bindings, more_fetched = _run(graph, name, name, monkeypatch)
    assert with_rule == without
    assert len(with_rule) > 0
    if name == "top_k":  # selects among the same bindings
        assert bindings == more_bindings and fetched * 2 < more_fetched
    else:
        assert bindings * 2 < more_bindings


def test_every_rule_has_a_query_here() -> None:
    assert set(QUERIES) == {rule.__name__ for rule in RULES}


def test_a_run_explanation_counts_what_was_selected_and_what_inner_steps_found(graph: og.Graph) -> None:
    shown = str(graph.explain(QUERIES["top_k"], run=True))
    line = next(line for line in shown.splitlines() if line.startswith("top k by $a.age, $b.note"))
    assert "→ 5 rows" in line
    shown = str(graph.explain(QUERIES["semi_join"], run=True))
    inner = [line for line in shown.splitlines() if line.startswith("  ")]
    assert inner and all("→" in line for line in inner)
