"""Agents that talk to a server of the protocol by its official client, and the graph that they talk about."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from anyio import to_thread
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server

import omnigraph as og
from omnigraph.mcp.agent_branch import AgentBranch
from omnigraph.mcp.desk import AnswerSize, Desk
from omnigraph.mcp.protocol_server import Visit, protocol_server
from omnigraph.mcp.store_surroundings import StoreSurroundings
from omnigraph.server.stored_queries import QueryFiles, StoredQueries

SCHEMA = """
node Person { handle: String @key  name: String @index  age: I32?  joined: Date? }
node Team { code: String @key  kind: enum(core, research) }
edge Follows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team
"""
STORED = """
query by_name($name: String, $min: I64?, $on: Date?) @description("people by name") @instruction("exact names") {
  match { $p: Person { name: $name } }
  return { $p.handle as handle }
}
query near($v: Vector(3), $codes: [String]) { match { $t: Team  $t.code in $codes } return { $t.code } }
query add_person($handle: String, $name: String) { insert Person { handle: $handle, name: $name } }
query query() { match { $p: Person } return { count($p) as people } }
"""
COUNT = "query q() { match { $p: Person } return { count($p) as people } }"
ADD = "query add($h: String) { insert Person { handle: $h, name: $h } }"

EXECUTABLE = Path(sys.executable).with_name("omnigraph")

_Answer = TypeVar("_Answer")


def make_graph(folder: Path, name: str = "people", actor: str | None = "act-first") -> Path:
    """A graph of three people and a team, and its stored queries in ``stored.gq`` beside it."""
    place = folder / f"{name}.omni"
    (folder / "stored.gq").write_text(STORED)
    with og.init(place, SCHEMA, actor=actor) as graph:
        graph.load(
            {
                "Person": [{"handle": each, "name": each.title(), "age": 30} for each in ("ana", "bo", "cy")],
                "Team": [{"code": "c1", "kind": "core"}],
                "Follows": [{"from": "ana", "to": "bo"}],
                "MemberOf": [{"from": "ana", "to": "c1"}],
            },
            "append",
        )
    return place


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent in a conversation."""

    client: Client

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool that must not fail."""
        answer, failed = await self.said(tool, arguments)
        assert not failed, answer
        return answer

    async def refused(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What a tool says that must fail; its shape is always the same."""
        answer, failed = await self.said(tool, arguments)
        assert failed, answer
        assert list(answer) == ["error", "status", "code", "requestId", "body"]
        assert answer["body"]["error"] == answer["error"]
        assert answer["body"].get("code") == answer["code"]
        assert answer["requestId"]
        return answer

    async def said(self, tool: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """What a tool answers, which is the same as a text and as an object, and whether it failed."""
        result = await self.client.call_tool(tool, dict(arguments))
        text = getattr(result.content[0], "text", "")
        assert json.loads(text) == result.structured_content
        return dict(result.structured_content), bool(result.is_error)


Talk = Callable[[Agent], Awaitable[_Answer]]


def talk(server: Server[Any] | StdioServerParameters, work: Talk[_Answer], *, mode: str = "auto") -> _Answer:
    """A conversation with a server in this process, or with one that is started for it."""

    async def run(stack: AsyncExitStack) -> _Answer:
        return await work(Agent(await stack.enter_async_context(Client(server, mode=mode))))

    return converse(run)


def converse(run: Callable[[AsyncExitStack], Awaitable[_Answer]]) -> _Answer:
    """Conversations that last until the end of a function. Its error comes out as it is, not in groups."""
    failed: list[BaseException] = []
    answers: list[_Answer] = []

    async def whole() -> None:
        async with AsyncExitStack() as stack:
            try:
                answers.append(await run(stack))
            except Exception as error:
                failed.append(error)

    anyio.run(whole)
    if failed:
        raise failed[0]
    return answers[0]


def talk_http(
    url: str, token: str | None, work: Talk[_Answer], *, mode: str = "auto", headers: Mapping[str, str] | None = None
) -> _Answer:
    """A conversation over HTTP."""

    async def run(stack: AsyncExitStack) -> _Answer:
        return await work(await http_agent(stack, url, token, mode=mode, headers=headers))

    return converse(run)


async def http_agent(
    stack: AsyncExitStack,
    url: str,
    token: str | None,
    *,
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
) -> Agent:
    """An agent that talks over HTTP as long as the stack is open."""
    own = dict(headers or {}) | ({"Authorization": f"Bearer {token}"} if token is not None else {})
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=own, timeout=30, trust_env=False))
    client = await stack.enter_async_context(Client(streamable_http_client(url, http_client=http), mode=mode))
    return Agent(client)


def desk_of(
    graph: og.Graph, actor: str | None = "act-ana", *, branch: str | None = None, size: AnswerSize | None = None
) -> Desk:
    """A desk for a graph of this process."""
    files = QueryFiles((Path(graph.uri).with_name("stored.gq"),))
    surroundings = StoreSurroundings(graph, "people", StoredQueries.read(files, graph))
    return Desk(graph, surroundings, AgentBranch.of(branch, actor), size or AnswerSize())


def server_of(desk: Desk) -> Server[Any]:
    """A server of the protocol for one desk."""

    async def workers(pool: str, work: Callable[[], _Answer]) -> _Answer:
        return await to_thread.run_sync(work)

    return protocol_server(lambda request: Visit(desk, workers, "01REQUEST"))
