"""The tools, in the order in which an agent sees them. Stored queries come behind them, see `stored_query_tools.py`."""

from omnigraph.mcp.tools.agent_tool import AgentTool
from omnigraph.mcp.tools.ask_tools import EXPLAIN, QUERY, SEARCH
from omnigraph.mcp.tools.branch_tools import BRANCHES_CREATE, BRANCHES_DELETE, BRANCHES_MERGE, MERGE_PREVIEW
from omnigraph.mcp.tools.follow_tools import CHANGES_POLL, COMMITS_CHANGES, DIFF
from omnigraph.mcp.tools.look_tools import (
    BRANCHES_LIST,
    COMMITS_GET,
    COMMITS_LIST,
    GRAPHS_LIST,
    HEALTH,
    SCHEMA_GET,
    SNAPSHOT,
)
from omnigraph.mcp.tools.write_tools import LOAD, MUTATE

TOOLS: tuple[AgentTool, ...] = (
    SCHEMA_GET,
    QUERY,
    SEARCH,
    EXPLAIN,
    MUTATE,
    LOAD,
    DIFF,
    MERGE_PREVIEW,
    BRANCHES_MERGE,
    BRANCHES_LIST,
    BRANCHES_CREATE,
    BRANCHES_DELETE,
    SNAPSHOT,
    COMMITS_LIST,
    COMMITS_GET,
    COMMITS_CHANGES,
    CHANGES_POLL,
    GRAPHS_LIST,
    HEALTH,
)

__all__ = ["TOOLS", "AgentTool"]
