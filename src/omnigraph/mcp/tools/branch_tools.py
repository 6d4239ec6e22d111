"""Tools that make, merge and delete branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from omnigraph import ids, limits
from omnigraph.errors import InputError
from omnigraph.mcp.answer_bounds import cut, listed
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.tools.agent_tool import AgentTool, ToolArguments


class _Create(ToolArguments):
    name: Annotated[str, Meta(description="Name of the new branch, for example review/names.")]
    from_: Annotated[str | None, Meta(description="Branch to begin from, or tag:NAME. By default the base branch.")] = (
        field(default=None, name="from")
    )


class _Delete(ToolArguments):
    name: Annotated[str, Meta(description="The branch to delete. What only it holds is lost.")]


_Source = Annotated[str | None, Meta(description="Branch whose changes are merged. By default your own branch.")]
_Target = Annotated[str | None, Meta(description="Branch that gets the changes. By default the base branch.")]


class _Preview(ToolArguments):
    source: _Source = None
    target: _Target = None


class _Merge(ToolArguments):
    source: _Source = None
    target: _Target = None
    resolve: Annotated[
        Literal["ours", "theirs"] | dict[str, Any] | None,
        Meta(
            description="How to settle conflicts: ours keeps the target's rows, theirs takes the source's, or an "
            'object by entity: {"node:Person/ana": "theirs"}. Without it a merge with conflicts is refused.'
        ),
    ] = None
    delete_branch: Annotated[
        bool | None,
        Meta(
            description="Delete the source afterwards. By default yes for your own branch, so that your next task "
            "begins from the newest state, and no for others."
        ),
    ] = None
    message: Annotated[str | None, Meta(description="What to say about it in the history.")] = None


def _create(desk: Desk, given: _Create) -> Mapping[str, Any]:
    base = given.from_ if given.from_ is not None else desk.branch.base
    made = desk.graph.branches.create(given.name, base)
    return {"from": base, "name": made.name}


def _delete(desk: Desk, given: _Delete) -> Mapping[str, Any]:
    desk.graph.branches.delete(given.name)
    return {"name": given.name.strip()}


def _preview(desk: Desk, given: _Preview) -> Mapping[str, Any]:
    source, target = _ends(desk, given)
    answer = desk.graph.branches.merge(source, target, dry_run=True).to_dict()
    found = answer.pop("conflicts")
    part = cut(found, limits.MCP_CONFLICTS, desk.size.bytes)
    more = "settle these with resolve and look again"
    return {**answer, **listed("conflicts", part, len(found), more), "conflict_count": len(found)}


def _merge(desk: Desk, given: _Merge) -> Mapping[str, Any]:
    source, target = _ends(desk, given)
    wanted = given.delete_branch if given.delete_branch is not None else source == desk.branch.own
    result = desk.graph.branches.merge(
        source, target, resolve=given.resolve, delete_branch=wanted, message=given.message
    )
    answer = result.to_dict()
    return {name: value for name, value in answer.items() if value is not None or not name.startswith("branch_")}


def _ends(desk: Desk, given: _Preview | _Merge) -> tuple[str, str]:
    target = ids.known_branch(given.target) if given.target is not None else desk.branch.base
    if given.source is not None:
        return ids.known_branch(given.source), target
    own = desk.branch.own
    if own is None or not desk.surroundings.has_branch(own):
        raise InputError("you have no branch of your own, so there is nothing to merge", hint="name the source")
    return own, target


BRANCHES_CREATE = AgentTool(
    "branches_create",
    "Create a branch",
    "Make a branch; nothing is copied. You need none for ordinary work: your own branch is made by your first write.",
    _Create,
    _create,
    writes=True,
)
BRANCHES_DELETE = AgentTool(
    "branches_delete",
    "Delete a branch",
    "Delete a branch and what only it holds. This is how to give up your own unmerged changes.",
    _Delete,
    _delete,
    writes=True,
    destroys=True,
)
MERGE_PREVIEW = AgentTool(
    "merge_preview",
    "Preview a merge",
    "What merging a branch would do, without doing it: entities by type, and conflicts with both sides' values.",
    _Preview,
    _preview,
)
BRANCHES_MERGE = AgentTool(
    "branches_merge",
    "Merge a branch",
    "Merge what a branch changed into another one, by default your own branch into the base branch. This is the only "
    "step that makes your work visible to others: look at merge_preview first, and merge only when you were asked to.",
    _Merge,
    _merge,
    writes=True,
    destroys=True,
)
