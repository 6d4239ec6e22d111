"""The commits that branches descend from by both parents, as a graph that can be drawn.

The walk goes back from the heads, the newest commit first, and stops when it has found as many as are asked for. What
is not wanted is left out, and lines lead past it to the nearest ancestors that are.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph import ids
from omnigraph.errors import InputError
from omnigraph.history.commit_filter import CommitFilter, has_time
from omnigraph.history.commit_list import not_in_history
from omnigraph.history.readable_commits import marked
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot

_Find = Callable[[str], Commit | None]


@dataclass(frozen=True, slots=True)
class CommitNode:
    """A commit of a drawn history.

    Attributes:
        parents: ids of its nearest ancestors in the same list, the line of its own branch first; also of those that
            come next, where the list was cut by its limit.
        heads: branches whose newest commit it is.
    """

    commit: Commit
    parents: tuple[str, ...]
    heads: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: that of the commit, and what is drawn of it."""
        drawn = {"shown_parent_ids": list(self.parents), "heads": list(self.heads)}
        return {**self.commit.to_dict(), **drawn, "readable": self.commit.readable}


def commit_graph(
    store: GraphStore, branches: Sequence[str] | None, limit: int | None, wanted: CommitFilter
) -> list[CommitNode]:
    """The commits of branches, of all when None is given, and of everything merged into them: children before parents.

    Raises:
        CommitNotFound: no history has the commit that the filter names.
    """
    for bound in (wanted.since, wanted.until):
        if isinstance(bound, int):
            raise InputError(
                f"version {bound} is a state of one branch, and several are listed", hint="give a commit id or a time"
            )
    states = [store.snapshot(name) for name in (_names(store) if branches is None else dict.fromkeys(branches))]
    heads = [commit_log.head_commit(store.tables, state) for state in states]
    walk = _Walk(wanted, limit)
    if isinstance(wanted.since, str):
        walk.leave_out(*_named(store, wanted.since, states))
    if isinstance(wanted.until, str):
        walk.begin(*_named(store, wanted.until, states))
    else:
        for head, state in zip(heads, states, strict=True):
            walk.begin(head, commit_log.finder(store.tables, state))
    walk.go()
    names = defaultdict(list)
    for head, state in zip(heads, states, strict=True):
        names[head.id].append(state.branch)
    drawn = list(walk.drawn())
    commits = marked(store, [commit for commit, _ in drawn])
    return [
        CommitNode(commit, parents, tuple(names[commit.id]))
        for commit, (_, parents) in zip(commits, drawn, strict=True)
    ]


def _names(store: GraphStore) -> list[str]:
    return [ref.name for ref in store.branch_refs() if ref.name != ids.SCHEMA_APPLY_LOCK]


def _named(store: GraphStore, commit_id: str, states: Sequence[ManifestSnapshot]) -> tuple[Commit, _Find]:
    """A commit that a caller names: it has to be one that a state descends from."""
    for state in states:
        recorded = commit_log.find_commit(state, commit_id)
        commit = recorded or commit_log.commits_of(store.tables, state).get(commit_id)
        if commit is not None:
            return commit, commit_log.finder(store.tables, state)
    raise not_in_history(commit_id, *(state.branch for state in states))


def _parents(commit: Commit) -> list[str]:
    return [each for each in dict.fromkeys((commit.parent, commit.merged_parent)) if each is not None]


def _newest_first(commit: Commit) -> tuple[int, int, str]:
    return -ids.micros(commit.created_at), -commit.version, commit.id


class _Walk:
    """A walk back from some commits."""

    def __init__(self, wanted: CommitFilter, limit: int | None) -> None:
        self._wanted = wanted
        self._left = limit
        self._seen: set[str] = set()
        self._waiting: list[tuple[tuple[int, int, str], Commit, _Find]] = []
        self._met: dict[str, Commit] = {}
        self._listed: set[str] = set()

    def leave_out(self, commit: Commit, find: _Find) -> None:
        """Neither this commit nor any that it descends from is looked at."""
        todo = [commit]
        while todo:
            commit = todo.pop()
            if commit.id not in self._seen:
                self._seen.add(commit.id)
                todo += filter(None, map(find, _parents(commit)))

    def begin(self, commit: Commit, find: _Find) -> None:
        if commit.id not in self._seen:
            self._seen.add(commit.id)
            heapq.heappush(self._waiting, (_newest_first(commit), commit, find))

    def go(self) -> None:
        until = None if isinstance(self._wanted.until, str) else self._wanted
        while self._waiting and (self._left is None or len(self._listed) < self._left):
            _, commit, find = heapq.heappop(self._waiting)
            if has_time(commit) and self._wanted.is_too_old(commit):
                continue
            self._met[commit.id] = commit
            if self._wanted.fits(commit) and not (until is not None and until.is_too_new(commit)):
                self._listed.add(commit.id)
            for name in _parents(commit):
                parent = find(name) if name not in self._seen else None
                if parent is not None:
                    self.begin(parent, find)

    def drawn(self) -> Iterator[tuple[Commit, tuple[str, ...]]]:
        """Those that are listed, children before parents, each with the nearest ancestors that are."""
        ahead = {commit.id for _, commit, _ in self._waiting}
        order = self._children_first()
        shown: dict[str, tuple[str, ...]] = {}
        lines: dict[str, tuple[str, ...]] = {}
        for commit in reversed(order):
            near = [shown.get(name, (name,) if name in ahead else ()) for name in _parents(commit)]
            lines[commit.id] = tuple(dict.fromkeys(name for names in near for name in names))
            shown[commit.id] = (commit.id,) if commit.id in self._listed else lines[commit.id]
        return ((commit, lines[commit.id]) for commit in order if commit.id in self._listed)

    def _children_first(self) -> list[Commit]:
        """Newest first, but no parent before its child, whatever their clocks said."""
        children: dict[str, int] = defaultdict(int)
        for commit in self._met.values():
            for name in _parents(commit):
                children[name] += 1
        ready = [(_newest_first(commit), commit) for commit in self._met.values() if not children[commit.id]]
        heapq.heapify(ready)
        order = []
        while ready:
            _, commit = heapq.heappop(ready)
            order.append(commit)
            for name in _parents(commit):
                children[name] -= 1
                if not children[name] and name in self._met:
                    heapq.heappush(ready, (_newest_first(self._met[name]), self._met[name]))
        return order
