"""One page of changes: filled change by change until a bound is reached, then cut or closed.

A page is all or nothing: everything on it was read before anything is given out. A change that is larger than a whole
page is sent alone and never cut. A block is what one commit or one comparison contributes to a page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from omnigraph import given, ids, limits
from omnigraph.errors import ChangeCursorRejected, InputError, ResourceLimitExceeded
from omnigraph.history.diff import Diff, batches_of
from omnigraph.history.entity_changes import ChangeFilter, EntityChange
from omnigraph.history.feed.positions import FeedBinding, FeedPosition
from omnigraph.storage.delta import OrderedChanges
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """What one commit changed. A commit that moved only files has no changes."""

    commit: Commit
    changes: tuple[EntityChange, ...]

    def __repr__(self) -> str:
        return f"ChangeBlock(commit {self.commit.id}, {len(self.changes)} changes)"

    @property
    def cause(self) -> dict[str, Any]:
        return cause_of(self.commit)

    def to_dict(self) -> dict[str, Any]:
        return {"cause": self.cause, "changes": [change.to_dict() for change in self.changes]}


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Some blocks in the order of their commits.

    Attributes:
        cursor: give it to the next call once the blocks are applied; None when the page ends inside a block.
        page_token: give it to the next call to get the rest of the last block; None when the page ends with a block.
        caught_up: nothing else was there when the answer was begun.
    """

    blocks: tuple[ChangeBlock, ...]
    cursor: str | None
    page_token: str | None
    caught_up: bool

    def __repr__(self) -> str:
        changes = sum(len(block.changes) for block in self.blocks)
        state = "caught up" if self.caught_up else "more to come"
        return f"ChangePage({len(self.blocks)} commits, {changes} changes, {state})"

    def __iter__(self) -> Iterator[ChangeBlock]:
        return iter(self.blocks)

    def to_dict(self) -> dict[str, Any]:
        blocks = [block.to_dict() for block in self.blocks]
        if self.page_token is not None:
            return {"blocks": blocks, "next_page_token": self.page_token}
        return {"blocks": blocks, "cursor": self.cursor, "caught_up": self.caught_up}

    def to_json(self, *, indent: int | None = None) -> str:
        separators = (",", ":") if indent is None else None
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, separators=separators)


@dataclass(frozen=True, slots=True)
class PageSize:
    """How much fits on a page."""

    changes: int
    bytes: int
    commits: int


def page_size(limit: int | None, max_bytes: int | None, max_commits: int | None = None) -> PageSize:
    """Check the bounds that a caller gave."""
    return PageSize(
        _bound("changes", limit, limits.FEED_PAGE_CHANGES, limits.FEED_PAGE_MAX_CHANGES),
        _bound("bytes", max_bytes, limits.FEED_PAGE_BYTES, limits.FEED_PAGE_MAX_BYTES),
        _bound("commits", max_commits, limits.FEED_COMMITS, limits.FEED_MAX_COMMITS),
    )


def _bound(what: str, asked: int | None, default: int, most: int) -> int:
    if asked is None:
        return default
    if given.whole_number(asked, f"the most {what} of a page") < 1:
        raise InputError(f"a page holds at least one of its {what}, not {asked}")
    if asked > most:
        raise ResourceLimitExceeded(f"commit_changes_page_{what}", asked, most)
    return asked


@dataclass(slots=True)
class PageDraft:
    """A page in the making."""

    size: PageSize
    blocks: list[ChangeBlock] = field(default_factory=list)
    changes: int = 0
    bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self.changes >= self.size.changes or self.bytes >= self.size.bytes

    def add(self, commit: Commit, diff: Diff, after: FeedPosition | None = None) -> FeedPosition | None:
        """Add a block, or as much of it as fits; returns the last change of a block that did not fit as a whole.

        Nothing of the block may fit on a page that holds other blocks; then it is left for the next page.

        Args:
            after: begin behind this change.
        """
        taken: list[EntityChange] = []
        is_cut = False
        for change in _changes(diff, after, self.size.changes - self.changes + 1):
            weight = len(json.dumps(change.to_dict(), ensure_ascii=False).encode("utf-8", "surrogatepass"))
            if self.changes and (self.changes >= self.size.changes or self.bytes + weight > self.size.bytes):
                is_cut = True
                break
            taken.append(change)
            self.changes += 1
            self.bytes += weight
        if not is_cut or taken:
            self.blocks.append(ChangeBlock(commit, tuple(taken)))
        if not is_cut or not taken:
            return None
        last = taken[-1]
        return FeedPosition.of(f"{last.kind}:{last.type}", last.op, last.id)

    def holds(self, commit: Commit) -> bool:
        return bool(self.blocks) and self.blocks[-1].commit.id == commit.id


def _changes(diff: Diff, after: FeedPosition | None, most: int) -> Iterator[EntityChange]:
    """The changes of a block behind a position; images of hardly more than ``most`` of them are read."""
    keys = [pair.table_key for pair in diff.pairs]
    if after is not None and after.table_key not in keys:
        raise ChangeCursorRejected("its position is not in the history")
    for pair in diff.pairs[keys.index(after.table_key) if after is not None else 0 :]:
        changes = diff.changes_of(pair)
        start = _behind(changes, after) if after is not None and pair.table_key == after.table_key else 0
        for batch in batches_of(pair, changes, start, most):
            yield from batch


def _behind(changes: OrderedChanges, position: FeedPosition) -> int:
    if position.id is not None:
        place = pc.index(changes.ids, position.id).as_py()
    else:
        long = pc.greater(pc.binary_length(changes.ids), limits.FEED_TOKEN_ID_BYTES)
        places = (place for place in pc.indices_nonzero(long).to_pylist() if position.is_at(changes.ids[place].as_py()))
        place = next(places, -1)
    if place < 0:
        raise ChangeCursorRejected("its position is not in the history")
    return int(place) + 1


def binding_of(store: GraphStore, snapshot: ManifestSnapshot, filter_: ChangeFilter) -> FeedBinding:
    """What notes about a branch belong to, from any state of it."""
    incarnation = hashlib.sha256(snapshot.identity.encode()).hexdigest()[:16]
    return FeedBinding(commit_log.genesis(store.tables, snapshot).id, snapshot.branch, incarnation, filter_.digest())


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


def known_types(snapshot: ManifestSnapshot) -> list[str]:
    """Table keys of a state, dropped ones included: a feed goes back to when they were there."""
    return [*snapshot.pins, *(() if snapshot.withheld else snapshot.hidden)]
