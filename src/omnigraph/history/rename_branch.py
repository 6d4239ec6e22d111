"""Rename a branch: its lineage passes from the entry of one name to that of another. No row and no table moves.

The new name is entered first, as a branch in the making that takes over from the former name. The entry of the former
name decides: it says ``renamed_to``, by compare-and-swap, and from that moment the new name is the branch. Everything
after it is for the history and for quicker reading. Whoever wants a name on which a rename hangs stops that rename
first, by another token in the former entry.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from omnigraph import failpoints, ids
from omnigraph.errors import BranchExists, BranchNotFound, ConflictError, InvalidName, StorageError
from omnigraph.history.branches import Branch, free_name, require_no_overlap
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.commit.publish import GraphChange, publish
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata.branch_entries import BranchEntry
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.recovery.sweep import discard_records, heal_branch


@dataclass(frozen=True, slots=True)
class RenameRequest:
    """Which branch gets which name, who says so, and why."""

    name: str
    new_name: str
    actor: str | None
    message: str | None = None


def rename_branch(store: GraphStore, request: RenameRequest) -> Branch:
    """Give a branch another name; its commits, children and feed cursors stay its own."""
    name, new_name = ids.known_branch(request.name), ids.known_branch(request.new_name)
    if ids.MAIN in (name, new_name):
        raise InvalidName("branch 'main' cannot be renamed, and no branch can take its name", name=ids.MAIN)
    store.branch_ref(name)
    if name == new_name:
        raise InvalidName(f"branch '{name}' has this name already", name=name)
    with store.mirror.held(), store.sections.hold(CONTROL), store.sections.hold(name) as former:
        heal_branch(store, name, former)
        ref = store.branch_ref(name)
        require_no_overlap(store, new_name, ref)
        with store.sections.hold(new_name) as fence:
            _move(store, ref, new_name)
            store.forget_branch(name)
            with contextlib.suppress(StorageError):  # the next open does it
                discard_records(store, name, ref.identity)
            _note(store, request, new_name, fence.epoch)
    parent = next((each.parent for each in store.branch_refs() if each.name == new_name), ref.parent)
    return Branch(new_name, parent)


def _move(store: GraphStore, ref: BranchRef, new_name: str) -> None:
    """Enter the new name, decide by the former one, and say that it is done."""
    free = free_name(store, new_name)
    found = store.entries.read(ref.name)
    former = found[0] if found is not None else _entry_of(ref)
    if (former.state, former.identity) != ("live", ref.identity):
        raise _gone(ref.name)
    former = replace(former, token=ids.new_ulid())
    tag = store.entries.put(former, found[1] if found is not None else None)
    if tag is None:
        raise _gone(ref.name)
    names = (*former.formerly, ref.name)
    taking = replace(former, name=new_name, state="making", formerly=names, token=ids.new_ulid())
    taken = store.entries.put(taking, free)
    if taken is None:
        raise BranchExists(f"branch '{new_name}' was made by somebody else meanwhile", branch=new_name)
    failpoints.reach("branch_rename.after_new_entry")
    if store.entries.put(replace(former, state="deleted", formerly=(), renamed_to=new_name), tag) is None:
        store.entries.put(replace(taking, state="deleted", formerly=()), taken)
        raise _gone(ref.name)
    failpoints.reach("branch_rename.after_decision")
    with contextlib.suppress(StorageError):  # until somebody does it, it is read as live all the same
        store.entries.put(replace(taking, state="live"), taken)


def _entry_of(ref: BranchRef) -> BranchEntry:
    """Of a branch of other software, which has none."""
    return BranchEntry(
        ref.name, ref.lineage or ref.name, ref.identity, ref.parent or ids.MAIN, ref.parent_version, "live"
    )


def _note(store: GraphStore, request: RenameRequest, new_name: str, epoch: int) -> None:
    """Put the rename into the history. It also takes the head away from writers that still know the former name; one
    that is faster has written to the branch, whatever it is called."""
    note = {"kind": "rename"} | ({"message": request.message} if request.message is not None else {})
    draft = CommitDraft(ids.new_ulid(), request.actor, ids.now(), labels={"renamed_from": request.name}, note=note)
    with contextlib.suppress(StorageError, ConflictError, BranchNotFound):  # the branch is renamed all the same
        published = publish(store, new_name, GraphChange(draft), epoch, ids.new_ulid())
        store.mirror.note(published.snapshot, published.commit)


def _gone(name: str) -> BranchNotFound:
    return BranchNotFound(f"branch '{name}' was deleted or renamed meanwhile", branch=name)
