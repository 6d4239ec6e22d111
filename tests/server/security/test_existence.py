"""Who may not see something is told the same as for something that is not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.security.places import BELOW, GRAPH, Place, make_graph, started
from tests.support.http_call import Reply

UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

#: act-one sees branches that nobody protects, and may invoke nothing.
POLICY = """
version: 1
groups: {some: [act-one], all: [act-all]}
protected_branches: [main, secret]
rules:
  - id: some-read
    allow: {actors: {group: some}, actions: [read, export, change], branch_scope: unprotected}
  - id: all-data
    allow: {actors: {group: all}, actions: [read, export, change, invoke_query]}
  - id: all-branches
    allow: {actors: {group: all}, actions: [branch_create]}
"""
TOKENS = {"act-one": "token-of-one-4471", "act-all": "token-of-all-9921"}


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("partial")
    make_graph(folder)
    (folder / "policy.yaml").write_text(POLICY, "utf-8")
    (folder / "tokens.json").write_text(json.dumps(TOKENS), "utf-8")
    graph = {"uri": f"{GRAPH}.omni", "queries": "queries.gq", "policy": "policy.yaml"}
    wanted = {"version": 1, "bind": "127.0.0.1:0", "graphs": {GRAPH: graph}, "tokens": {"file": "tokens.json"}}
    (folder / "server.yaml").write_text(json.dumps(wanted), "utf-8")
    with started(folder, ["serve", "--config", str(folder / "server.yaml")]) as (process, port):
        found = Place(folder, process, port, dict(TOKENS))
        assert found.ask("POST", f"{BELOW}/branches", {"name": "secret"}).status == 200
        yield found


def _same(first: Reply, second: Reply, named: str, other: str) -> None:
    """Two answers that differ in the name that was asked for only."""

    def plain(reply: Reply, name: str) -> Any:
        return json.loads(reply.text.replace(name, "<name>")) if reply.body else None

    assert first.status == second.status, (first.text, second.text)
    assert plain(first, named) == plain(second, other)
    hidden = {"x-request-id", "date", "content-length"}
    assert {k: v for k, v in first.headers.items() if k not in hidden} == {
        k: v for k, v in second.headers.items() if k not in hidden
    }


def test_a_stored_query_that_may_not_be_invoked(partial: Place) -> None:
    for tail in ("", "/if-graph-commit"):
        headers = {"Omnigraph-If-Graph-Commit": UNKNOWN} if tail else {}
        there = partial.ask("POST", f"{BELOW}/queries/people{tail}", {}, headers, actor="act-one")
        nothing = partial.ask("POST", f"{BELOW}/queries/peoplex{tail}", {}, headers, actor="act-one")
        assert there.status == 404 and there.json()["error"] == "stored query not found"
        _same(there, nothing, "people", "peoplex")


ASK = "query q() { match { $p: Person } return { $p.name } }"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/snapshot?branch={}", None),
        ("GET", "/commits?branch={}", None),
        ("GET", "/changes?branch={}", None),
        ("GET", "/stats?branch={}", None),
        ("GET", "/blob?entity=node&type=Person&id=Ana&property=photo&branch={}", None),
        ("POST", "/query", {"query": ASK, "branch": "{}"}),
        ("POST", "/explain", {"query": ASK, "branch": "{}"}),
        ("POST", "/rows", {"type": "Person", "branch": "{}"}),
        ("POST", "/search", {"words": "ana", "branch": "{}"}),
        ("POST", "/diff", {"from": "{}", "to": "draft"}),
        ("POST", "/diff", {"from": "draft", "to": "{}"}),
    ],
)
def test_a_branch_that_may_not_be_seen(partial: Place, method: str, path: str, body: dict[str, Any] | None) -> None:
    text = None if body is None else json.dumps(body)

    def asked(name: str) -> Reply:
        content = None if text is None else text.replace("{}", name).encode()
        return partial.ask(method, BELOW + path.replace("{}", name), content, actor="act-one")

    secret = asked("secret")
    assert secret.status in (403, 404), secret.text
    assert "Ana" not in secret.text


@pytest.mark.parametrize(
    "path", ["/commits/{}/changes", "/blob?entity=node&type=Person&id=Ana&property=photo&snapshot={}"]
)
def test_a_commit_that_may_not_be_seen(partial: Place, path: str) -> None:
    head = partial.head("main")
    there = partial.ask("GET", BELOW + path.replace("{}", head), actor="act-one")
    nothing = partial.ask("GET", BELOW + path.replace("{}", UNKNOWN), actor="act-one")
    assert there.status == 404, there.text
    _same(there, nothing, head, UNKNOWN)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query", {"query": ASK, "snapshot": "{}"}),
        ("/query", {"query": ASK, "at": "{}"}),
        ("/explain", {"query": ASK, "at": "{}"}),
        ("/rows", {"type": "Person", "at": "{}"}),
        ("/search", {"words": "ana", "at": "{}"}),
        ("/export", {"at": "{}"}),
        ("/diff", {"from": "{}", "to": "draft"}),
        ("/diff", {"from": "draft", "to": "{}"}),
    ],
)
def test_a_state_that_may_not_be_seen(partial: Place, path: str, body: dict[str, Any]) -> None:
    head = partial.head("main")
    there = partial.ask("POST", BELOW + path, json.dumps(body).replace("{}", head).encode(), actor="act-one")
    nothing = partial.ask("POST", BELOW + path, json.dumps(body).replace("{}", UNKNOWN).encode(), actor="act-one")
    assert there.status in (403, 404), there.text
    _same(there, nothing, head, UNKNOWN)


def test_a_path_of_the_server_is_no_graph(partial: Place) -> None:
    folder = str(Path(partial.folder))
    for name in ("tokens", "policy", "queries", "server"):
        reply = partial.ask("GET", f"/graphs/{name}/snapshot")
        assert reply.status == 404 and folder not in reply.text
