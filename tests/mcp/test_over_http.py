"""The tools below a real server: tokens, policy, sessions of several actors, strangers' pages, bounds."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.mcp.hosted_surroundings import HostedSurroundings
from omnigraph.mcp.server_app import mcp_sub_app
from omnigraph.mcp.store_surroundings import StoreSurroundings
from omnigraph.mcp.tools import TOOLS
from tests.mcp.agents import ADD, COUNT, Agent, converse, http_agent, make_graph, talk_http
from tests.support.served import Served, served
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

TOKENS = {"act-ana": "token-ana", "act-bo": "token-bo", "act-cy": "token-cy"}
POLICY = """
version: 1
groups: { writers: [act-ana], readers: [act-bo], nobody: [act-cy] }
protected_branches: [main]
rules:
  - id: look
    allow: { actors: { group: writers }, actions: [read, export, invoke_query] }
  - id: write
    allow: { actors: { group: writers }, actions: [change], branch_scope: unprotected }
  - id: branches
    allow: { actors: { group: writers }, actions: [branch_create, branch_delete, branch_merge] }
  - id: look-at-people
    allow: { actors: { group: readers }, actions: [read], types: [Person, Follows] }
"""
SERVER_POLICY = """
version: 1
groups: { writers: [act-ana] }
rules:
  - id: list
    allow: { actors: { group: writers }, actions: [graph_list] }
"""
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LISTING = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "rules.yaml").write_text(POLICY)
    (folder / "server.yaml").write_text(SERVER_POLICY)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """One graph, three actors with different rights."""
    place = make_graph(folder)
    with served(
        {"people": place},
        tokens=TOKENS,
        policy=folder / "rules.yaml",
        server_policy=folder / "server.yaml",
        audit=str(folder / "audit.jsonl"),
        queries=folder / "stored.gq",
        sub_apps=[mcp_sub_app()],
    ) as running:
        yield running


def url_of(server: Served) -> str:
    return f"{server.graph_url()}/mcp"


def post(
    server: Served, token: str | None, body: object, headers: Mapping[str, str] | None = None, method: str = "POST"
) -> httpx2.Response:
    """One raw request."""
    own = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **(headers or {})}
    if token is not None:
        own["Authorization"] = f"Bearer {token}"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with httpx2.Client(timeout=30, trust_env=False) as http:
        return http.request(method, url_of(server), content=content, headers=own)


@pytest.mark.parametrize("token", [None, "wrong", "token-anax"])
def test_without_a_known_token_there_is_nothing(server: Served, token: str | None) -> None:
    for method in ("POST", "GET", "DELETE"):
        answer = post(server, token, OPENING, method=method)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_actor_has_the_tools_and_the_rights_of_its_token(server: Served, mode: str) -> None:
    async def run(stack: AsyncExitStack) -> None:
        ana = await http_agent(stack, url_of(server), "token-ana", mode=mode)
        bo = await http_agent(stack, f"{server.url}/mcp", "token-bo", mode=mode)
        cy = await http_agent(stack, url_of(server), "token-cy", mode=mode)
        listed = [len((await each.client.list_tools()).tools) for each in (ana, bo, cy)]
        assert listed == [len(TOOLS) + 4, len(TOOLS), len(TOOLS)]

        assert (await ana.call("query", query=COUNT))["rows"] == (await bo.call("query", query=COUNT))["rows"]
        assert "Team" in (await ana.call("schema_get"))["schema_source"]
        assert "Team" not in (await bo.call("schema_get"))["schema_source"]
        hidden = "query q() { match { $t: Team } return { $t.code } }"
        assert (await bo.refused("query", query=hidden))["status"] == 400
        assert (await cy.refused("query", query=COUNT))["code"] == "forbidden"

        written = await ana.call("mutate", query=ADD, params={"h": f"x-{mode}"})
        assert (written["branch"], written["actor_id"]) == ("agent/act-ana", "act-ana")
        assert (await ana.refused("mutate", query=ADD, params={"h": "no"}, branch="main"))["status"] == 403
        assert (await bo.refused("mutate", query=ADD, params={"h": "no"}))["status"] == 403
        assert (await bo.call("query", query=COUNT))["branch"] == "main"

        assert (await ana.call("graphs_list"))["graphs"][0]["graph_id"] == "people"
        assert (await bo.refused("graphs_list"))["status"] == 403
        assert (await ana.call("by_name", params={"name": "Ana"}))["row_count"] == 1
        with pytest.raises(Exception, match="Unknown tool"):
            await bo.client.call_tool("by_name", {"params": {"name": "Ana"}})
        assert (await ana.call("health"))["status"] == "ok"
        assert (await ana.call("branches_delete", name="agent/act-ana"))["name"] == "agent/act-ana"

    converse(run)


def test_an_agent_writes_looks_and_merges_over_http(server: Served) -> None:
    async def work(agent: Agent) -> None:
        before = (await agent.call("query", query=COUNT))["rows"][0]["people"]
        await agent.call("add_person", params={"handle": "new", "name": "New"})
        assert [each["id"] for each in (await agent.call("diff"))["changes"]] == ["new"]
        assert (await agent.call("merge_preview"))["conflict_count"] == 0
        assert (await agent.call("branches_merge"))["branch_deleted"] is True
        assert (await agent.call("query", query=COUNT, branch="main"))["rows"] == [{"people": before + 1}]

    talk_http(url_of(server), "token-ana", work)


def test_a_client_may_choose_its_branch_in_a_header(server: Served) -> None:
    async def work(agent: Agent) -> str:
        return str((await agent.call("branches_list"))["default"]["writes_go_to"])

    chosen = [
        talk_http(url_of(server), "token-ana", work, headers={"Omnigraph-Mcp-Branch": value})
        for value in ("agent/{actor}/7", "direct")
    ]
    assert chosen == ["agent/act-ana/7", "main"]
    refused = post(server, "token-ana", OPENING, {"Omnigraph-Mcp-Branch": "a b"})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


def test_a_session_belongs_to_the_actor_who_opened_it(server: Served) -> None:
    opened = post(server, "token-ana", OPENING)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
    assert post(server, "token-ana", LISTING, session).status_code == 200
    for method, body in (("POST", LISTING), ("DELETE", b"")):
        stolen = post(server, "token-bo", body, session, method)
        assert (stolen.status_code, "result" in stolen.text) == (404, False)
    assert post(server, None, LISTING, session).status_code == 401
    assert post(server, "token-ana", LISTING, session).status_code == 200
    assert post(server, "token-ana", b"", session, "DELETE").status_code == 200
    assert post(server, "token-ana", LISTING, session).status_code == 404


def test_sessions_of_one_actor_are_bounded_and_others_are_not_held_up(
    server: Served, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr(limits, "MCP_SESSIONS", 2)
    with served({"people": place}, tokens=TOKENS, sub_apps=[mcp_sub_app()]) as small:
        assert [post(small, "token-ana", OPENING).status_code for _ in range(3)] == [200, 200, 503]
        assert post(small, "token-bo", OPENING).status_code == 200


def test_an_unused_session_ends(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(limits, "MCP_IDLE_SECONDS", 0.2)
    with served({"people": place}, tokens=TOKENS, sub_apps=[mcp_sub_app()]) as small:
        session = {"Mcp-Session-Id": post(small, "token-ana", OPENING).headers["mcp-session-id"]}
        wait_until(
            lambda: post(small, "token-ana", LISTING, session).status_code == 404,
            timeout=30,
            what="the end of the session",
            pause=0.5,
        )


def test_other_methods_are_refused(server: Served) -> None:
    refused = post(server, "token-ana", b"", method="GET")
    assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed")
    assert refused.headers["allow"] == "POST, DELETE"
    assert post(server, "token-ana", b"", method="PUT").status_code == 405


def test_pages_of_strangers_are_refused(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for origin in (
        "https://evil.example",
        f"http://evil.example:{server.port}",
        "null",
        "http://localhost.evil.example",
        "http://[",
    ):
        refused = post(server, "token-ana", OPENING, {"Origin": origin})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), origin
    for origin in ("http://localhost:3000", "http://127.0.0.1:5173", "http://[::1]:1"):
        assert post(server, "token-ana", OPENING, {"Origin": origin}).status_code == 200
    monkeypatch.setenv("OMNIGRAPH_MCP_ORIGINS", "https://app.example https://other.example")
    assert post(server, "token-ana", OPENING, {"Origin": "https://app.example"}).status_code == 200


def test_a_server_without_tokens_answers_to_names_of_this_machine_only(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served({"people": place}, sub_apps=[mcp_sub_app()]) as open_server:
        assert post(open_server, None, OPENING).status_code == 200
        assert post(open_server, None, OPENING, {"Host": f"localhost:{open_server.port}"}).status_code == 200
        rebound = post(open_server, None, OPENING, {"Host": "evil.example"})
        assert (rebound.status_code, "OMNIGRAPH_HOSTS" in rebound.json()["error"]) == (403, True)
        assert post(open_server, None, OPENING, {"Host": "["}).status_code == 403
        monkeypatch.setenv("OMNIGRAPH_HOSTS", "graph.internal")
        assert post(open_server, None, OPENING, {"Host": "graph.internal:8080"}).status_code == 200


def test_a_message_that_is_too_long_or_no_message_is_refused(server: Served) -> None:
    long = post(server, "token-ana", b"[" + b" " * limits.MCP_MESSAGE_BYTES + b"]")
    assert (long.status_code, long.json()["resource_limit"]["resource"]) == (413, "mcp_message_bytes")
    for bad in (b"", b"{", b"[" * 100_000, b'{"jsonrpc": "2.0"}', b"\xff\xfe"):
        assert post(server, "token-ana", bad).status_code == 400
    assert post(server, "token-ana", OPENING, {"Content-Type": "text/plain"}).status_code in (400, 415)


def test_a_call_that_waits_does_not_hold_up_others(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def waits(surroundings: StoreSurroundings) -> Mapping[str, Any]:
        assert go_on.wait(30)
        return {"status": "ok"}

    monkeypatch.setattr(HostedSurroundings, "health", waits)

    async def run(stack: AsyncExitStack) -> None:
        ana = await http_agent(stack, url_of(server), "token-ana")
        bo = await http_agent(stack, url_of(server), "token-bo")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ana.call, "health")
            await bo.call("query", query=COUNT)
            await ana.call("query", query=COUNT)
            go_on.set()

    converse(run)


def test_a_client_that_goes_away_cancels_its_call(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def until_cancelled(surroundings: HostedSurroundings) -> Mapping[str, Any]:
        begun.set()
        wait_until(surroundings._budget["is_cancelled"], timeout=30, what="the cancellation")
        ended.set()
        return {"status": "ok"}

    monkeypatch.setattr(HostedSurroundings, "health", until_cancelled)

    async def run(stack: AsyncExitStack) -> None:
        agent = await http_agent(stack, url_of(server), "token-ana", mode="legacy")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.client.call_tool, "health", {})
            await anyio.to_thread.run_sync(begun.wait, 30)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(ended.wait, 30)

    converse(run)
    assert ended.is_set()


def test_the_audit_log_names_actor_and_request(server: Served, folder: Path) -> None:
    async def work(agent: Agent) -> str:
        refused = await agent.refused("mutate", query=ADD, params={"h": "no"}, branch="main")
        return str(refused["requestId"])

    request_id = talk_http(url_of(server), "token-ana", work)
    records = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    (denied,) = [each for each in records if each["request_id"] == request_id and each["decision"] == "deny"]
    assert (denied["actor"], denied["action"], denied["branch"]) == ("act-ana", "change", "main")


def test_at_the_root_it_is_there_for_one_graph_only(tmp_path: Path) -> None:
    graphs = {name: make_graph(tmp_path, name) for name in ("one", "two")}
    with served(graphs, tokens=TOKENS, sub_apps=[mcp_sub_app()]) as two:
        with httpx2.Client(trust_env=False) as http:
            there = http.post(f"{two.url}/mcp", json=OPENING, headers={"Authorization": "Bearer token-ana"})
        assert there.status_code == 404

        async def work(agent: Agent) -> str:
            return str((await agent.call("query", query=COUNT))["graph_commit_id"])

        heads = {name: talk_http(f"{two.graph_url(name)}/mcp", "token-ana", work) for name in graphs}
    for name, graph_place in graphs.items():
        with og.open(graph_place, mode="ro") as graph:
            assert graph.commits.head().id == heads[name]


def test_omnigraph_serve_has_the_tools_and_stops_with_sessions_open(place: Path) -> None:
    with server_process(place, tokens=TOKENS) as running:

        async def work(agent: Agent) -> int:
            answer = await agent.call("query", query=COUNT)
            stopping = await anyio.to_thread.run_sync(running.stop)
            return int(stopping) if answer["rows"] == [{"people": 3}] else -1

        assert talk_http(f"{running.url}/mcp", "token-ana", work, mode="legacy") == 0
        assert "Traceback" not in running.log_text()
