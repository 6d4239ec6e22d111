"""Tools that tell what changed: of one commit, along a branch, between two states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, field

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.mcp.answer_bounds import cut, listed
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.tools.agent_tool import AgentTool, ToolArguments
from omnigraph.mcp.tools.argument_kinds import ChangeLimit, CommitId, Kinds, Ops, PageToken, ReadBranch, Types


class _CommitChanges(ToolArguments):
    commit_id: CommitId
    page_token: PageToken = None
    limit: ChangeLimit = limits.MCP_ROWS
    kind: Kinds = None
    type: Types = None
    op: Ops = None


class _Poll(ToolArguments):
    branch: ReadBranch = None
    cursor: Annotated[str | None, Meta(description="cursor of the answer before: what happened since.")] = None
    start: Annotated[
        str | None,
        Meta(description="Where to begin without a cursor: now (the default), beginning, or after:<commit id>."),
    ] = None
    page_token: PageToken = None
    limit: ChangeLimit = limits.MCP_ROWS
    kind: Kinds = None
    type: Types = None
    op: Ops = None


class _Diff(ToolArguments):
    from_: Annotated[
        str | None,
        Meta(description="The earlier state: a branch, a commit id or tag:NAME. By default the base branch."),
    ] = field(default=None, name="from")
    to: Annotated[
        str | None, Meta(description="The later state, likewise. By default your own branch, if it exists.")
    ] = None
    limit: ChangeLimit = limits.MCP_ROWS
    kind: Kinds = None
    type: Types = None
    op: Ops = None


def _commit_changes(desk: Desk, given: _CommitChanges) -> Mapping[str, Any]:
    found = desk.graph.commit_changes(given.commit_id, kinds=given.kind, types=given.type, ops=given.op)
    page = found.page(given.limit, page_token=given.page_token, max_bytes=desk.size.bytes)
    return page.to_dict()


def _poll(desk: Desk, given: _Poll) -> Mapping[str, Any]:
    places = [place for place in (given.cursor, given.start, given.page_token) if place is not None]
    if len(places) > 1:
        raise InputError("cursor, start and pageToken each say where to begin", hint="give one of them")
    since = given.cursor if given.cursor is not None else given.start
    page, branch = desk.reading(
        given.branch,
        lambda name: desk.graph.changes(
            since,
            branch=name,
            page_token=given.page_token,
            limit=given.limit,
            max_bytes=desk.size.bytes,
            kinds=given.kind,
            types=given.type,
            ops=given.op,
        ),
    )
    return {**page.to_dict(), "branch": branch}


def _diff(desk: Desk, given: _Diff) -> Mapping[str, Any]:
    before = given.from_ if given.from_ is not None else desk.branch.base
    after = given.to if given.to is not None else desk.seen_branch()
    if before == after and given.to is None:
        raise InputError(
            f"there is nothing to compare '{before}' with: you have no branch of your own yet",
            hint="write something first, or name both states with from and to",
        )
    found = desk.graph.diff(before, after, kinds=given.kind, types=given.type, ops=given.op)
    part = cut((change.to_dict() for change in found), given.limit, desk.size.bytes)
    return {
        "from": before,
        "to": after,
        "from_commit_id": found.from_commit,
        "to_commit_id": found.to_commit,
        **listed("changes", part, None, "filter by kind, type or op, or raise limit"),
        "stats": found.stats.to_dict(),
    }


COMMITS_CHANGES = AgentTool(
    "commits_changes",
    "Changes of a commit",
    "What one commit changed, entity by entity, with the values before and after. Long answers come in pages.",
    _CommitChanges,
    _commit_changes,
)
CHANGES_POLL = AgentTool(
    "changes_poll",
    "Follow changes",
    "What was committed to a branch since the last call: keep the cursor of the answer and pass it the next time. "
    "Without a cursor it begins now.",
    _Poll,
    _poll,
)
DIFF = AgentTool(
    "diff",
    "Compare two states",
    "The changes that lead from one state to another, with counts; by default from the base branch to your own branch. "
    "If the base moved on since your branch began, its newer changes appear reversed: merge_preview tells what a merge "
    "would do.",
    _Diff,
    _diff,
)
