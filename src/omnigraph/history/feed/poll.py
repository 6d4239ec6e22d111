"""The change feed: what happened on a branch since a position, commit by commit.

Nothing is stored for a consumer. Each poll fixes the branch's head, walks the first-parent commits behind the position
and gives their changes in order. Delivery is at least once: store the cursor together with the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph import given
from omnigraph.errors import (
    ChangeCursorRejected,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitNotFound,
    HistoricalVersionReclaimed,
    InputError,
)
from omnigraph.history.entity_changes import ChangeFilter
from omnigraph.history.feed.commit_changes import CommitChanges
from omnigraph.history.feed.page import ChangePage, PageDraft, PageSize, binding_of, known_types
from omnigraph.history.feed.positions import FeedBinding, FeedCursor, FeedPosition, PageToken, seal, unseal
from omnigraph.history.state_at import state_before, state_of, untagged
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot

NOW, BEGINNING, AFTER = "now", "beginning", "after:"


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What a consumer asks for.

    Attributes:
        since: ``now``, ``beginning``, ``after:<commit id or tag:NAME>``, or a cursor; None when ``page_token`` says it.
    """

    branch: str
    since: str | None
    page_token: str | None
    size: PageSize
    filter: ChangeFilter


@dataclass(frozen=True, slots=True)
class _Walk:
    """The commits of one answer, oldest first.

    Attributes:
        consumed: id of the commit before the first of them.
        position: begin behind this change of the first one.
    """

    consumed: str
    commits: Sequence[Commit]
    position: FeedPosition | None = None


def poll(store: GraphStore, request: FeedRequest) -> ChangePage:
    """One page of the feed. Its cost follows the commits behind the position, not those before it.

    Raises:
        ChangeCursorRejected: the cursor or page token does not belong here.
        ChangeFeedGap: the next commit's changes were cleaned up.
        ChangeSchemaBoundary: the next commit changed the properties of a type.
    """
    snapshot = store.snapshot(request.branch)
    binding = binding_of(store, snapshot, request.filter)
    request.filter.require_known_types(known_types(snapshot))
    walk = _walk(store, snapshot, request, binding)
    draft = PageDraft(request.size)
    consumed = walk.consumed
    before: ManifestSnapshot | None = None
    for place, commit in enumerate(walk.commits[: request.size.commits]):
        if draft.is_full:
            break
        try:
            before = before or state_before(store, commit)
            after = state_of(store, commit)
            block = CommitChanges(store, commit, before, after, request.filter)
        except HistoricalVersionReclaimed:
            if draft.blocks:
                break
            raise _gap(binding, consumed, commit) from None
        except ChangeSchemaBoundary:
            if draft.blocks:
                break
            raise
        cut_at = draft.add(block.commit, block, walk.position if place == 0 else None)
        if cut_at is not None:
            token = PageToken(binding, commit.id, walk.commits[-1].id, cut_at)
            return ChangePage(tuple(draft.blocks), None, seal(token), False)
        if not draft.holds(commit):
            break
        consumed, before = commit.id, after
    caught_up = consumed == store.head_id(snapshot)
    return ChangePage(tuple(draft.blocks), seal(FeedCursor(binding, consumed)), None, caught_up)


def _walk(store: GraphStore, snapshot: ManifestSnapshot, request: FeedRequest, binding: FeedBinding) -> _Walk:
    history = commit_log.history(store.tables, snapshot)
    if request.page_token is not None:
        if request.since is not None:
            raise InputError("a page token says where to go on; leave since out")
        return _rest(history, unseal(request.page_token, PageToken, binding))
    since = NOW if request.since is None else given.text(request.since, "since")
    if since == NOW:
        return _Walk(store.head_id(snapshot), ())
    if since == BEGINNING:
        genesis, *commits = reversed(list(history))
        return _Walk(genesis.id, commits)
    if since.startswith(AFTER):
        asked = since.removeprefix(AFTER)
        commit_id = untagged(store, asked)
        behind = _behind(history, commit_id)
        if behind is None:
            raise CommitNotFound(
                f"commit {asked!r} is not in the history of branch '{request.branch}'", commit_id=commit_id
            )
        return _Walk(commit_id, behind)
    commit_id = unseal(since, FeedCursor, binding).commit
    behind = _behind(history, commit_id)
    if behind is None:
        raise ChangeCursorRejected("its commit is not in the history of the branch")
    return _Walk(commit_id, behind)


def _rest(history: Iterator[Commit], token: PageToken) -> _Walk:
    """From a commit of which a part was given out to the end of that answer."""
    commits: list[Commit] = []
    for commit in history:
        if commits or commit.id == token.cut:
            commits.append(commit)
        if commits and commit.id == token.commit and commit.parent is not None:
            return _Walk(commit.parent, commits[::-1], token.position)
    raise ChangeCursorRejected("its commit is not in the history of the branch")


def _behind(history: Iterator[Commit], commit_id: str) -> list[Commit] | None:
    """The commits since one of them; None when it is not in the history. Its own row is not needed."""
    newer: list[Commit] = []
    for commit in history:
        if commit.id == commit_id:
            return newer[::-1]
        newer.append(commit)
        if commit.parent == commit_id:
            return newer[::-1]
    return None


def _gap(binding: FeedBinding, consumed: str, unreadable: Commit) -> ChangeFeedGap:
    return ChangeFeedGap(
        f"the changes of commit {unreadable.id} were cleaned up",
        hint="take a baseline and go on from its cursor",
        cursor=seal(FeedCursor(binding, consumed)),
        first_unreadable_commit_id=unreadable.id,
    )
