"""Tools that write rows."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from omnigraph.errors import InputError
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.tools.agent_tool import AgentTool, ToolArguments
from omnigraph.mcp.tools.argument_kinds import IfGraphCommit, Params, QueryName, QueryText, WriteBranch


class _Data(io.BytesIO):
    """Lines whose errors name the argument that they came in."""

    name = "data"


class _Mutate(ToolArguments):
    query: QueryText
    name: QueryName = None
    params: Params = None
    branch: WriteBranch = None
    if_graph_commit: IfGraphCommit = None
    message: Annotated[str | None, Meta(description="What to say about it in the history: why you do this.")] = None


class _Load(ToolArguments):
    data: Annotated[
        str,
        Meta(
            description='Lines of JSON: {"type": "Person", "data": {"handle": "ana"}} for a node, '
            '{"edge": "Knows", "from": "ana", "to": "bo", "data": {}} for an edge between ids.'
        ),
    ]
    mode: Annotated[
        Literal["append", "merge", "overwrite"],
        Meta(
            description="append refuses ids that exist; merge replaces the whole row of ids that exist; overwrite "
            "replaces every row of the types that occur."
        ),
    ] = "merge"
    branch: WriteBranch = None
    from_: Annotated[str | None, Meta(description="Branch to make the branch from when it does not exist.")] = field(
        default=None, name="from"
    )
    message: Annotated[str | None, Meta(description="What to say about it in the history.")] = None


def _mutate(desk: Desk, given: _Mutate) -> Mapping[str, Any]:
    result, branch, made = desk.writing(
        given.branch,
        lambda name: desk.graph.mutate(
            given.query,
            given.name,
            given.params,
            branch=name,
            if_commit=given.if_graph_commit,
            message=given.message,
            **desk.allowed("timeout", "is_cancelled"),
        ),
    )
    return {**result.to_dict(), "branch": branch, "branch_created": made}


def _load(desk: Desk, given: _Load) -> Mapping[str, Any]:
    branch, base = given.branch, given.from_
    if branch is None:
        if base is not None:
            raise InputError("from says what a new branch is made from, and no branch is named", hint="give branch too")
        branch, base = desk.branch.for_writes, desk.branch.base if desk.branch.own is not None else None
    result = desk.graph.load(
        _Data(given.data.encode("utf-8", "surrogatepass")),
        given.mode,
        branch=branch,
        from_=base,
        format="jsonl",
        message=given.message,
        progress=False,
    )
    return result.to_dict()


MUTATE = AgentTool(
    "mutate",
    "Write",
    "Run a write query (insert, update, delete) as one commit: all of it or nothing. An insert of a key that exists "
    "replaces the whole row, so use update to change some properties. The answer names the branch that was written to. "
    "Nothing reaches the base branch before branches_merge.",
    _Mutate,
    _mutate,
    writes=True,
    destroys=True,
)
LOAD = AgentTool(
    "load",
    "Load many rows",
    "Write many nodes and edges as one commit: all of it or nothing. Better than many inserts. The answer counts what "
    "was written and names the branch.",
    _Load,
    _load,
    writes=True,
    destroys=True,
)
