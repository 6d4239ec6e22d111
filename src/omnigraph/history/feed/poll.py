"""The change feed: what happened on a branch since a position, commit by commit.

Nothing is stored for a consumer. Each poll fixes the branch's head, walks the first-parent commits behind the position
and gives their changes in order. Delivery is at least once: store the cursor together with the data.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import (
    ChangeCursorRejected,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitNotFound,
    HistoricalVersionReclaimed,
    InputError,
)
from omnigraph.history.change_filter import ChangeFilter
from omnigraph.history.feed.blocks import Chain, chain_of, known_types
from omnigraph.history.feed.commit import CommitChanges
from omnigraph.history.feed.page import ChangePage, PageDraft, PageSize
from omnigraph.history.feed.tokens import Binding, Cursor, PageToken, Position, seal, unseal
from omnigraph.history.resolve import state_of
from omnigraph.storage.manifest import Commit
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

NOW, BEGINNING, AFTER = "now", "beginning", "after:"


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What a consumer asks for.

    Attributes:
        since: ``now``, ``beginning``, ``after:<commit id>``, or a cursor; None when ``page_token`` says it.
    """

    branch: str
    since: str | None
    page_token: str | None
    size: PageSize
    filter: ChangeFilter


@dataclass(frozen=True, slots=True)
class _Walk:
    """The commits of one answer: those from ``start`` to ``stop`` in the chain, the first one behind a position."""

    start: int
    stop: int
    position: Position | None = None


def poll(store: GraphStore, request: FeedRequest) -> ChangePage:
    """One page of the feed.

    Raises:
        ChangeCursorRejected: the cursor or page token does not belong here.
        ChangeFeedGap: the next commit's changes were cleaned up.
        ChangeSchemaBoundary: the next commit changed the properties of a type.
    """
    snapshot = store.snapshot(request.branch)
    chain = chain_of(store, snapshot)
    binding = chain.binding(request.filter)
    request.filter.require_known_types(known_types(snapshot))
    walk = _walk(chain, request, binding)
    draft = PageDraft(request.size)
    last = walk.start - 1
    before: Snapshot | None = None
    for place in range(walk.start, min(walk.stop, walk.start + request.size.commits)):
        if draft.is_full:
            break
        commit = chain.commits[place]
        try:
            before = before or state_of(store, chain.commits[place - 1])
            after = state_of(store, commit)
            block = CommitChanges(store, commit, before, after, request.filter)
        except HistoricalVersionReclaimed as error:
            if draft.blocks:
                break
            raise _gap(binding, chain.commits[last], commit) from error
        except ChangeSchemaBoundary:
            if draft.blocks:
                break
            raise
        cut_at = draft.add(commit, block, walk.position if place == walk.start else None)
        if cut_at is not None:
            token = PageToken(binding, commit.id, chain.commits[walk.stop - 1].id, cut_at)
            return ChangePage(tuple(draft.blocks), None, seal(token), False)
        if not draft.holds(commit):
            break
        last, before = place, after
    return ChangePage(
        tuple(draft.blocks), seal(Cursor(binding, chain.commits[last].id)), None, last == len(chain.commits) - 1
    )


def _walk(chain: Chain, request: FeedRequest, binding: Binding) -> _Walk:
    if request.page_token is not None:
        if request.since is not None:
            raise InputError("a page token says where to go on; leave since out")
        token = unseal(request.page_token, PageToken, binding)
        start, cut = chain.index(token.commit), chain.index(token.cut)
        if start is None or cut is None or not 0 < start <= cut:
            raise ChangeCursorRejected("its commit is not in the history of the branch")
        return _Walk(start, cut + 1, token.position)
    return _Walk(_start(chain, request.since or NOW, binding), len(chain.commits))


def _start(chain: Chain, since: str, binding: Binding) -> int:
    """The first commit behind a position."""
    if since == NOW:
        return len(chain.commits)
    if since == BEGINNING:
        return 1
    if since.startswith(AFTER):
        commit_id = since.removeprefix(AFTER)
        place = chain.index(commit_id)
        if place is None:
            raise CommitNotFound(
                f"commit {commit_id!r} is not in the history of branch '{chain.branch}'", commit_id=commit_id
            )
        return place + 1
    place = chain.index(unseal(since, Cursor, binding).commit)
    if place is None:
        raise ChangeCursorRejected("its commit is not in the history of the branch")
    return place + 1


def _gap(binding: Binding, consumed: Commit, unreadable: Commit) -> ChangeFeedGap:
    return ChangeFeedGap(
        f"the changes of commit {unreadable.id} were cleaned up",
        hint="take a baseline and go on from its cursor",
        cursor=seal(Cursor(binding, consumed.id)),
        first_unreadable_commit_id=unreadable.id,
    )
