"""Rules make plans fast and never change an answer: every subset of them gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

import omnigraph as og
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.query_runner import run_plan
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.plan import RULES, build_plan, optimise
from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import NodeScan, Plan
from omnigraph.query.plan.rules import Rule
from tests.language.query.fixtures import QueryCase, read_cases
from tests.support.example_graph import example_graph

CASES = [case for case in read_cases() if not any(word in case.query for word in ("nearest(", "search("))]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with example_graph(tmp_path_factory.mktemp("rules") / "g") as made:
        yield made


def _subsets() -> list[tuple[Rule, ...]]:
    without_one = [tuple(rule for rule in RULES if rule is not left_out) for left_out in RULES]
    return [(), *((rule,) for rule in RULES), *without_one]


def _rows(graph: og.Graph, case: QueryCase, rules: tuple[Rule, ...]) -> list[str]:
    view = GraphView(graph._store, graph.snapshot()._stored, graph.catalog)
    query = check_read(parse_queries(case.query).find(None), graph.catalog)
    plan = optimise(build_plan(query), Estimator(view, graph.catalog), rules)
    table = run_plan(view, plan, bind_params(query, case.params))
    rows = [str(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return rows if query.order else sorted(rows)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_subset_of_the_rules_gives_the_same_rows(graph: og.Graph, case: QueryCase) -> None:
    expected = _rows(graph, case, RULES)
    for rules in _subsets():
        assert _rows(graph, case, rules) == expected, [rule.__name__ for rule in rules]


def test_a_rule_that_breaks_a_plan_is_noticed(graph: og.Graph) -> None:
    case = next(case for case in CASES if case.name == "Q9")

    def forget_a_condition(plan: Plan, _: Estimator) -> Plan:
        first = plan.steps[0]
        assert isinstance(first, NodeScan)
        return replace(plan, steps=(replace(first, predicates=()), *plan.steps[1:]))

    with pytest.raises(AssertionError):
        assert _rows(graph, case, (*RULES, forget_a_condition)) == _rows(graph, case, RULES)
