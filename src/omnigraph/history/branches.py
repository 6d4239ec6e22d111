"""Branches: make, list, delete.

A branch is a Lance branch of the manifest; making one copies nothing and touches no table. Its ref is the authority:
everything else about a branch is derived, and what a crash leaves behind is removed by whoever needs the name next.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from omnigraph import failpoints, ids
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNotFound,
    InvalidName,
    LimitError,
    OutcomeUnknown,
    StorageError,
)
from omnigraph.history.resolve import At, locate
from omnigraph.storage import manifest
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.fork import drop_fork
from omnigraph.storage.faults import STORE_EXCEPTIONS
from omnigraph.storage.lineage import COMMITS_PATH
from omnigraph.storage.recovery.sweep import discard_records, heal_branch
from omnigraph.storage.section import CONTROL
from omnigraph.storage.store import GraphStore


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as a listing shows it."""

    name: str
    parent: str | None


def create_branch(store: GraphStore, name: str, from_: str, at: At | None) -> Branch:
    """Make a branch from the newest state of another one, or from a commit, version or time of it."""
    name = _new_name(name)
    with store.sections.hold(CONTROL):
        _require_free(name, [each for each in store.branch_names() if each != ids.SCHEMA_APPLY_LOCK])
        source_branch, version = locate(store, from_, at)
        _remove_leftovers(store, name)
        failpoints.reach("branch_create.before_ref")
        source = store.refresh(source_branch, migrate_layout=True)
        try:
            forked = store.tables.fork(manifest.PATH, name, store.lance_branch(source_branch), version)
        except StorageError as error:
            if not _is_there(store, name, error):
                raise
            forked = store.tables.newest(manifest.PATH, name)  # made, and the answer was lost: the name was free
        failpoints.reach("branch_create.after_ref")
        store.adopt_fork(name, source, forked)
    return Branch(name, source_branch)


def list_branches(store: GraphStore) -> list[Branch]:
    """Main first, then by name."""
    return [
        Branch(ref.name, ref.parent if ref.name != ids.MAIN else None)
        for ref in store.branch_refs()
        if ref.name != ids.SCHEMA_APPLY_LOCK
    ]


def delete_branch(store: GraphStore, name: str) -> None:
    """Delete a branch that no other branch depends on. What it shared with others stays."""
    name = name.strip()
    if name == ids.MAIN or name.startswith("__schema_apply"):
        raise InvalidName(f"branch '{name}' cannot be deleted", name=name)
    with store.mirror.held(), store.sections.hold(CONTROL):
        branches = list_branches(store)
        if name not in {branch.name for branch in branches}:
            raise BranchNotFound(f"there is no branch '{name}'", branch=name)
        with store.sections.hold(name) as fence:
            heal_branch(store, name, fence)
            _require_unused(store, name, branches)
            owned = [pin.location for pin in store.refresh(name).pins.values() if pin.branch == name]
            try:
                store.tables.drop_branch(manifest.PATH, name)
            except StorageError as error:
                if _is_there(store, name, error):
                    raise
            store.forget_branch(name)
            failpoints.reach("branch_delete.before_table_cleanup")
            for location in [*owned, COMMITS_PATH]:
                with contextlib.suppress(StorageError, LimitError, *STORE_EXCEPTIONS):
                    drop_fork(store, location, name)
            with contextlib.suppress(StorageError):  # the next open does it
                discard_records(store, name)


def _is_there(store: GraphStore, name: str, error: StorageError) -> bool:
    """Whether a branch exists, after a request that failed: its ref is the authority."""
    try:
        return store.tables.ref(manifest.PATH, name) is not None
    except StorageError:
        raise OutcomeUnknown(
            f"branch '{name}' may have changed or not: the store stopped answering",
            hint="list the branches",
            branch=name,
        ) from error


def _new_name(text: str) -> str:
    name = ids.branch_name(text)
    if name == ids.MAIN:
        raise InvalidName("branch 'main' exists in every graph and cannot be created", name=name)
    return name


def _require_free(name: str, names: list[str]) -> None:
    if name in names:
        raise BranchExists(f"branch '{name}' exists already", branch=name)
    other = ids.overlapping(name, names)
    if other:
        raise BranchExists(
            f"branch '{name}' would overlap with branch '{other}'",
            hint="no name may be a path prefix of another",
            branch=name,
            other=other,
        )


def _remove_leftovers(store: GraphStore, name: str) -> None:
    """What a crash during an earlier create or delete of this name left: a tree without ref, a mirror, records."""
    store.objects.delete_below(f"{manifest.PATH}/tree/{name}")
    with contextlib.suppress(StorageError, *STORE_EXCEPTIONS):
        store.tables.drop_branch(COMMITS_PATH, name)
    if sidecar.pending(store.objects):
        discard_records(store, name)


def _require_unused(store: GraphStore, name: str, branches: list[Branch]) -> None:
    for branch in branches:
        if branch.name == name:
            continue
        if branch.parent == name:
            raise BranchInUse(
                f"branch '{name}' is the parent of branch '{branch.name}'",
                hint=f"delete '{branch.name}' first",
                branch=name,
                used_by=branch.name,
            )
        if any(pin.branch == name for pin in store.snapshot(branch.name).pins.values()):
            raise BranchInUse(
                f"branch '{branch.name}' still reads tables of branch '{name}'",
                hint=f"delete '{branch.name}' first",
                branch=name,
                used_by=branch.name,
            )
