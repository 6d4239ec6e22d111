"""All branches of a graph as a cleanup sees them, and what it lets go of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from omnigraph import ids, limits
from omnigraph.errors import BranchNotFound, CleanupRefused
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.holds import held_states
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.metadata.reclaimed import Reclaimed, ReclaimedVersions, name_of
from omnigraph.storage.metadata.tag_entries import read_tags
from omnigraph.upkeep.cleanup.merge_needs import needed_for_merges
from omnigraph.upkeep.cleanup.policy import CleanupPolicy


@dataclass(frozen=True, slots=True)
class BranchLook:
    """One branch.

    Attributes:
        own: the commits that were made on it, newest first.
        known: all commits that it knows.
    """

    ref: BranchRef
    state: ManifestSnapshot
    own: Sequence[Commit]
    known: Mapping[str, Commit] = field(repr=False)


def look_at_branches(store: GraphStore) -> list[BranchLook]:
    """Every branch in its newest state, main first.

    Raises:
        CleanupRefused: other software is about to change the schema.
    """
    found = []
    for ref in store.branch_refs():
        if ref.name == ids.SCHEMA_APPLY_LOCK:
            raise CleanupRefused(
                f"other software is changing the schema: it holds the branch '{ref.name}'",
                hint="try again when it is done",
            )
        try:
            state = store.read_lineage(ref)
        except BranchNotFound:
            continue  # deleted since it was listed
        known = commit_log.commits_of(store.tables, state)
        chain = list(commit_log.first_parents(store.head_id(state), dict(known)))
        own = [commit for commit in chain if commit.version > ref.parent_version]
        found.append(BranchLook(ref, state, own, known))
    return found


def wanted_versions(store: GraphStore, branches: Sequence[BranchLook]) -> dict[str, set[int]]:
    """Versions of each lineage that somebody needs beside those that the rule keeps: merges, tags and leases.

    Raises:
        CleanupRefused: a copy of the whole graph is being made.
    """
    wanted: dict[str, set[int]] = {name_of(branch.ref.lineage): set() for branch in branches}
    for lineage, version in _for_merges(branches):
        wanted[lineage].add(version)
    for tag in read_tags(store.objects):
        wanted.setdefault(name_of(tag.lineage), set()).add(tag.version)
    identities = {name_of(branch.ref.lineage): branch.ref.identity for branch in branches}
    for held in held_states(store.location, store.objects):
        if held.version is None:
            raise CleanupRefused(
                "a copy of the graph is being made, which needs all of it",
                hint=f"try again when it is done; if it was killed, in {limits.hold_seconds():g} s",
            )
        if identities.get(name_of(held.lineage)) == held.identity:
            wanted[name_of(held.lineage)].add(held.version)
    for branch in branches:
        versions = wanted[name_of(branch.ref.lineage)]
        versions |= {version - 1 for version in versions & _shared(branch)}
    return wanted


def _shared(branch: BranchLook) -> set[int]:
    """Versions that several commits were published as. What lies between these is told by the version before, too."""
    return {commit.version for commit in branch.own if commit.parts}


def _for_merges(branches: Sequence[BranchLook]) -> set[tuple[str, int]]:
    """Where the states lie that merges of these branches compare with."""
    known = {commit_id: commit for branch in branches for commit_id, commit in branch.known.items()}
    places = {commit.id: (name_of(branch.ref.lineage), commit.version) for branch in branches for commit in branch.own}
    heads = [branch.known[head].id for branch in branches if (head := _head(branch)) in branch.known]
    gone = known.keys() - places.keys()
    return {places[commit_id] for commit_id in needed_for_merges(heads, known, gone) if commit_id in places}


def _head(branch: BranchLook) -> str:
    state = branch.state
    recorded = state.head is not None and state.head.version == state.version
    return state.head.commit_id if recorded and state.head is not None else (branch.own[0].id if branch.own else "")


def given_up(
    branches: Sequence[BranchLook],
    wanted: Mapping[str, set[int]],
    before: Reclaimed,
    policy: CleanupPolicy,
    now: datetime,
) -> dict[str, ReclaimedVersions]:
    """What may be gone of each lineage from now on."""
    found = {}
    for branch in branches:
        name, identity = name_of(branch.ref.lineage), branch.ref.identity
        below = min(policy.first_kept(branch.own, now), branch.state.version)
        below -= below in _shared(branch)
        kept = frozenset(wanted[name]) | {branch.state.version}
        found[name] = before.of(branch.ref.lineage, identity).grown(below, kept)
    return found
