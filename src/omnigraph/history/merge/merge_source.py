"""The source of a merge as it stood when the merge began, and its merge base with a target."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from omnigraph import limits
from omnigraph.errors import ConflictError, HistoricalVersionReclaimed, ReadSetChanged
from omnigraph.history.state_at import state_of
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.common_ancestors import merge_base, merge_bases
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot


@dataclass(frozen=True, slots=True)
class MergeSource:
    """One state of the source branch.

    Attributes:
        head: id of its newest commit.
    """

    branch: str
    snapshot: ManifestSnapshot
    head: str


@dataclass(frozen=True, slots=True)
class Detour:
    """Changes that both sides have besides those of the base: from one state to another.

    Attributes:
        direct: the changes are in both sides as they are; otherwise the base may have changed the same rows itself.
    """

    before: ManifestSnapshot
    after: ManifestSnapshot
    direct: bool


@dataclass(frozen=True, slots=True)
class MergeBase:
    """Where the two sides went apart.

    Attributes:
        snapshot: None when nothing has to be compared with it, because the source brings nothing new.
        detours: what both sides share besides this state, if they came together on several ways.
        is_target: the target did not move since.
        missing: commits of the source that the target does not know.
    """

    commit: Commit
    snapshot: ManifestSnapshot | None
    is_target: bool
    missing: tuple[Commit, ...]
    detours: tuple[Detour, ...] = ()


def capture(store: GraphStore, branch: str) -> MergeSource:
    """The newest state of a branch."""
    snapshot = store.snapshot(branch)
    return MergeSource(branch, snapshot, store.head_id(snapshot))


def find_base(store: GraphStore, source: MergeSource, target: ManifestSnapshot) -> MergeBase:
    """The common ancestor of the source and a state of the target.

    Raises:
        ConflictError: they share no history.
        HistoricalVersionReclaimed: the ancestor lay on a branch that is gone, and nothing stands for it.
    """
    ahead = _ahead(store, source, target)
    if ahead is not None:
        return ahead
    head, ours = _known(store, target)
    _, theirs = _known(store, source.snapshot)
    for commit_id in ours.keys() & theirs.keys():
        _require_same(ours[commit_id], theirs[commit_id])
    known = {**theirs, **ours}
    found = merge_bases(source.head, head, known)
    if not found:
        raise ConflictError(f"branches '{source.branch}' and '{target.branch}' share no history")
    best = found[0]
    if best.id == source.head:
        return MergeBase(best, None, best.id == head, ())
    missing = tuple(commit for id_, commit in sorted(theirs.items()) if id_ not in ours)
    if best.id == head:
        return MergeBase(best, target, True, missing)
    state, detours = _state_or_stand_in(store, best, known)
    detours += [_beside(store, best, other, known) for other in found[1:]]
    return MergeBase(best, state, False, missing, tuple(detours))


def _ahead(store: GraphStore, source: MergeSource, target: ManifestSnapshot) -> MergeBase | None:
    """The base of a source that only went on from where the target stands: nothing but its own few commits is looked
    at, however long the history of both is. None for every other case, and for a source that merged others itself."""
    head = commit_log.newest_commit(target)
    missing: list[Commit] = []
    for commit in islice(commit_log.history(store.tables, source.snapshot), limits.MERGE_WALK_COMMITS):
        if head is None or commit.id == head.id:
            break
        if commit.merged_parent is not None:
            return None
        missing.append(commit)
        if commit.parent == head.id:
            _require_same(head, commit_log.find_commit(source.snapshot, head.id) or head)
            return MergeBase(head, target, True, tuple(sorted(missing, key=lambda commit: commit.id)))
    return None


def _require_same(ours: Commit, theirs: Commit) -> None:
    """Callers may choose the ids of their commits. One that was given to writes on two branches names two commits, and
    neither is an ancestor of both sides."""
    if ours.branch != theirs.branch and ours.created_at != theirs.created_at:
        raise ConflictError(
            f"the id {ours.id} was given to a commit on '{ours.branch}' and to another one on '{theirs.branch}', "
            "so nobody can tell what the two sides have in common",
            hint="export the rows of the source and load them into the target",
            commit_id=ours.id,
        )


def _beside(store: GraphStore, best: Commit, other: Commit, known: Mapping[str, Commit]) -> Detour:
    """What another common ancestor has that the best one has not: its changes since the two of them went apart."""
    fork = merge_base(best.id, other.id, known)
    if fork is None:
        raise ConflictError(f"the common ancestors {best.id} and {other.id} share no history")
    return Detour(state_of(store, fork), state_of(store, other), direct=False)


def _state_or_stand_in(
    store: GraphStore, commit: Commit, known: Mapping[str, Commit]
) -> tuple[ManifestSnapshot, list[Detour]]:
    """The state of a commit; if its branch is gone, an older state and what merges of the commit brought with it."""
    try:
        return state_of(store, commit), []
    except HistoricalVersionReclaimed:
        forks, brought = [], []
        for merged in sorted(known.values(), key=commit_log.lineage_order):
            parent = known.get(merged.parent or "")
            if merged.merged_parent == commit.id and parent is not None:
                with contextlib.suppress(HistoricalVersionReclaimed):
                    brought.append(Detour(state_of(store, parent), state_of(store, merged), direct=True))
                    forks += merge_bases(parent.id, commit.id, known)[:1]
        if not forks or forks[0].id == commit.id:
            raise HistoricalVersionReclaimed(
                f"the common ancestor {commit.id} was made on branch '{commit.branch}', which was deleted since",
                hint="make a new branch from the target and repeat the changes there",
                commit_id=commit.id,
                branch=commit.branch,
            ) from None
        return state_of(store, forks[0]), brought


def _known(store: GraphStore, snapshot: ManifestSnapshot) -> tuple[str, dict[str, Commit]]:
    """Id of the newest commit and every commit that a state knows; the newest is synthetic if nothing recorded one."""
    known = commit_log.commits_of(store.tables, snapshot)
    head = store.head_id(snapshot)
    return head, known if head in known else {**known, head: commit_log.head_commit(store.tables, snapshot)}


def require_unchanged(store: GraphStore, read: ManifestSnapshot) -> None:
    """Call it after reading a state. A branch that was deleted and made again meanwhile repeats version numbers, so
    what was read may be a mixture."""
    now = store.branch_ref(read.branch).identity
    if now != read.identity:
        raise ReadSetChanged(f"branch '{read.branch}'", "the branch as it was", "another branch of the same name")
