"""The commits that a feed walks: the first-parent history of one branch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from omnigraph import ids
from omnigraph.history.change_filter import ChangeFilter
from omnigraph.history.feed.tokens import Binding
from omnigraph.storage import lineage
from omnigraph.storage.manifest import Commit
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


@dataclass(frozen=True, slots=True)
class Chain:
    """The first-parent history of one branch up to one commit, oldest first."""

    branch: str
    incarnation: str
    commits: tuple[Commit, ...]

    @property
    def genesis(self) -> Commit:
        return self.commits[0]

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def index(self, commit_id: str) -> int | None:
        return next((place for place, commit in enumerate(self.commits) if commit.id == commit_id), None)

    def binding(self, filter_: ChangeFilter) -> Binding:
        return Binding(self.genesis.id, self.branch, self.incarnation, filter_.digest())


def chain_of(store: GraphStore, snapshot: Snapshot) -> Chain:
    """The history that readers of a branch experienced until a state of it."""
    head = lineage.head_commit(store.tables, snapshot)
    known = {head.id: head, **lineage.commits_of(store.tables, snapshot)}
    commits = tuple(reversed(list(lineage.first_parents(head.id, known))))
    incarnation = hashlib.sha256(store.branch_ref(snapshot.branch).identity.encode()).hexdigest()[:16]
    return Chain(snapshot.branch, incarnation, commits)


def cause_of(commit: Commit) -> dict[str, Any]:
    """What made a block, in the JSON form of all interfaces; times are in microseconds."""
    found: dict[str, Any] = {"graph_commit_id": commit.id}
    if commit.parent is not None:
        found["parent_commit_id"] = commit.parent
    if commit.merged_parent is not None:
        found["merged_parent_commit_id"] = commit.merged_parent
    found["authored_branch"] = commit.branch
    if commit.actor is not None:
        found["actor_id"] = commit.actor
    found["authored_at"] = ids.micros(commit.created_at)
    return found


def known_types(snapshot: Snapshot) -> list[str]:
    """Table keys of a state, dropped ones included: a feed goes back to when they were there."""
    return [*snapshot.pins, *snapshot.hidden]
