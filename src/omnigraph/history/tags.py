"""Tags: names for states that stay readable. Make, list, delete.

A tag is entered first and looks afterwards whether its state stays: whether its branch is still there and whether a
cleanup gave the state up. Whoever deletes a branch or cleans up does it the other way round, so one of the two sees the
other. Only then the tag is live. See `storage/metadata/tag_entries.py` for its object.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from omnigraph import failpoints, ids
from omnigraph.errors import BranchNotFound, HistoricalVersionReclaimed, OmniGraphError, TagExists
from omnigraph.history.state_at import At, asked_state
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.metadata.reclaimed import is_reclaimed
from omnigraph.storage.metadata.tag_entries import TagEntry, forget_tag, put_tag, read_tag, read_tags
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.store_guard import StoreFor
from omnigraph.storage.tagged_states import holder_of, live_tags, no_tag, tag_entry


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one state of a graph.

    Attributes:
        commit_id: the commit that made the state.
        branch: the branch that has it, by the name of today.
        version: manifest version of that branch.
        actor: who made the tag.
        message: what was said about it.
    """

    name: str
    commit_id: str
    branch: str
    version: int
    created_at: datetime
    actor: str | None = None
    message: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; times are in microseconds."""
        return {
            "name": self.name,
            "graph_commit_id": self.commit_id,
            "branch": self.branch,
            "graph_manifest_version": self.version,
            "created_at": ids.micros(self.created_at),
            "actor_id": self.actor,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class TagRequest:
    """Which state gets which name.

    Attributes:
        branch: None means main, without insisting on it; see `state_at.asked_state`.
    """

    name: str
    at: At | None
    branch: str | None
    actor: str | None
    message: str | None


class Tags:
    """Tags of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: the same for writing.
        actor: whom new tags name as their author.
    """

    def __init__(self, reader: StoreFor, writer: StoreFor, actor: str | None) -> None:
        self._reader = reader
        self._writer = writer
        self._actor = actor

    def create(self, name: str, at: At | None = None, *, branch: str | None = None, message: str | None = None) -> Tag:
        """Give a state a name. From then on ``at="tag:NAME"`` means it wherever a commit is meant, cleanup keeps it,
        and its branch can be deleted only together with the tag.

        Args:
            name: by the rules for names of branches.
            at: a commit id, a manifest version, a time or another tag; None takes the newest state.
            branch: the branch that is meant; None means main.
            message: what to say about it.

        Raises:
            TagExists: another state or this one has the name.
            HistoricalVersionReclaimed: the state was cleaned up.

        Example:
            >>> tag = graph.tags.create("2026-q3", message="as reported")
            >>> done = graph.mutate('query q() { delete Person where handle = "bo" }')
            >>> graph.snapshot().count("Person"), graph.snapshot(at="tag:2026-q3").count("Person")
            (1, 2)
        """
        said = ids.commit_message(message)
        return create_tag(self._writer("change"), TagRequest(ids.tag_name(name), at, branch, self._actor, said))

    def list(self) -> list[Tag]:
        """All tags, by name.

        Example:
            >>> made = graph.tags.create("2026-q3")
            >>> [tag.name for tag in graph.tags.list()]
            ['2026-q3']
        """
        store = self._reader("read")
        return [_tag(store, entry) for entry in live_tags(store)]

    def get(self, name: str) -> Tag:
        """A tag by its name.

        Raises:
            TagNotFound: there is none.

        Example:
            >>> graph.tags.create("2026-q3").commit_id == graph.tags.get("2026-q3").commit_id
            True
        """
        store = self._reader("read")
        return _tag(store, tag_entry(store, ids.tag_name(name)))

    def delete(self, name: str) -> None:
        """Delete a tag. Its state stays as long as any other one of its age.

        Raises:
            TagNotFound: there is none.

        Example:
            >>> made = graph.tags.create("2026-q3")
            >>> graph.tags.delete("2026-q3")
            >>> graph.tags.list()
            []
        """
        delete_tag(self._writer("change"), ids.tag_name(name))

    def __iter__(self) -> Iterator[str]:
        return iter([tag.name for tag in self.list()])

    def __repr__(self) -> str:
        return "<tags: create(…), list(), get(…), delete(…)>"


def create_tag(store: GraphStore, request: TagRequest) -> Tag:
    """Enter a tag, make sure that its state stays, and make it live."""
    with _guarded(store):
        seen = _free(store, request.name)
        state = asked_state(store, request.branch, request.at)
        entry = TagEntry(
            name=request.name,
            commit=store.head_id(state),
            branch=state.branch,
            lineage=state.lineage,
            version=state.version,
            created_at=ids.now(),
            actor=request.actor,
            message=request.message,
            state="making",
            token=ids.new_ulid(),
        )
        entered = put_tag(store.objects, entry, seen)
        if entered is None:
            raise _taken(request.name)
        failpoints.reach("tag_create.after_entry")
        try:
            _require_stays(store, entry, state)
        except OmniGraphError:
            _strike(store, entry, entered)
            raise
        if put_tag(store.objects, replace(entry, state="live"), entered) is None:
            raise _taken(request.name)
        failpoints.reach("tag_create.after_live")
    return _tag(store, entry)


def delete_tag(store: GraphStore, name: str) -> None:
    """Delete a tag, also one that somebody began to make."""
    with _guarded(store):
        found = read_tag(store.objects, name)
        if found is None or found[0].state == "deleted":
            raise no_tag(store, name)
        failpoints.reach("tag_delete.before_entry")
        if not _strike(store, *found):
            raise no_tag(store, name)
        failpoints.reach("tag_delete.after_entry")


def tags_of_lineage(store: GraphStore, lineage: str | None) -> list[TagEntry]:
    """The tags on the states of a branch, also those that somebody is making."""
    return [entry for entry in read_tags(store.objects) if entry.lineage == lineage]


def strike_tags(store: GraphStore, entries: list[TagEntry]) -> None:
    """Delete tags, if they are still the ones that were seen. The caller holds the section of branch control."""
    for entry in entries:
        found = read_tag(store.objects, entry.name)
        if found is not None and found[0].token == entry.token and found[0].state != "deleted":
            _strike(store, *found)


def _guarded(store: GraphStore) -> AbstractContextManager[object]:
    """On a disk an object is replaced by whoever holds its section; an object store compares by itself."""
    return store.sections.hold(CONTROL) if store.location.is_local else contextlib.nullcontext()


def _free(store: GraphStore, name: str) -> str | None:
    """Version tag of the entry that a new tag replaces: of a deleted one, or of one that was begun and not finished."""
    found = read_tag(store.objects, name)
    if found is not None and found[0].state == "live":
        raise TagExists(
            f"tag '{name}' exists already, on commit {found[0].commit}",
            hint=f"choose another name, or delete it with tags.delete('{name}')",
            tag=name,
            commit_id=found[0].commit,
        )
    return found[1] if found is not None else None


def _require_stays(store: GraphStore, entry: TagEntry, state: ManifestSnapshot) -> None:
    """Refuse a state that is on its way out, now that whoever takes it away sees the tag."""
    try:
        is_same = holder_of(store, entry).identity == state.identity
    except BranchNotFound:
        is_same = False
    if not is_same:
        raise BranchNotFound(f"branch '{entry.branch}' was deleted meanwhile", branch=entry.branch)
    if is_reclaimed(store.objects, entry.lineage, entry.version, state.identity):
        raise HistoricalVersionReclaimed(
            f"the state of commit {entry.commit} was cleaned up, or is about to be",
            hint="choose a newer commit",
            commit_id=entry.commit,
        )
    for pin in state.pins.values():
        store.table(pin)


def _strike(store: GraphStore, entry: TagEntry, seen: str) -> bool:
    """Take a tag away, if its entry is still the one that was seen."""
    if store.location.is_local:
        forget_tag(store.objects, entry.name)
        return True
    return put_tag(store.objects, replace(entry, state="deleted"), seen) is not None


def _taken(name: str) -> TagExists:
    return TagExists(f"tag '{name}' was made or deleted by somebody else meanwhile", hint="look at it again", tag=name)


def _tag(store: GraphStore, entry: TagEntry) -> Tag:
    try:
        branch = holder_of(store, entry).name
    except BranchNotFound:
        branch = entry.branch
    return Tag(entry.name, entry.commit, branch, entry.version, entry.created_at, entry.actor, entry.message)
