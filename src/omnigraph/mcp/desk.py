"""A desk: an open graph in the hands of one actor, and what a tool can ask of its surroundings.

The graph is a `Graph`, or what has its methods and is answered by a server. What is not a matter of one graph, such as
the list of graphs, differs between a store, a server and a client, and comes from the `Surroundings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from omnigraph import limits
from omnigraph.mcp.agent_branch import AgentBranch

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph import Graph, MutationResult, Result

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call of a stored query.

    Attributes:
        writes: as the catalog says of the query.
        at: the state to read; only for reads.
        if_commit: refuse unless this is the head of the branch; only for writes.
    """

    name: str
    writes: bool
    params: Mapping[str, Any] | None = None
    branch: str | None = None
    at: str | None = None
    if_commit: str | None = None


class Surroundings(Protocol):
    """What is there besides the graph."""

    def health(self) -> Mapping[str, Any]:
        """Whether it works, and its versions."""

    def graphs(self) -> Sequence[Mapping[str, Any]]:
        """Every graph that is there, with ``graph_id`` and ``uri``, or an error for who may not see the list."""

    def has_branch(self, name: str) -> bool:
        """Whether a branch exists."""

    def drop_unused(self, name: str) -> None:
        """Delete a branch that was just made if nothing was written to it; if that cannot be told, it stays."""

    def stored_queries(self) -> Sequence[Mapping[str, Any]]:
        """The catalog entries of the stored queries that the actor may call."""

    def invoke(self, call: StoredCall) -> Result | MutationResult:
        """Call a stored query."""


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """How much of an answer an agent gets."""

    rows: int = limits.MCP_ROWS
    bytes: int = limits.MCP_ANSWER_BYTES


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the tool calls of one actor are worked on.

    Attributes:
        branch: on which branch the agent works when it names none.
        budget: what one query may take, by the names of the arguments of `Graph.query`.
    """

    graph: Graph
    surroundings: Surroundings
    branch: AgentBranch
    size: AnswerSize = field(default_factory=AnswerSize)
    budget: Mapping[str, Any] = field(default_factory=dict)

    def allowed(self, *names: str) -> dict[str, Any]:
        """The part of the budget that a verb of the graph takes."""
        return {name: self.budget[name] for name in names if name in self.budget}

    def reading(self, branch: str | None, read: Callable[[str], _Answer]) -> tuple[_Answer, str]:
        """Read from a branch, see `AgentBranch.reading`."""
        return self.branch.reading(branch, self.surroundings.has_branch, read)

    def writing(self, branch: str | None, write: Callable[[str], _Answer]) -> tuple[_Answer, str, bool]:
        """Write to a branch, see `AgentBranch.writing`."""
        return self.branch.writing(branch, self.graph, write, self.surroundings.drop_unused)

    def seen_branch(self) -> str:
        """The branch that is read when none is named."""
        own = self.branch.own
        return own if own is not None and self.surroundings.has_branch(own) else self.branch.base
