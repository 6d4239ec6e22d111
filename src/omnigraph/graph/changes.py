"""The verbs of a graph that are about changes: compare two states, follow a branch, begin with a baseline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from omnigraph import ids
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.control import known_branch
from omnigraph.history.resolve import At, Target, snapshot_of
from omnigraph.storage.store import GraphStore

if TYPE_CHECKING:
    from omnigraph.history.diff import Diff
    from omnigraph.history.export import Target as Place
    from omnigraph.history.feed.baseline import Baseline
    from omnigraph.history.feed.commit import CommitChanges
    from omnigraph.history.feed.page import ChangePage

#: A state: the name of a branch, a commit id, a manifest version, a time, or a snapshot.
State: TypeAlias = At | Snapshot


class ChangeVerbs(ABC):
    """What `Graph` can tell about changes."""

    @abstractmethod
    def _reader(self) -> GraphStore: ...

    def diff(
        self,
        from_: State,
        to: State,
        *,
        branch: str = ids.MAIN,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> Diff:
        """The changes that lead from one state to another, entity by entity.

        Args:
            from_: a branch, a commit id, a manifest version, a time, or a snapshot.
            to: likewise.
            branch: whose versions and times are meant.
            kinds: ``node``, ``edge``; None for both.
            types: names of types; None for all.
            ops: ``insert``, ``update``, ``delete``; None for all.

        Raises:
            ChangeSchemaBoundary: the properties of a type with rows differ between the two.

        Example:
            >>> branch = graph.branches.create("x").name
            >>> done = graph.mutate('query q() { delete Person where handle = "bo" }', branch=branch)
            >>> [(change.op, change.type, change.id) for change in graph.diff("main", "x")]
            [('delete', 'Person', 'bo'), ('delete', 'Follows', 'f1')]
        """
        from omnigraph.history.change_filter import change_filter
        from omnigraph.history.diff import Diff

        wanted = change_filter(kinds, types, ops)
        store = self._reader()
        before, after = (snapshot_of(store, _stored(each), known_branch(branch)) for each in (from_, to))
        wanted.require_known_types([*before.pins, *after.pins])
        return Diff(store, before, after, wanted)

    def changes(
        self,
        since: str | None = None,
        *,
        branch: str = ids.MAIN,
        page_token: str | None = None,
        limit: int | None = None,
        max_bytes: int | None = None,
        max_commits: int | None = None,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> ChangePage:
        """One page of the change feed of a branch: whole commits in order, each against its first parent.

        Args:
            since: ``now`` (the default), ``beginning``, ``after:<commit id>``, or the cursor of an earlier page.
            page_token: of a page that ended inside a block, to get the rest; then ``since`` is left out.
            limit: most changes on the page.
            max_bytes: most bytes of JSON on the page; a larger change comes alone.
            max_commits: most commits that one call walks.

        Raises:
            ChangeCursorRejected: the cursor or token is damaged or belongs to another graph, branch or filter.
            ChangeFeedGap: the history that is needed was cleaned up; begin again with `baseline`.

        Example:
            >>> page = graph.changes("beginning")
            >>> page
            ChangePage(1 commits, 3 changes, caught up)
            >>> graph.changes(page.cursor).blocks
            ()
        """
        from omnigraph.history.change_filter import change_filter
        from omnigraph.history.feed.page import page_size
        from omnigraph.history.feed.poll import FeedRequest, poll

        size, wanted = page_size(limit, max_bytes, max_commits), change_filter(kinds, types, ops)
        return poll(self._reader(), FeedRequest(known_branch(branch), since, page_token, size, wanted))

    def commit_changes(
        self,
        commit_id: str,
        *,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> CommitChanges:
        """The changes of one commit against its first parent.

        Raises:
            CommitWithoutParent: it is the first commit of the graph.

        Example:
            >>> print(graph.commit_changes(graph.commits.head().id).stats)
            3 inserted, 0 updated, 0 deleted in Person, Follows
        """
        from omnigraph.history.change_filter import change_filter
        from omnigraph.history.feed.commit import commit_changes

        return commit_changes(self._reader(), commit_id, change_filter(kinds, types, ops))

    def baseline(
        self,
        target: Place = None,
        branch: str = ids.MAIN,
        *,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> Baseline:
        """Write the newest state of a branch and get the cursor with which `changes` goes on from there.

        Install the data first, then the cursor. The filters must be those of the later calls.

        Args:
            target: a path, an open file, or None for the text in the result.

        Example:
            >>> graph.changes(graph.baseline("state.jsonl").resume_cursor).caught_up
            True
        """
        from omnigraph.history.change_filter import change_filter
        from omnigraph.history.feed.baseline import baseline

        store = self._reader()
        return baseline(store, store.snapshot(known_branch(branch)), target, change_filter(kinds, types, ops))


def _stored(state: State) -> Target:
    return state._stored if isinstance(state, Snapshot) else state
