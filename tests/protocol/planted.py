"""Rules that once were, put back one at a time: the schedules must find what each of them breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from omnigraph import ids
from omnigraph.errors import BranchExists, RecoveryRequired, UncoveredDrift
from omnigraph.history import branches
from omnigraph.storage.commit import preparation, protocol
from omnigraph.storage.commit.publish import Published, StagedPublish
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.branch_entries import BranchEntries, BranchEntry, _path, _text
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.recovery import finish_write
from tests.protocol.store import SimulatedPublisher, SimulatedStore


def _drop_and_fork(store: SimulatedStore, snapshot: Any, pin: Any) -> Any:
    """The first write to a branch removes a fork of its name that it does not know."""
    if snapshot.lineage is None or snapshot.owns(pin.branch):
        return pin.branch, store.tables.at(table_version_of(pin))
    ref = store.tables.ref(pin.location, snapshot.lineage)
    if ref is not None and (ref.parent_branch, ref.parent_version) == (pin.branch, pin.version):
        newest = store.tables.newest(pin.location, snapshot.lineage)
        if newest.version == pin.version:
            return snapshot.lineage, newest
    store.tables.drop_branch(pin.location, snapshot.lineage)
    return snapshot.lineage, store.tables.fork(table_version_of(pin), snapshot.lineage)


def _take_the_plain_name(store: SimulatedStore, name: str, parent: str) -> tuple[BranchEntry, str | None]:
    """A name that looks free is cleared of leftovers and used again."""
    found = store.entries.read(name)
    if found is not None and found[0].state == "live":
        raise BranchExists(name)
    store.tables.drop_branch(manifest.PATH, name)
    return BranchEntry(name, name, ids.new_ulid(), parent, 0, "making"), None


def _put_in_any_case(self: BranchEntries, entry: BranchEntry, tag: str | None) -> str:
    self._objects.write(_path(entry.name), _text(entry))
    return ""


def _refuse(*_: Any) -> None:
    raise RecoveryRequired("another program wrote to this table")


def _drift(store: Any, pin: Any) -> Any:
    raise UncoveredDrift(pin.table_key, pin.version + 1, pin.version)


def _publish_on_any_head(publish: Callable[..., Published | None]) -> Callable[..., Published | None]:
    """A publish that lost is tried again on the new head, if its own tables did not move."""

    def again(self: SimulatedPublisher, staged: StagedPublish, operation_id: str) -> Published | None:
        published = publish(self, staged, operation_id)
        newest = self._store.refresh(staged.base.branch)
        touched = {key for key, pin in staged.after.pins.items() if staged.base.pins[key] != pin}
        if published or any(newest.pins[key] != staged.base.pins[key] for key in touched):
            return published
        head = replace(staged.after.head, parent=newest.head.commit_id, version=newest.version + 1)  # type: ignore[union-attr,type-var]
        pins = {**newest.pins, **{key: staged.after.pins[key] for key in touched}}
        after = replace(staged.after, version=newest.version + 1, head=head, pins=pins)
        commits = tuple(replace(commit, version=newest.version + 1) for commit in staged.commits)
        return publish(self, replace(staged, base=newest, after=after, commits=commits), operation_id)

    return again


#: A name for each old rule, the operations that show it, and what puts it back.
DEFECTS: dict[str, tuple[tuple[tuple[str, ...], bool], Callable[[], list[Any]]]] = {
    "V1 a fork that looks left over is dropped": (
        (("append_dev", "append_dev"), True),
        lambda: [patch.object(preparation, "writable", _drop_and_fork)],
    ),
    "V2 leftovers of a free name are removed": (
        (("make_dev", "make_dev"), False),
        lambda: [
            patch.object(branches, "_free_entry", _take_the_plain_name),
            patch.object(BranchEntries, "put", _put_in_any_case),
        ],
    ),
    "V3 a record whose versions are taken is kept": (
        (("append", "append"), False),
        lambda: [patch.object(finish_write, "drop_void", _refuse)],
    ),
    "V4 versions that nobody shows are refused": (
        (("append", "append_other"), False),
        lambda: [patch.object(protocol, "clear_drift", _drift)],
    ),
    "a name is taken while a rename to it may still be decided": (
        (("move_dev", "make_moved"), True),
        lambda: [patch.object(branches, "_stop_rename", lambda *_: None)],
    ),
    "a publish forgets what it was computed on": (
        (("add_edge", "drop_node"), False),
        lambda: [patch.object(SimulatedPublisher, "publish", _publish_on_any_head(SimulatedPublisher.publish))],
    ),
}


@contextmanager
def planted(defect: str) -> Iterator[None]:
    with ExitStack() as stack:
        for each in DEFECTS[defect][1]():
            stack.enter_context(each)
        yield
