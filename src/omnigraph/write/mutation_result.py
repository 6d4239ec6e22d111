"""A mutation as it is asked for, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.storage.metadata.manifest import Commit


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation did.

    Attributes:
        commit: None when no row matched and so nothing changed.
        affected_nodes, affected_edges: an insert counts one, an update the rows it matched, deletes the distinct rows
            that the whole query removed, cascaded edges included.
    """

    commit: Commit | None
    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor: str | None

    def __repr__(self) -> str:
        changed = f"{self.affected_nodes} nodes, {self.affected_edges} edges"
        return f"MutationResult({self.query_name!r} on {self.branch}: {changed}; {_commit_id(self.commit)})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": self.commit.to_dict() if self.commit else None,
        }


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """A mutation as a caller asks for it; the fields are those of `omnigraph.Graph.mutate`."""

    source: str | Path
    name: str | None
    params: Mapping[str, object] | None
    branch: str
    actor: str | None
    if_commit: str | None
    message: str | None = None
    commit_id: str | None = None
    budget: ReadBudget = UNBOUNDED


def _commit_id(commit: Commit | None) -> str:
    return f"commit {commit.id}" if commit is not None else "no commit"
