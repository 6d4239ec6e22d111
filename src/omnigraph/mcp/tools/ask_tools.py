"""Tools that ask: queries, search, plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.mcp.answer_bounds import cut, listed, read_answer
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.tools.agent_tool import AgentTool, ToolArguments
from omnigraph.mcp.tools.argument_kinds import MaxRows, Params, QueryName, QueryText, ReadBranch, State


class _Query(ToolArguments):
    query: QueryText
    name: QueryName = None
    params: Params = None
    branch: ReadBranch = None
    snapshot: State = None
    max_rows: MaxRows = limits.MCP_ROWS


class _Explain(ToolArguments):
    query: QueryText
    name: QueryName = None
    params: Params = None
    branch: ReadBranch = None
    snapshot: State = None
    run: Annotated[bool, Meta(description="Also run it and tell rows and time of each step.")] = False


class _Search(ToolArguments):
    words: Annotated[str, Meta(description="What to look for, in plain words.")]
    types: Annotated[list[str] | None, Meta(description="Only these node types; leave it out for all.")] = None
    hops: Annotated[
        int, Meta(ge=0, le=limits.MCP_MOST_HOPS, description="Also tell what lies so many edges around each hit.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.MCP_MOST_HITS, description="Most hits.")] = 10
    branch: ReadBranch = None
    snapshot: State = None


def require_one_state(branch: str | None, snapshot: str | None) -> None:
    """A branch and an earlier state are two ways to say what is read."""
    if branch is not None and snapshot is not None:
        raise InputError("branch and snapshot both say which state to read", hint="give one of them")


def _query(desk: Desk, given: _Query) -> Mapping[str, Any]:
    require_one_state(given.branch, given.snapshot)
    graph, call = desk.graph, (given.query, given.name, given.params)
    if given.snapshot is not None:
        return read_answer(graph.query(*call, at=given.snapshot, **desk.budget), given.max_rows, desk.size.bytes)
    result, branch = desk.reading(given.branch, lambda name: graph.query(*call, branch=name, **desk.budget))
    return {**read_answer(result, given.max_rows, desk.size.bytes), "branch": branch}


def _explain(desk: Desk, given: _Explain) -> Mapping[str, Any]:
    require_one_state(given.branch, given.snapshot)
    graph, call = desk.graph, (given.query, given.name, given.params)
    if given.snapshot is not None:
        return graph.explain(*call, at=given.snapshot, run=given.run, **desk.budget).to_dict()
    plan, branch = desk.reading(
        given.branch, lambda name: graph.explain(*call, branch=name, run=given.run, **desk.budget)
    )
    return {**plan.to_dict(), "branch": branch}


def _search(desk: Desk, given: _Search) -> Mapping[str, Any]:
    require_one_state(given.branch, given.snapshot)
    graph, how = desk.graph, desk.allowed("timeout", "max_bytes", "is_cancelled")
    how |= {"hops": given.hops, "limit": given.limit}
    if given.snapshot is not None:
        found = graph.search(given.words, given.types, **how, at=given.snapshot)
    else:
        found, _ = desk.reading(given.branch, lambda name: graph.search(given.words, given.types, **how, branch=name))
    answer = found.to_dict()
    part = cut(answer.pop("hits"), given.limit, desk.size.bytes)
    return {**answer, **listed("hits", part, len(found), "ask for fewer hops, or for some types only")}


QUERY = AgentTool(
    "query",
    "Query",
    "Run a read query and get its rows as objects. The answer names the branch that was read and, as graph_commit_id, "
    "the state. Long results are cut, and `truncated` says so: aggregate or use order, limit and offset rather than "
    "fetching everything.",
    _Query,
    _query,
)
EXPLAIN = AgentTool(
    "explain",
    "Explain a query",
    "How a read query would be executed, step by step. Use it when a query is slow, or to check one before it runs.",
    _Explain,
    _explain,
)
SEARCH = AgentTool(
    "search",
    "Search by words",
    "Find nodes of any type by words in their indexed texts, best first, with snippets and, with hops, what is around "
    "them. A good start when you do not know where something is.",
    _Search,
    _search,
)
