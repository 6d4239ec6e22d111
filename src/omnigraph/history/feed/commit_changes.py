"""The changes of one commit against its first parent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from omnigraph import given
from omnigraph.errors import ChangeCursorRejected, ChangeSchemaBoundary, CommitWithoutParent
from omnigraph.history.diff import Diff
from omnigraph.history.entity_changes import ChangeFilter, EntityChange
from omnigraph.history.feed.page import PageDraft, binding_of, cause_of, known_types, page_size
from omnigraph.history.feed.positions import FeedBinding, PageToken, seal, unseal
from omnigraph.history.state_at import get_commit, state_before, state_of
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot


@dataclass(frozen=True, slots=True)
class CommitPage:
    """Some changes of one commit.

    Attributes:
        page_token: give it to the next call to get the rest; None when this was the end.
    """

    commit: Commit
    changes: tuple[EntityChange, ...]
    page_token: str | None

    def __repr__(self) -> str:
        more = "more to come" if self.page_token is not None else "the end"
        return f"CommitPage(commit {self.commit.id}, {len(self.changes)} changes, {more})"

    def to_dict(self) -> dict[str, Any]:
        found = {"cause": cause_of(self.commit), "changes": [change.to_dict() for change in self.changes]}
        return found if self.page_token is None else {**found, "next_page_token": self.page_token}

    def to_json(self, *, indent: int | None = None) -> str:
        separators = (",", ":") if indent is None else None
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, separators=separators)


class CommitChanges(Diff):
    """What one commit changed.

    Attributes:
        commit: the commit.
    """

    def __init__(
        self,
        store: GraphStore,
        commit: Commit,
        before: ManifestSnapshot,
        after: ManifestSnapshot,
        filter_: ChangeFilter,
    ) -> None:
        self.commit = store.told(commit)
        try:
            super().__init__(store, before, after, filter_)
        except ChangeSchemaBoundary as error:
            details = {**error.details, "graph_commit_id": commit.id}
            hint = f"take a baseline, or go on with since='after:{commit.id}'"
            raise ChangeSchemaBoundary(error.message, hint=hint, **details) from None

    def __repr__(self) -> str:
        return f"CommitChanges(commit {self.commit.id}, {len(self.pairs)} tables)"

    @property
    def cause(self) -> dict[str, Any]:
        """Who made the commit, when, and from what."""
        return cause_of(self.commit)

    def page(
        self, limit: int | None = None, *, page_token: str | None = None, max_bytes: int | None = None
    ) -> CommitPage:
        """Some of the changes, bounded like a page of the feed.

        Raises:
            ChangeCursorRejected: the token belongs to something else.
        """
        binding = self._binding()
        position = None
        if page_token is not None:
            token = unseal(page_token, PageToken, binding)
            if (token.commit, token.cut) != (self.commit.id, self.commit.id):
                raise ChangeCursorRejected("it belongs to another answer")
            position = token.position
        draft = PageDraft(page_size(limit, max_bytes))
        cut_at = draft.add(self.commit, self, position)
        rest = seal(PageToken(binding, self.commit.id, self.commit.id, cut_at)) if cut_at is not None else None
        return CommitPage(self.commit, draft.blocks[0].changes, rest)

    def _binding(self) -> FeedBinding:
        return binding_of(self._store, self._store.snapshot(self.branch), self._filter)

    def _document(self) -> dict[str, Any]:
        return {"cause": self.cause, "changes": self.rows(), "stats": self.stats.to_dict()}


def commit_changes(store: GraphStore, commit_id: str, filter_: ChangeFilter) -> CommitChanges:
    """The changes of one commit against its first parent.

    Raises:
        CommitWithoutParent: it is the first one.
        ChangeSchemaBoundary: it changed the properties of a type that has rows.
        HistoricalVersionReclaimed: one of the two states was cleaned up.
    """
    commit = get_commit(store, given.text(commit_id, "the id of a commit"))
    if commit.parent is None:
        raise CommitWithoutParent(
            f"commit {commit.id} has no parent to compare with",
            hint="start from a baseline",
            graph_commit_id=commit.id,
        )
    after = state_of(store, commit)
    filter_.require_known_types(known_types(after))
    return CommitChanges(store, commit, state_before(store, commit), after, filter_)
