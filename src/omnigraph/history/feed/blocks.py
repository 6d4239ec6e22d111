"""What a feed is made of: a place in the history of one branch, and what made a block."""

from __future__ import annotations

import hashlib
from typing import Any

from omnigraph import ids
from omnigraph.history.change_filter import ChangeFilter
from omnigraph.history.feed.tokens import Binding
from omnigraph.storage import lineage
from omnigraph.storage.manifest import Commit
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


def binding_of(store: GraphStore, snapshot: Snapshot, filter_: ChangeFilter) -> Binding:
    """What notes about a branch belong to, from any state of it."""
    incarnation = hashlib.sha256(snapshot.identity.encode()).hexdigest()[:16]
    return Binding(lineage.genesis(store.tables, snapshot).id, snapshot.branch, incarnation, filter_.digest())


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
