"""Every read gives behind a server what it gives in this process, to the last attribute."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from tests.behaviour.conftest import SCHEMA
from tests.support.served import served

ALL = """query q() {
    match { $p: Person }
    return { $p, $p.name as name, $p.age, $p.born, $p.seen, $p.score, $p.tags, $p.mood }
    order { name }
}"""
TWICE = "query q() { match { $p: Person } return { $p.name as x, $p.age as x } order { $p.handle } }"
NONE = 'query q() { match { $p: Person { handle: "nobody" } } return { $p.name, $p.born } }'
KEYED = "query k($h: String, $since: Date?) { match { $p: Person { handle: $h } } return { $p.name as name } }"
TWO = """query a() { match { $p: Person } return { count($p) as n } }
query b() { match { $p: Place } return { $p.size as size } }"""

Read = Callable[[og.Graph], Any]


def result(found: og.Result) -> Any:
    """Everything that a result says."""
    table = found.to_arrow()
    columns = [column.to_pylist() for column in table.columns]
    at = found.at
    return table.schema.types, found.columns, found.types, columns, found.query_name, found.branch, at, found.commit_id


def lint(report: og.LintReport) -> Any:
    places = [(each.line, each.column, each.excerpt, each.hint) for each in report.results]
    return report.to_dict()["results"], report.to_dict()["findings"], places, report.ok


def explained(found: og.Explanation) -> Any:
    return [(line.depth, line.text) for line in found.lines], found.rows, sorted(found.measured)


def commit(found: og.Commit) -> Any:
    return found.to_dict(), found.readable, found.summary, repr(found)


def page(found: og.ChangePage) -> Any:
    return found.to_dict(), [commit(block.commit) for block in found], repr(found)


def diff(found: og.Diff) -> Any:
    states = (found.from_commit, found.to_commit, found.from_version, found.to_version, found.branch)
    return states, list(found), found.stats, list(found.jsonl()), found.to_json(), found.to_dict(), found.to_arrow()


def blob(found: og.Blob) -> Any:
    with found.open() as file:
        file.seek(2)
        moved = file.read()
    return found.size, found.etag, found.kind, found.read(), found.read(1, 3), found.read(6), moved, repr(found)


def stats(found: og.GraphStats) -> Any:
    told = found.to_dict()
    # Each look at a graph may leave a cache file of its own.
    return {name: told[name] for name in ("branch", "commits", "tables", "branches", "tags", "drift", "manifest")}


def first(graph: og.Graph) -> og.Commit:
    return graph.commits.list()[-1]


READS: dict[str, Read] = {
    "a query": lambda graph: result(graph.query(ALL)),
    "columns with one name": lambda graph: result(graph.query(TWICE)),
    "no rows": lambda graph: result(graph.query(NONE)),
    "a parameter": lambda graph: result(graph.query(KEYED, {"h": "ana"})),
    "a parameter that is null": lambda graph: result(graph.query(KEYED, "k", {"h": "bo", "since": None})),
    "one of two queries": lambda graph: result(graph.query(TWO, "b")),
    "at a commit": lambda graph: result(graph.query(TWO, "a", at=first(graph).id)),
    "at a version": lambda graph: result(graph.query(TWO, "a", at=first(graph).version)),
    "at a version of a branch": lambda graph: result(graph.query(TWO, "a", at=3, branch="main")),
    "at a time": lambda graph: result(graph.query(TWO, "a", at=datetime(2999, 1, 1, tzinfo=UTC))),
    "at a day": lambda graph: result(graph.query(TWO, "a", at="2999-01-01")),
    "a search": lambda graph: graph.search("calm", hops=1),
    "a search in one type": lambda graph: graph.search("cy", "Person", limit=1).to_dict(),
    "a plan": lambda graph: explained(graph.explain(KEYED, {"h": "ana"})),
    "a plan that was run": lambda graph: explained(graph.explain(KEYED, {"h": "ana"}, run=True)),
    "lint": lambda graph: lint(graph.lint(KEYED + " query w() { match { $p: Persn } return { $p } }")),
    "lint of no query": lambda graph: lint(graph.lint("nonsense")),
    "counts of a state": lambda graph: [graph.snapshot().count(name) for name in ("Person", "edge:Follows", "Place")],
    "a state": lambda graph: (graph.snapshot().branch, graph.snapshot().version, graph.snapshot().commit_id),
    "tables of a state": lambda graph: [
        (key, pin.location, pin.version, pin.branch, pin.row_count) for key, pin in graph.snapshot().tables.items()
    ],
    "rows": lambda graph: graph.snapshot().arrow("Place").to_pylist(),
    "some columns of rows": lambda graph: graph.snapshot().arrow("Person", ["id", "seen"]).to_pylist(),
    "rows in pieces": lambda graph: graph.snapshot().reader("Place").read_all().to_pylist(),
    "a blob": lambda graph: blob(graph.blob("Person", "ana", "photo")),
    "commits": lambda graph: [commit(each) for each in graph.commits.list()],
    "some commits": lambda graph: [
        commit(each) for each in graph.commits.list(actor="act-first", kind=["load"], limit=1)
    ],
    "a commit": lambda graph: commit(graph.commits.get(first(graph).id)),
    "the head": lambda graph: commit(graph.commits.head()),
    "the graph of commits": lambda graph: [
        (commit(each.commit), each.parents, each.heads) for each in graph.commits.graph()
    ],
    "branches": lambda graph: (graph.branches.list(), list(graph.branches)),
    "tags": lambda graph: (graph.tags.list(), list(graph.tags)),
    "the feed": lambda graph: page(graph.changes("beginning")),
    "a page of the feed": lambda graph: page(graph.changes("beginning", limit=2, kinds=["node"], ops="insert")),
    "the end of the feed": lambda graph: graph.changes().caught_up,
    "changes of a commit": lambda graph: list(graph.commit_changes(graph.commits.head().id)),
    "some changes of a commit": lambda graph: graph.commit_changes(graph.commits.head().id, types=["Place"]).rows(),
    "a page of a commit": lambda graph: graph.commit_changes(graph.commits.head().id).page(2).to_dict(),
    "a diff": lambda graph: diff(graph.diff(first(graph).id, "main")),
    "some of a diff": lambda graph: list(graph.diff(first(graph).id, graph.snapshot(), kinds="edge")),
    "an export": lambda graph: graph.export(),
    "an export of one type": lambda graph: graph.export(types=["Follows"]).text,
    "a baseline": lambda graph: graph.baseline(),
    "the schema": lambda graph: (graph.schema.text, graph.schema.hash, graph.catalog.nodes, graph.catalog.edges),
    "a plan of a change": lambda graph: (
        (plan := graph.schema.plan(graph.schema.text.replace("age: I32?", "age: I64?  nick: String?"))),
        plan.lines(),
    ),
    "statistics": lambda graph: stats(graph.stats()),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_is_the_same(read: Read, both: tuple[og.Graph, og.Graph]) -> None:
    graph, embedded = both
    assert read(graph) == read(embedded)


def test_a_result_is_arrow_of_the_same_types(both: tuple[og.Graph, og.Graph]) -> None:
    graph, embedded = both
    found = graph.query(ALL).to_arrow()
    assert found.equals(embedded.query(ALL).to_arrow())
    assert found.schema.field("p.seen").type == pa.timestamp("ms", "UTC")


@pytest.mark.s3
def test_two_servers_write_to_one_graph_on_s3_in_turns(s3_root: str) -> None:
    uri = f"{s3_root}/people.omni"
    og.init(uri, SCHEMA).close()
    with ExitStack() as stack:
        handles = [stack.enter_context(served({"people": uri})).graph_url() for _ in range(2)]
        one, two = (stack.enter_context(og.open(url)) for url in handles)
        one.load({"Person": [{"handle": "ana", "name": "Ana"}, {"handle": "bo", "name": "Bo"}]}, "append")
        two.mutate('query q() { insert Follows { from: "ana", to: "bo" } }')
        two.branches.create("x")
        one.mutate('query q() { update Person set { name: "A." } where handle = "ana" }', branch="x")
        assert two.branches.merge("x", delete_branch=True).outcome == "fast_forward"
        names = one.query("query q() { match { $p: Person } return { $p.name as name } order { name } }")
        assert names.column("name").to_pylist() == ["A.", "Bo"]
        assert [commit.kind for commit in two.commits.list()] == ["merge", "mutation", "load", "init"]
