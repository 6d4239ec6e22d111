"""A policy holds an actor behind a server as it holds one in this process: what may not be seen does not exist, and
what may not be done is refused in the same words."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from tests.support.served import served

SCHEMA = """
node Person { handle: String @key  name: String }
node Salary { code: String @key  amount: I64 }
edge Knows: Person -> Person
edge Earns: Person -> Salary
"""
RULES = """version: 1
groups:
  team: [act-bo]
  payroll: [act-pay]
protected_branches: [main]
rules:
  - id: team-read
    allow: { actors: { group: team }, actions: [read, export], types: [Person, Knows] }
  - id: team-write
    allow: { actors: { group: team }, actions: [change], branch_scope: unprotected, types: [Person, Knows] }
  - id: payroll
    allow: { actors: { group: payroll }, actions: [read, export, change] }
"""
RENAME = 'query q() { update Person set { name: "B." } where handle = "bo" }'
RAISE = 'query q() { update Salary set { amount: 1 } where code = "s1" }'
ACTORS = {"act-bo": "token-bo", "act-pay": "token-pay", "act-nobody": "token-nobody"}

Done = Callable[[og.Graph], Any]

#: Reads and refused writes; none of them changes the graph.
DONE: dict[str, Done] = {
    "catalog": lambda graph: (sorted(graph.catalog.nodes), sorted(graph.catalog.edges)),
    "tables": lambda graph: {key: pin.row_count for key, pin in graph.snapshot().tables.items()},
    "a query": lambda graph: graph.query("query q() { match { $p: Person } return { count($p) as n } }").scalar(),
    "a hidden query": lambda graph: graph.query("query q() { match { $s: Salary } return { $s.amount } }").rows(),
    "hidden rows": lambda graph: graph.snapshot().arrow("Salary").num_rows,
    "a hidden count": lambda graph: graph.snapshot().count("Earns"),
    "an export": lambda graph: graph.export().text,
    "a hidden export": lambda graph: graph.export(types=["Salary"]).text,
    "a baseline": lambda graph: (graph.baseline().text or "").count("\n"),
    "the feed": lambda graph: graph.changes("beginning").to_dict(),
    "a diff": lambda graph: graph.diff(graph.commits.list()[-1].id, "main").rows(),
    "a hidden diff": lambda graph: graph.diff("main", "review/x", types=["Salary"]).rows(),
    "commits": lambda graph: [commit.to_dict() for commit in graph.commits.list()],
    "branches": lambda graph: graph.branches.list(),
    "the schema": lambda graph: graph.schema.text,
    "a plan of a schema": lambda graph: graph.schema.plan("node Person { handle: String @key }").lines(),
    "a change on main": lambda graph: graph.mutate(RENAME, branch="main") if is_denied(graph) else None,
    "a hidden change": lambda graph: graph.mutate(RAISE, branch="review/x") if is_denied(graph) else None,
    "a hidden load": lambda graph: (
        graph.load(io.StringIO('{"type":"Salary","data":{"code":"x","amount":1}}\n'), "append", branch="review/x")
        if is_denied(graph)
        else None
    ),
    "a new branch": lambda graph: graph.branches.create("mine"),
    "a merge": lambda graph: graph.branches.merge("review/x"),
    "a branch to delete": lambda graph: graph.branches.delete("review/x"),
    "a tag": lambda graph: graph.tags.create("t") if is_denied(graph) else None,
    "a revert": lambda graph: graph.revert(graph.commits.head().id) if is_denied(graph) else None,
    "a schema": lambda graph: graph.schema.apply("node Person { handle: String @key }"),
}


def is_denied(graph: og.Graph) -> bool:
    """Whether the actor of a handle may not change everything: payroll may, and would."""
    return "Salary" not in told(lambda each: sorted(each.catalog.nodes), graph)


def told(done: Done, graph: og.Graph) -> Any:
    """What somebody learns: an answer, or everything that an error says."""
    try:
        return done(graph)
    except OmniGraphError as error:
        return type(error), error.code, error.message, error.hint, error.details


@pytest.fixture(scope="module", params=ACTORS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[og.Graph, og.Graph]]:
    """The graph of one actor, behind a server and in this process."""
    folder = tmp_path_factory.mktemp("policies")
    (folder / "rules.yaml").write_text(RULES, "utf-8")
    with og.init(folder / "staff.omni", SCHEMA) as graph:
        people = [{"handle": "ana", "name": "Ana"}, {"handle": "bo", "name": "Bo"}]
        rows = {
            "Person": people,
            "Salary": [{"code": "s1", "amount": 7000}],
            "Knows": [{"from": "ana", "to": "bo", "id": "k1"}],
            "Earns": [{"from": "ana", "to": "s1", "id": "e1"}],
        }
        graph.load(rows, "append")
        graph.branches.create("review/x")
    with ExitStack() as stack:
        server = stack.enter_context(
            served({"staff": folder / "staff.omni"}, tokens=ACTORS, policy=folder / "rules.yaml")
        )
        remote: Any = stack.enter_context(og.open(server.graph_url("staff"), token=ACTORS[request.param]))
        here = og.open(folder / "staff.omni", actor=request.param, policy=folder / "rules.yaml")
        yield remote, stack.enter_context(here)


@pytest.mark.parametrize("done", DONE.values(), ids=DONE)
def test_an_actor_learns_the_same(done: Done, pair: tuple[og.Graph, og.Graph]) -> None:
    remote, here = pair
    assert told(done, remote) == told(done, here)


def test_a_write_names_the_actor_of_the_token(pair: tuple[og.Graph, og.Graph]) -> None:
    remote, here = pair
    found = told(lambda graph: graph.mutate(RENAME, branch="review/x").actor, remote)
    assert found == told(lambda graph: graph.mutate(RENAME, branch="review/x").actor, here)
    assert found in ("act-bo", "act-pay") or found[1] == "denied.policy"
