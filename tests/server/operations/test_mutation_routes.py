"""Writes over HTTP: what they answer, under which condition, and what is wrong with a request."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.server.operations.api import ADD, Api, refused

HEADER = "Omnigraph-If-Graph-Commit"


def test_a_write_answers_with_its_commit_and_the_list_shows_the_same(shared: Api, branch: str) -> None:
    before = shared.head(branch)
    done = shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=f" {branch} ", message="for the party")
    assert {key: done[key] for key in ("branch", "query_name", "affected_nodes", "affected_edges", "actor_id")} == {
        "branch": branch,
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": None,
    }
    commit = done["commit"]
    assert (commit["parent_commit_id"], commit["graph_branch"], commit["message"]) == (before, branch, "for the party")
    assert shared.told(f"/commits/{commit['graph_commit_id']}") == commit
    assert shared.told("/commits", branch=branch, limit=1)["commits"] == [commit]


def test_a_write_that_matches_nothing_has_no_commit(shared: Api, branch: str) -> None:
    before = shared.head(branch)
    done = shared.done("/mutate", query='query q() { delete Person where name = "Nobody" }', branch=branch)
    assert (done["commit"], done["affected_nodes"]) == (None, 0)
    assert shared.head(branch) == before


def test_the_older_names_are_known(shared: Api, branch: str) -> None:
    reply = shared.post("/change", query_source=ADD, query_name="add", params={"name": "Eve"}, branch=branch)
    assert reply.json()["affected_nodes"] == 1
    assert (reply.headers["deprecation"], reply.headers["link"]) == ("true", '<mutate>; rel="successor-version"')
    refused(
        shared.post("/mutate", query=ADD, query_source=ADD, params={"name": "F"}, branch=branch), 400, "bad_request"
    )
    refused(shared.post("/mutate", params={"name": "F"}, branch=branch), 400, "bad_request")
    assert "F" not in shared.names(branch=branch)


def test_a_condition_that_holds_and_one_that_does_not(shared: Api, branch: str) -> None:
    head = shared.head(branch)
    path, body = "/mutate/if-graph-commit", {"query": ADD, "branch": branch}
    done = shared.post(path, {HEADER: head}, params={"name": "Eve"}, **body)
    assert done.json()["commit"]["parent_commit_id"] == head
    envelope = refused(shared.post(path, {HEADER: head}, params={"name": "Fay"}, **body), 412)
    newest = done.json()["commit"]["graph_commit_id"]
    assert envelope["precondition_failure"] == {"expected": head, "actual": newest}
    assert shared.head(branch) == newest and "Fay" not in shared.names(branch=branch)


@pytest.mark.parametrize("given", ["", "*", "a, b", '"a"', 'W/"a"', "W/a", "a b", "\xe4"])
def test_a_condition_is_exactly_one_raw_id(shared: Api, given: str) -> None:
    refused(
        shared.post("/mutate/if-graph-commit", {HEADER: given}, query=ADD, params={"name": "G"}), 400, "bad_request"
    )
    assert "G" not in shared.names()


def test_a_condition_is_there_once_where_it_belongs_and_nowhere_else(shared: Api) -> None:
    body = {"query": ADD, "params": {"name": "G"}}
    refused(shared.send("POST", "/mutate/if-graph-commit", body), 400, "bad_request")
    head = shared.head()
    refused(shared.send("POST", "/mutate/if-graph-commit", body, headers=[(HEADER, head)] * 2), 400, "bad_request")
    for path in ("/mutate", "/change"):
        refused(shared.send("POST", path, body, headers={HEADER: head}), 400, "bad_request")
    assert "G" not in shared.names()


def test_the_same_write_sent_twice_is_done_once(shared: Api, branch: str) -> None:
    commit_id = og.new_commit_id()
    text = 'query q() { insert Company { name: "Once" } }'
    first, second = (shared.done("/mutate", query=text, branch=branch, commit_id=commit_id)["commit"] for _ in range(2))
    assert first == second and first["graph_commit_id"] == commit_id
    refused(shared.post("/mutate", query=text, branch=branch, commit_id="mine"), 400, "bad_request")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": "query q() { match { $p: Person } return { $p.name } }"}, 400, "bad_request"),
        ({"query": ADD, "params": {"name": 1}}, 400, "bad_request"),
        ({"query": ADD, "params": {"name": "x"}, "branch": "nope"}, 404, "not_found"),
        ({"query": ADD, "params": {"name": "x"}, "message": " "}, 400, "bad_request"),
        ({"query": 'query q() { insert Knows { from: "Alice", to: "Nobody" } }'}, 400, "bad_request"),
    ],
)
def test_what_is_wrong_with_a_write_is_said(shared: Api, body: dict[str, object], status: int, code: str) -> None:
    refused(shared.post("/mutate", **body), status, code)
    assert shared.names() == ["Alice", "Bob", "Carol", "Dave"]


def test_a_key_that_exists_is_a_conflict(shared: Api, branch: str) -> None:
    data = '{"type": "Person", "data": {"name": "Alice"}}'
    envelope = refused(shared.post("/load", data=data, branch=branch, mode="append"), 409, "conflict")
    assert envelope["key_conflict"] == {"entity_kind": "node", "type_name": "Person", "entity_id": "Alice"}
