"""A read of one row by its key gives what its plan gives, whatever happened to the row."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.engine.point_read import PointRead
from omnigraph.engine.query_runner import plan_query, run_plan
from omnigraph.engine.result_table import table_of
from omnigraph.errors import ParameterError, QueryCancelled, ResourceLimitExceeded
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.plan import Plan
from omnigraph.read_budget import ReadBudget

SCHEMA = """
node P { k: String @key  n: I32?  f: F32?  d: Date?  t: DateTime?  tags: [String]?  v: Vector(2)?  b: Bool? }
node Q { k: I32 @key }
edge E: P -> P
"""

ALL = "query q($k: String) { match { $p: P { k: $k } } return { $p.k, $p.n, $p.f, $p.d, $p.t, $p.tags, $p.v, $p.b } }"

ROWS = [
    {"k": "a", "n": 1, "f": 0.5, "d": "2026-01-31", "t": "2026-01-31T12:00:00.123Z", "tags": ["x", "y"], "b": True},
    {"k": "b", "v": [1.0, 2.0], "tags": []},
    {"k": "c"},
]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load({"P": ROWS, "Q": [{"k": 1}]}, "append")
    graph.query("query q() { match { $p: P } return { $p.k, $p.n, $p.f, $p.d, $p.t, $p.tags, $p.v, $p.b } }")
    return graph


def plan_of(graph: og.Graph, text: str) -> Plan:
    snapshot = graph.internals.snapshot()
    return plan_query(
        graph._reads.view(snapshot), graph.catalog, check_read(parse_queries(text).find(None), graph.catalog)
    )


def test_a_point_read_gives_the_table_of_its_plan(graph: og.Graph) -> None:
    plan = plan_of(graph, ALL)
    point = PointRead.of(plan, graph.catalog)
    assert point is not None
    graph.query(ALL, {"k": "a"})
    for change in (
        'query q() { update P set { n: 7 } where k = "a" }',
        'query q() { delete P where k = "b" }',
        'query q() { insert P { k: "b", n: 3 } }',
    ):
        view = graph._reads.view(graph.internals.snapshot())
        for key in ("a", "b", "c"):
            params = bind_params(plan.query, {"k": key})
            found, planned = point.run(view, params, ReadBudget()), run_plan(view, plan, params)
            assert table_of(found, 1).equals(planned) if found is not None else planned.num_rows == 0
        graph.mutate(change)
        graph.query(ALL, {"k": "a"})


def test_rows_that_come_and_go_are_seen_at_once(graph: og.Graph) -> None:
    text = "query q($k: String) { match { $p: P { k: $k } } return { $p.n as n } }"
    assert graph.query(text, {"k": "a"}).rows() == [{"n": 1}]
    graph.mutate('query q() { update P set { n: 7 } where k = "a" }')
    assert graph.query(text, {"k": "a"}).rows() == [{"n": 7}]
    graph.mutate('query q() { delete P where k = "a" }')
    assert graph.query(text, {"k": "a"}).rows() == []
    graph.mutate('query q() { insert P { k: "a", n: 8 } }')
    assert graph.query(text, {"k": "a"}).rows() == [{"n": 8}]
    assert graph.query(text, {"k": "nobody"}).rows() == []


@pytest.mark.parametrize(
    "text",
    [
        'query q() { match { $p: P { k: "a" }  $p.n = 1 } return { $p.n } }',
        'query q() { match { $p: P { k: "a" } } return { count($p) as c } }',
        'query q() { match { $p: P { k: "a" } } return distinct { $p.n } }',
        'query q() { match { $p: P { k: "a" } } return { $p.n } limit 1 }',
        'query q() { match { $p: P { k: "a" } } return { $p.n } order { $p.n } }',
        'query q() { match { $p: P { k: "a" }  $o: P { k: "b" } } return { $p.n, $o.n } }',
        'query q() { match { $p: P { k: "a" }  $p e $o } return { $o.n } }',
        "query q() { match { $p: Q { k: 1 } } return { $p.k } }",
        "query q() { match { $p: P { n: 1 } } return { $p.k } }",
    ],
)
def test_a_plan_that_does_more_is_no_point_read(graph: og.Graph, text: str) -> None:
    assert PointRead.of(plan_of(graph, text), graph.catalog) is None


def test_a_point_read_keeps_its_bounds(graph: og.Graph) -> None:
    graph.query(ALL, {"k": "a"})
    with pytest.raises(ResourceLimitExceeded):
        graph.query(ALL, {"k": "a"}, max_bytes=8)
    with pytest.raises(QueryCancelled):
        graph.query(ALL, {"k": "a"}, is_cancelled=lambda: True)
    with pytest.raises(ParameterError):
        graph.query(ALL, {"k": 3})
