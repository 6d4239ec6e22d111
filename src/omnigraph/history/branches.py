"""Branches: make, list, delete.

A branch is a Lance branch of the manifest; making one copies nothing and touches no table. The entry of its name is the
authority (`storage/metadata/branch_entries.py`); everything else about a branch is derived. A lineage belongs to one
branch for ever, so whatever comes late from a branch that is gone reaches nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from omnigraph import failpoints, given, ids, limits
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNotFound,
    ConflictError,
    HistoricalVersionReclaimed,
    InputError,
    InvalidName,
    LimitError,
    OutcomeUnknown,
    ReadSetChanged,
    StorageError,
)
from omnigraph.history.state_at import At, locate, snapshot_at
from omnigraph.history.tags import strike_tags, tags_of_lineage
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.commit.publish import GraphChange
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.branch_entries import BranchEntry
from omnigraph.storage.metadata.commit_log import COMMITS_PATH
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.metadata.reclaimed import given_up, is_reclaimed
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.objects.native_libraries import STORE_EXCEPTIONS
from omnigraph.storage.recovery.sweep import discard_records, heal_branch
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable

#: How many tags a refusal names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as a listing shows it."""

    name: str
    parent: str | None


def create_branch(store: GraphStore, name: str, from_: str, at: At | None) -> Branch:
    """Make a branch from the newest state of another one, or from a commit, version or time of it.

    On an object store the name is taken first, by compare-and-swap on its entry, together with a lineage that nobody
    else writes to; the branch exists when its entry says so. Whoever is late at any of it finds the entry changed and
    has made nothing.
    """
    name = _new_name(name)
    for _ in range(limits.PUBLISHER_RETRY_BUDGET):
        made = _create_once(store, name, from_, at)
        if made is not None:
            return made
    raise ConflictError(f"branch '{name}' was taken away by cleanups again and again", hint="retry", branch=name)


def _create_once(store: GraphStore, name: str, from_: str, at: At | None) -> Branch | None:
    """None when a cleanup took the name away, because it could not tell which state the branch would show."""
    with store.sections.hold(CONTROL):
        require_no_overlap(store, name)
        source_branch, version = _published(store, from_, at)
        entry, tag = _free_entry(store, name, source_branch)
        if not store.location.is_local:
            tag = store.entries.put(entry, tag)
            if tag is None:
                raise _exists(name)
            # Whoever removes what was there before sees the name now.
            source_branch, version = _published(store, from_, at)
        parent = store.branch_ref(source_branch)
        if at is not None and is_reclaimed(store.objects, parent.lineage, version, parent.identity):
            if tag is not None and not store.location.is_local:
                store.entries.put(replace(entry, state="deleted"), tag)
            raise given_up(source_branch, version)
        failpoints.reach("branch_create.before_ref")
        source = store.refresh(source_branch, migrate_layout=True)
        try:
            forked = _forked(store, entry, parent, version)
        except HistoricalVersionReclaimed:
            if _was_taken_away(store, entry):
                return None
            raise
        failpoints.reach("branch_create.after_ref")
        _require_parent(store, parent)
        made = replace(entry, parent=source_branch, parent_version=version, state="live")
        if store.entries.put(made, tag) is None:
            if _was_taken_away(store, entry):
                return None
            raise _exists(name)
        failpoints.reach("branch_create.after_entry")
        store.adopt_fork(made, source, forked)
    return Branch(name, source_branch)


def _published(store: GraphStore, from_: str, at: At | None) -> tuple[str, int]:
    """Branch and version of a state that a branch can begin with."""
    if at is not None and (state := snapshot_at(store, from_, at)).between:
        last = store.head_id(store.state_on(store.branch_ref(state.branch), state.version))
        raise InputError(
            f"commit {store.head_id(state)} was published together with others, and no branch can begin between them",
            hint=f"begin with the last of them, {last}",
            commit_id=store.head_id(state),
        )
    return locate(store, from_, at)


def _was_taken_away(store: GraphStore, entry: BranchEntry) -> bool:
    found = store.entries.read(entry.name)
    return found is not None and (found[0].state, found[0].identity) == ("deleted", entry.identity)


def free_name(store: GraphStore, name: str) -> str | None:
    """Tag of the entry that a new branch of this name replaces: of a deleted branch, or of one that somebody began to
    make and did not finish; None where there is none.

    Raises:
        BranchExists: a branch has the name.
    """
    found = store.entries.read(name)
    lineage = name if found is None else found[0].lineage
    if (found is None or found[0].state == "live") and store.tables.ref(manifest.PATH, lineage) is not None:
        raise _exists(name)
    if found is None:
        return None
    entry, tag = found
    if entry.state == "making" and entry.formerly:
        _stop_rename(store, entry)
    if entry.renamed_to is not None:
        _finish_rename(store, entry, entry.renamed_to)
    return tag


def _stop_rename(store: GraphStore, taking: BranchEntry) -> None:
    """Keep a rename that was begun from being decided: its branch would go to a name that is another's by then."""
    found = store.entries.read(taking.formerly[-1])
    if found is None or (found[0].state, found[0].identity) != ("live", taking.identity):
        return
    if store.entries.put(replace(found[0], token=ids.new_ulid()), found[1]) is None:
        raise _exists(taking.name)


def _finish_rename(store: GraphStore, former: BranchEntry, new_name: str) -> None:
    """Make a renamed branch live by its own entry, before that of its former name says something else."""
    found = store.entries.read(new_name)
    if found is not None and (found[0].state, found[0].identity) == ("live", former.identity):
        store.entries.put(*found)


def _free_entry(store: GraphStore, name: str, parent: str) -> tuple[BranchEntry, str | None]:
    """The entry of a branch that is being made, and the tag of the one it replaces.

    Under its plain name other software finds a branch too. On an object store that name may be used once, because
    nobody knows what may still come there. On a disk nobody is late. A lineage that a renamed branch has stays its own,
    with all that `ids.is_lineage_of` takes for its forks.
    """
    tag = free_name(store, name)
    renamed = tag is not None and any(ref.lineage == name for ref in store.branch_refs())
    tree = f"{manifest.PATH}/tree/{name}"
    if store.location.is_local and not renamed and (tag is not None or store.objects.any_below(tree)):
        _remove_leftovers(store, name)
    unused = (tag is None or store.location.is_local) and not renamed
    lineage = name if unused and not store.objects.any_below(tree) else ids.new_lineage(name)
    if renamed:
        lineage = ids.new_lineage(lineage)
    return BranchEntry(name, lineage, ids.new_ulid(), parent, 0, "making"), tag


def _forked(store: GraphStore, entry: BranchEntry, parent: BranchRef, version: int) -> LanceTable:
    try:
        return store.tables.fork(TableVersion(manifest.PATH, parent.lineage, version), entry.lineage)
    except StorageError as error:
        if not _is_there(store, entry, error):
            raise
        return store.tables.newest(manifest.PATH, entry.lineage)  # made, and the answer was lost


def _require_parent(store: GraphStore, parent: BranchRef) -> None:
    if store.branch_ref(parent.name).identity != parent.identity:
        raise BranchNotFound(f"branch '{parent.name}' was deleted meanwhile", hint="retry", branch=parent.name)


def list_branches(store: GraphStore) -> list[Branch]:
    """Main first, then by name."""
    return [
        Branch(ref.name, ref.parent if ref.name != ids.MAIN else None)
        for ref in store.branch_refs()
        if ref.name != ids.SCHEMA_APPLY_LOCK
    ]


def delete_branch(store: GraphStore, name: str, *, seen: ManifestSnapshot | None = None, force: bool = False) -> None:
    """Delete a branch that no other branch and no tag depends on. What it shared with others stays.

    Args:
        seen: the state that the caller knows; a branch that somebody committed to since stays.
        force: tags on its states are deleted with it.

    Raises:
        ReadSetChanged: the branch is not in the state that the caller knows.
    """
    name = given.text(name, "the name of a branch").strip()
    if name == ids.MAIN or name.startswith("__schema_apply"):
        raise InvalidName(f"branch '{name}' cannot be deleted", name=name)
    if name not in _names(store):
        raise BranchNotFound(f"there is no branch '{name}'", branch=name)
    with store.mirror.held(), store.sections.hold(CONTROL), store.sections.hold(name) as fence:
        ref = store.branch_ref(name)
        heal_branch(store, name, fence)
        _require_unused(store, ref)
        _require_untagged(store, ref, force)
        last = store.refresh(name)
        if seen is not None and (seen.identity, seen.version) != (last.identity, last.version):
            raise _moved(seen, last)
        entry, tag = _strike(store, ref)
        try:
            _require_unused(store, ref)  # whoever took a name before it was struck out is seen here
            _require_untagged(store, ref, force)
        except BranchInUse:
            store.entries.put(replace(entry, state="live"), tag)
            raise
        if force:
            strike_tags(store, tags_of_lineage(store, ref.lineage))
        if not _close(store, last, fence.epoch):
            if seen is not None:
                store.entries.put(replace(entry, state="live"), tag)
                raise _moved(seen, store.refresh(name))
            _close_newest(store, ref, fence.epoch)
        store.forget_branch(name)
        failpoints.reach("branch_delete.before_table_cleanup")
        with contextlib.suppress(StorageError):  # the next open does it
            discard_records(store, name, ref.identity)
        _remove_files(store, last, ref)


def _moved(seen: ManifestSnapshot, now: ManifestSnapshot) -> ReadSetChanged:
    return ReadSetChanged(f"branch '{seen.branch}'", f"version {seen.version}", f"version {now.version}")


def _strike(store: GraphStore, ref: BranchRef) -> tuple[BranchEntry, str]:
    """Say that a branch is deleted, if it is still the one that was looked at."""
    found = store.entries.read(ref.name)
    if found is not None and (found[0].state != "live" or found[0].identity != ref.identity):
        raise BranchNotFound(f"there is no branch '{ref.name}'", branch=ref.name)
    lineage = ref.lineage or ref.name
    entry = BranchEntry(ref.name, lineage, ref.identity, ref.parent or ids.MAIN, ref.parent_version, "deleted")
    tag = store.entries.put(entry, found[1] if found is not None else None)
    if tag is None:
        raise BranchNotFound(f"branch '{ref.name}' was deleted or made anew meanwhile", branch=ref.name)
    return entry, tag


def _close(store: GraphStore, last: ManifestSnapshot, epoch: int) -> bool:
    """Take the head of a deleted branch away from writers that saw it before; False when one of them was faster.

    A file lock keeps them out; an object store needs one more commit, which nobody will see.
    """
    if store.location.is_local:
        return True
    operation_id = ids.new_ulid()
    change = GraphChange(CommitDraft(ids.new_ulid(), ids.SYSTEM_ACTOR, ids.now()))
    return store.publisher.publish(store.publisher.stage(last, change, epoch), operation_id) is not None


def _close_newest(store: GraphStore, ref: BranchRef, epoch: int) -> None:
    """Close a branch whatever its head is. Whoever is faster all the time began before the delete."""
    for _ in range(limits.PUBLISHER_RETRY_BUDGET):
        if _close(store, store.read_lineage(ref, migrate_layout=True), epoch):
            return


def _remove_files(store: GraphStore, last: ManifestSnapshot, ref: BranchRef) -> None:
    """Remove what only a deleted branch could reach.

    On a disk the sections are locked, so nobody is late and the name is free as if it had never been used. On an
    object store only the ref goes, so that other software does not list the branch; its lineage is never used again,
    and its files are for cleanup.
    """
    lineage = last.lineage or last.branch
    with contextlib.suppress(StorageError, *STORE_EXCEPTIONS):
        if not store.location.is_local:
            store.tables.drop_ref(manifest.PATH, lineage)
            return
        owned = {(pin.location, pin.branch) for pin in last.pins.values() if pin.branch and last.owns(pin.branch)}
        forked = {pin.location for pin in last.pins.values() if store.tables.ref(pin.location, lineage) is not None}
        owned |= {(location, lineage) for location in forked}  # also of a write that never came to its commit
        for location, branch in [(manifest.PATH, lineage), (COMMITS_PATH, lineage), *sorted(owned)]:
            with contextlib.suppress(StorageError, LimitError, *STORE_EXCEPTIONS):
                store.tables.drop_branch(location, branch)
        for name in (ref.name, *ref.formerly):
            _forget(store, name, ref.identity)


def _forget(store: GraphStore, name: str, identity: str) -> None:
    """Remove the entry of a deleted branch, unless a Lance branch would pass for one of this name without it."""
    found = store.entries.read(name)
    is_over = found is not None and (found[0].state, found[0].identity) == ("deleted", identity)
    if is_over and store.tables.ref(manifest.PATH, name) is None:
        store.entries.forget(name)


def _is_there(store: GraphStore, entry: BranchEntry, error: StorageError) -> bool:
    """Whether a lineage exists, after a request that failed."""
    try:
        return store.tables.ref(manifest.PATH, entry.lineage) is not None
    except StorageError:
        raise OutcomeUnknown(
            f"branch '{entry.name}' may have been made or not: the store stopped answering",
            hint="list the branches",
            branch=entry.name,
        ) from error


def _new_name(text: str) -> str:
    name = ids.branch_name(text)
    if name == ids.MAIN:
        raise InvalidName("branch 'main' exists in every graph and cannot be created", name=name)
    return name


def _names(store: GraphStore) -> list[str]:
    """Every name that a branch has, had, or is being made with; tells which ones are worth a look."""
    lineages = [ids.lineage_owner(each) or each for each in store.tables.branch_names(manifest.PATH)]
    return [*lineages, *store.entries.names()]


def require_no_overlap(store: GraphStore, name: str, renamed: BranchRef | None = None) -> None:
    """Refuse a name that is a path prefix of another one, or of the lineage of another branch: their directories would
    overlap. A branch that is renamed stays in its directory."""
    if ids.overlapping(name, _names(store)) is None:
        return
    for ref in store.branch_refs():
        if renamed is not None and ref.identity == renamed.identity:
            continue
        if ids.overlapping(name, [ref.name, *([ref.lineage] if ref.lineage and renamed is None else [])]):
            raise BranchExists(
                f"branch '{name}' would overlap with branch '{ref.name}'",
                hint="no name may be a path prefix of another, nor of a name that another branch was made with",
                branch=name,
                other=ref.name,
            )


def _remove_leftovers(store: GraphStore, name: str) -> None:
    """What a crash during an earlier create or delete of this name left on a disk, where nobody can be late."""
    strike_tags(store, tags_of_lineage(store, name))
    for location in (manifest.PATH, COMMITS_PATH):
        with contextlib.suppress(StorageError, *STORE_EXCEPTIONS):
            store.tables.drop_branch(location, name)


def _exists(name: str) -> BranchExists:
    return BranchExists(f"branch '{name}' exists already", branch=name)


def _require_untagged(store: GraphStore, ref: BranchRef, force: bool) -> None:
    """A tag keeps its state, and a state lies on its branch."""
    names = [] if force else [entry.name for entry in tags_of_lineage(store, ref.lineage)]
    if names:
        hint = f"delete it with tags.delete('{names[0]}')" if len(names) == 1 else "delete them with tags.delete()"
        raise BranchInUse(
            f"branch '{ref.name}' has {'tag' if len(names) == 1 else 'tags'} {', '.join(map(repr, names[:_NAMED]))}"
            + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""),
            hint=f"{hint}, or the branch with them: force=True",
            branch=ref.name,
            tags=names,
        )


def _require_unused(store: GraphStore, ref: BranchRef) -> None:
    for branch in store.branch_refs():
        if branch.name in (ref.name, ids.SCHEMA_APPLY_LOCK):
            continue
        if branch.parent == ref.name:
            raise BranchInUse(
                f"branch '{ref.name}' is the parent of branch '{branch.name}'",
                hint=f"delete '{branch.name}' first",
                branch=ref.name,
                used_by=branch.name,
            )
        pins = store.snapshot(branch.name).pins.values()
        if any(ids.is_lineage_of(pin.branch, ref.lineage) for pin in pins):
            raise BranchInUse(
                f"branch '{branch.name}' still reads tables of branch '{ref.name}'",
                hint=f"delete '{branch.name}' first",
                branch=ref.name,
                used_by=branch.name,
            )
