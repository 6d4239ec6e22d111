"""Tools that tell what is there: graphs, schema, branches, commits, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from omnigraph import ids, limits
from omnigraph.mcp.answer_bounds import cut, listed
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.tools.agent_tool import AgentTool, ToolArguments
from omnigraph.mcp.tools.argument_kinds import CommitId, ReadBranch

if TYPE_CHECKING:
    from omnigraph import Snapshot


class _Nothing(ToolArguments):
    pass


class _OfBranch(ToolArguments):
    branch: ReadBranch = None


class _Commits(ToolArguments):
    branch: ReadBranch = None
    limit: Annotated[int, Meta(ge=1, le=limits.MCP_MOST_COMMITS, description="Most commits of the answer.")] = (
        limits.MCP_COMMITS
    )
    before: Annotated[str | None, Meta(description="Only commits older than this commit id.")] = None


class _Commit(ToolArguments):
    commit_id: CommitId


def _health(desk: Desk, given: _Nothing) -> Mapping[str, Any]:
    return desk.surroundings.health()


def graphs_answer(desk: Desk) -> dict[str, Any]:
    """The graphs that are there."""
    part = cut(desk.surroundings.graphs(), limits.MCP_MOST_NAMES, desk.size.bytes)
    return listed("graphs", part, None, "ask for the graph that you need by its id")


def schema_answer(desk: Desk) -> dict[str, Any]:
    """The schema of the graph."""
    return {"schema_source": desk.graph.schema.text}


def branches_answer(desk: Desk) -> dict[str, Any]:
    """The branches, and which of them this agent works on."""
    names = desk.graph.branches.list()
    part = cut(sorted(names), limits.MCP_MOST_NAMES, desk.size.bytes)
    answer = listed("branches", part, len(names), "name the branch that you need")
    own = desk.branch.for_writes
    work = {"base": desk.branch.base, "writes_go_to": own, "exists": own in names}
    return {**answer, "default": work}


def _snapshot(desk: Desk, given: _OfBranch) -> Mapping[str, Any]:
    found, branch = desk.reading(given.branch, desk.graph.snapshot)
    return {**snapshot_answer(found), "branch": branch}


def snapshot_answer(snapshot: Snapshot) -> dict[str, Any]:
    """Every table of a state with its row count, edges first."""
    return {
        "graph_branch": snapshot.branch if snapshot.branch != ids.MAIN else None,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": limits.INTERNAL_SCHEMA_VERSION,
        "commit_id": snapshot.commit_id,
        "datasets": [
            {
                "entity_kind": key.partition(":")[0],
                "type_name": key.partition(":")[2],
                "dataset_path": pin.location,
                "published_dataset_version": pin.version,
                "native_dataset_branch": pin.branch,
                "entity_count": pin.row_count,
            }
            for key, pin in sorted(snapshot.tables.items())
        ],
    }


def _commits(desk: Desk, given: _Commits) -> Mapping[str, Any]:
    found, branch = desk.reading(
        given.branch, lambda name: desk.graph.commits.list(name, given.limit + 1, given.before)
    )
    part = cut((commit.to_dict() for commit in found), given.limit, desk.size.bytes)
    more = "pass the last graph_commit_id as before, or a larger limit"
    return {**listed("commits", part, None, more), "branch": branch}


def _commit(desk: Desk, given: _Commit) -> Mapping[str, Any]:
    return desk.graph.commits.get(given.commit_id).to_dict()


HEALTH = AgentTool("health", "Health", "Whether the service works, and its versions.", _Nothing, _health)
GRAPHS_LIST = AgentTool(
    "graphs_list",
    "List graphs",
    "The graphs that are served here, with id and address. Needs a right of its own on a server with a policy. All "
    "other tools work on the one graph that this connection is for.",
    _Nothing,
    lambda desk, given: graphs_answer(desk),
)
SCHEMA_GET = AgentTool(
    "schema_get",
    "Get the schema",
    "The schema: every node and edge type with its properties, keys and rules. Read it before you write a query.",
    _Nothing,
    lambda desk, given: schema_answer(desk),
)
BRANCHES_LIST = AgentTool(
    "branches_list",
    "List branches",
    "All branches, and under `default` where your writes go when you name no branch, and whether that branch exists.",
    _Nothing,
    lambda desk, given: branches_answer(desk),
)
SNAPSHOT = AgentTool(
    "snapshot",
    "Count entities",
    "What a branch holds now: each node and edge type with its number of entities. Cheap; counts need no query.",
    _OfBranch,
    _snapshot,
)
COMMITS_LIST = AgentTool(
    "commits_list",
    "List commits",
    "The history of a branch, newest first: who changed what and when, with the message.",
    _Commits,
    _commits,
)
COMMITS_GET = AgentTool("commits_get", "Get a commit", "One commit by its id or by tag:NAME.", _Commit, _commit)
