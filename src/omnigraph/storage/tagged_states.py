"""What a tag names: from ``tag:NAME`` to its entry and to the state. `history/tags.py` makes and deletes tags."""

from __future__ import annotations

from omnigraph import ids
from omnigraph.errors import BranchNotFound, HistoricalVersionReclaimed, TagNotFound
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.grouped_states import state_between
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.metadata.tag_entries import TagEntry, read_tag, read_tags


def live_tags(store: GraphStore) -> list[TagEntry]:
    """The tags of a graph, by name."""
    return [entry for entry in read_tags(store.objects) if entry.state == "live"]


def shown_tags(store: GraphStore) -> list[TagEntry]:
    """Those of them that the user of a store may know of: the ones on branches that may be read."""
    return [entry for entry in live_tags(store) if _is_shown(store, entry)]


def tag_entry(store: GraphStore, name: str) -> TagEntry:
    """The tag of a name.

    Raises:
        TagNotFound: there is none that may be known of; the hint offers a similar one.
    """
    found = read_tag(store.objects, name)
    if found is None or found[0].state != "live" or not _is_shown(store, found[0]):
        raise no_tag(store, name)
    return found[0]


def _is_shown(store: GraphStore, entry: TagEntry) -> bool:
    if store.guard is None:
        return True
    try:
        return store.sees(holder_of(store, entry).name)
    except BranchNotFound:
        return store.sees(entry.branch)


def no_tag(store: GraphStore, name: str) -> TagNotFound:
    known = [entry.name for entry in shown_tags(store)]
    hint = ids.did_you_mean(name, known) or "list them with tags.list()"
    return TagNotFound(f"there is no tag '{name}'", hint=hint, tag=name)


def tagged_commit(store: GraphStore, text: str) -> str | None:
    """Id of the commit that ``tag:NAME`` means; None for any other text."""
    name = ids.tag_in(text)
    return tag_entry(store, name).commit if name is not None else None


def tagged_state(store: GraphStore, entry: TagEntry) -> ManifestSnapshot:
    """The state that a tag names, on the branch that has it today.

    Raises:
        HistoricalVersionReclaimed: it is gone, with its branch or by other software.
    """
    try:
        snapshot = store.state_on(holder_of(store, entry), entry.version)
    except BranchNotFound:
        raise _gone(entry, f"it went with branch '{entry.branch}'") from None
    except HistoricalVersionReclaimed:
        raise _gone(entry, "its files are no longer stored") from None
    if store.head_id(snapshot) != entry.commit and ids.is_ulid(entry.commit):
        between = state_between(store, holder_of(store, entry), snapshot, entry.commit)
        if between is not None:
            return between
        raise _gone(entry, f"another branch has the name '{entry.branch}' by now")
    return snapshot


def holder_of(store: GraphStore, entry: TagEntry) -> BranchRef:
    """The branch that has the state of a tag; one that was renamed since has its lineage still.

    Raises:
        BranchNotFound: it was deleted.
    """
    try:
        ref = store.branch_ref(entry.branch)
    except BranchNotFound:
        ref = None
    if ref is not None and ref.lineage == entry.lineage:
        return ref
    found = next((each for each in store.branch_refs() if each.lineage == entry.lineage), None)
    if found is None:
        raise BranchNotFound(f"there is no branch '{entry.branch}'", branch=entry.branch)
    return found


def _gone(entry: TagEntry, why: str) -> HistoricalVersionReclaimed:
    return HistoricalVersionReclaimed(
        f"the state of tag '{entry.name}' is gone: {why}",
        hint=f"delete the tag with tags.delete('{entry.name}')",
        tag=entry.name,
        commit_id=entry.commit,
    )
