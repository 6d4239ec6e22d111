"""Speaks the protocol for a desk: lists tools and resources, calls them on threads, and turns errors into answers.

Knows nothing of how messages travel. Which desk a message is for, and on which threads its work is done, is said for
each message by a `Visit`; nothing is kept between two messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

import omnigraph
from omnigraph import limits
from omnigraph.errors import ResourceLimitExceeded
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.graph_resources import RESOURCES, resource
from omnigraph.mcp.stored_query_tools import StoredQueryTool, stored_query_tools
from omnigraph.mcp.tool_problems import problem_answer
from omnigraph.mcp.tools import TOOLS, AgentTool
from omnigraph.policy.audit_log import REQUEST_ID

_Answer = TypeVar("_Answer")

_TOOLS: Mapping[str, AgentTool] = {tool.name: tool for tool in TOOLS}

INSTRUCTIONS = """\
A typed property graph with branches. Read the schema first (schema_get), then query with the query language: \
omnigraph://best-practices/queries explains it with examples. Every answer names the branch that it is about. Unless \
branches_list says otherwise, your writes go to a branch of your own, which your reads then show; nothing of it \
reaches the base branch before branches_merge. Merge only when you are asked to, after diff and merge_preview."""


class Workers(Protocol):
    """Does the work of calls on threads."""

    async def __call__(self, pool: Literal["read", "write"], work: Callable[[], _Answer]) -> _Answer:
        """The result of the work, or its error."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One message: whom it is from and what it may use.

    Attributes:
        request_id: names it in answers and logs.
    """

    desk: Desk
    workers: Workers
    request_id: str


VisitOf = Callable[[Request | None], Visit]


def protocol_server(visit_of: VisitOf) -> Server[Any]:
    """A server of the protocol.

    Args:
        visit_of: says for each message whom it is from; gets the HTTP request that brought it, if one did.
    """

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        visit = visit_of(context.request)
        stored = await _or_error(visit, "read", lambda: _stored(visit.desk))
        shown = [_described(tool.name, tool.description, tool.schema(), _hints(tool)) for tool in TOOLS]
        shown += [
            _described(tool.name, tool.description, tool.schema(), _stored_hints(tool)) for tool in stored.values()
        ]
        return types.ListToolsResult(tools=shown)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        visit = visit_of(context.request)
        arguments = params.arguments or {}
        try:
            tool: AgentTool | StoredQueryTool | None = _TOOLS.get(params.name)
            if tool is None:
                stored = await visit.workers("read", _in_request(visit, lambda: _stored(visit.desk)))
                tool = stored.get(params.name)
            if tool is None:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
            called = tool
            answer = await visit.workers(
                "write" if called.writes else "read",
                _in_request(visit, lambda: _encoded(called.call(visit.desk, arguments))),
            )
        except MCPError:
            raise
        except Exception as error:
            return _result(msgspec.json.encode(problem_answer(error, visit.request_id)), is_error=True)
        return _result(answer)

    async def list_resources(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        shown = [
            types.Resource(uri=each.uri, name=each.name, description=each.description, mime_type=each.media_type)
            for each in RESOURCES
        ]
        return types.ListResourcesResult(resources=shown)

    async def read_resource(
        context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        visit = visit_of(context.request)
        found = await _or_error(visit, "read", lambda: resource(str(params.uri)))
        text = await _or_error(visit, "read", lambda: found.read(visit.desk))
        contents = types.TextResourceContents(uri=found.uri, mime_type=found.media_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "omnigraph",
        version=omnigraph.__version__,
        title="OmniGraph",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: _TOOLS[name].schema() if name in _TOOLS else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


async def _or_error(visit: Visit, pool: Literal["read", "write"], work: Callable[[], _Answer]) -> _Answer:
    """The result of some work; an error becomes one of the protocol, for what is not the call of a tool."""
    try:
        return await visit.workers(pool, _in_request(visit, work))
    except Exception as error:
        told = problem_answer(error, visit.request_id)
        code = types.INTERNAL_ERROR if told["status"] >= 500 else types.INVALID_PARAMS
        raise MCPError(code, told["error"], told) from None


def _in_request(visit: Visit, work: Callable[[], _Answer]) -> Callable[[], _Answer]:
    """The same work, whose records in the audit log name the request."""

    def run() -> _Answer:
        token = REQUEST_ID.set(visit.request_id)
        try:
            return work()
        finally:
            REQUEST_ID.reset(token)

    return run


def _stored(desk: Desk) -> dict[str, StoredQueryTool]:
    return stored_query_tools(desk.surroundings.stored_queries())


def _encoded(answer: Mapping[str, Any]) -> bytes:
    """The answer as JSON. Tools cut what is long themselves; this is the end for what they cannot cut."""
    body = msgspec.json.encode(answer)
    most = 4 * limits.MCP_ANSWER_BYTES
    if len(body) > most:
        raise ResourceLimitExceeded("mcp_answer_bytes", len(body), most)
    return body


def _result(body: bytes, *, is_error: bool = False) -> types.CallToolResult:
    """An answer twice: as a text for agents that read, and as an object for programs."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=body.decode())],
        structured_content=msgspec.json.decode(body),
        is_error=is_error,
    )


def _described(name: str, description: str, schema: dict[str, Any], hints: types.ToolAnnotations) -> types.Tool:
    return types.Tool(name=name, title=hints.title, description=description, input_schema=schema, annotations=hints)


def _hints(tool: AgentTool) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        title=tool.title,
        read_only_hint=not tool.writes,
        destructive_hint=tool.destroys,
        idempotent_hint=tool.repeatable or not tool.writes,
        open_world_hint=False,
    )


def _stored_hints(tool: StoredQueryTool) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        title=tool.entry["name"],
        read_only_hint=not tool.writes,
        destructive_hint=tool.writes,
        idempotent_hint=not tool.writes,
        open_world_hint=False,
    )
