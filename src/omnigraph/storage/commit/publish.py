"""The publisher: makes a change of the graph visible with one commit on `__manifest`.

Table pins, the commit record and the branch head land together or not at all. Every publish replaces the head row of
the state that it was computed from and is refused if another publish came since, so of all that saw the same head one
succeeds: the store's own condition, and the only one that the safety of a write rests on. Read `protocol.py` for what
comes before, and `metadata/manifest.py` for the reader.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, cast

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from omnigraph import failpoints, limits
from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    InternalError,
    NotFoundError,
    OutcomeUnknown,
    RowLevelCasContention,
    StorageError,
)
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import commit_log, manifest
from omnigraph.storage.metadata.manifest import Commit, Head, Hidden, ManifestSnapshot, Pin
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.native_libraries import STORE_EXCEPTIONS, CommitConflictError, store_errors
from omnigraph.storage.tables.datasets import DATA_STORAGE_VERSION, as_dataset, version_file
from omnigraph.storage.tables.filters import one_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import select_rows

#: A fragment that is never there and that every publish says it removes. Lance refuses a transaction if a version since
#: its base removed the same fragment, and it looks only at versions that are there. A cleanup may have removed the one
#: that replaced the head of the base, but never the newest one, which is a publish too.
_HEAD_FRAGMENT = 2**32 - 1

#: The handle of a state that is not committed yet.
_NO_HANDLE = cast(LanceTable, None)


@dataclass(frozen=True, slots=True)
class GraphChange:
    """What one publish shows, and the facts it was computed from.

    Attributes:
        commit: the commit that becomes the head.
        pins: tables at their new version; a key that is new to the graph is registered by its first pin.
        tombstones: tables that disappear, with the version at which they do.
        expected: version each touched table must still show; 0 means that the key must not exist.
        merged_commits: commits of a merged branch, copied so that they stay known when it is deleted.
        schema: hash of the schema from here on; None leaves the one that the branch records.
        digests: of the values in the data files that the change adds, by table key and name of the file.
        earlier: commits that are published with ``commit`` and come before it, in their order.
    """

    commit: CommitDraft
    pins: tuple[Pin, ...] = ()
    tombstones: tuple[tuple[str, int], ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict)
    merged_commits: tuple[Commit, ...] = ()
    schema: str | None = None
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    earlier: tuple[CommitDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that is visible, the state it made, and the commits that were published with it and come before it."""

    commit: Commit
    snapshot: ManifestSnapshot
    earlier: tuple[Commit, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedPublish:
    """The rows of a publish, written but not visible. Good for one base only."""

    base: ManifestSnapshot
    commits: tuple[Commit, ...]  # the last one becomes the head
    after: ManifestSnapshot  # without its handle and addresses, which the commit brings
    operation: Any
    present: list[int]  # offsets of the rows of the present in the newest fragment; those of recent commits follow


class Publisher:
    """Publishes to one graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def stage(self, base: ManifestSnapshot, change: GraphChange, epoch: int) -> StagedPublish:
        """Check what a change expects of its base and write its rows. Shows nothing yet."""
        return _stage(self._store, base, change, epoch)

    def publish(self, staged: StagedPublish, operation_id: str) -> Published | None:
        """Make what was staged visible, if the branch still has the head that it was staged on; None if it has not.

        A commit that is visible already, by whosoever hand, is success.

        Raises:
            OutcomeUnknown: nobody can tell.
        """
        published = _attempt(self._store, staged, operation_id)
        if published is not None:
            self._store.adopt(published.snapshot)
        return published

    def find(self, snapshot: ManifestSnapshot, commit_id: str) -> Commit | None:
        """A commit in the history that a state has."""
        with store_errors("look for a commit"):
            return commit_log.find_commit(snapshot, commit_id)


def publish(store: GraphStore, branch: str, change: GraphChange, epoch: int, operation_id: str) -> Published:
    """Make a change visible whatever the head is, if the tables that it touches show what it expects."""
    for attempt in range(limits.PUBLISHER_RETRY_BUDGET + 1):
        if attempt:
            time.sleep(random.uniform(*limits.PUBLISH_BACKOFF_SECONDS))
        staged = store.publisher.stage(store.refresh(branch, migrate_layout=True), change, epoch)
        published = store.publisher.publish(staged, operation_id)
        if published:
            return published
    raise RowLevelCasContention(
        f"the publish on branch '{branch}' lost its race {limits.PUBLISHER_RETRY_BUDGET + 1} times",
        hint="retry",
        branch=branch,
    )


def _stage(store: GraphStore, base: ManifestSnapshot, change: GraphChange, owner_epoch: int) -> StagedPublish:
    check_change(base, change)
    commits = _commits(base, store.head_id(base), (*change.earlier, change.commit))
    commit = commits[-1]
    epoch = max(owner_epoch, base.epoch)
    head = Head(commit.id, commit.parent, epoch, commit.version, change.schema or base.schema)
    pins, hidden = _after(base, change)
    after = ManifestSnapshot(
        base.branch, commit.version, head, pins, hidden, {}, _NO_HANDLE, base.identity, lineage=base.lineage
    )
    with store_errors("stage the publish"):
        operation, present, recent = _write_rows(base, change, commits, after)
        _sync_rows(store, base, operation)
    return StagedPublish(base, commits, replace(after, recent=recent), operation, list(range(present)))


def _commits(base: ManifestSnapshot, head: str, drafts: Sequence[CommitDraft]) -> tuple[Commit, ...]:
    """Commits that one publish makes, each the parent of the next."""
    parents = [head, *(draft.id for draft in drafts)]
    return tuple(
        Commit(
            id=draft.id,
            branch=base.branch,
            version=base.version + 1,
            parent=parent,
            merged_parent=draft.merged_parent,
            actor=draft.actor,
            created_at=draft.created_at,
            labels=draft.labels,
            note=draft.note,
            parts=draft.parts,
        )
        for draft, parent in zip(drafts, parents, strict=False)
    )


def check_change(base: ManifestSnapshot, change: GraphChange) -> None:
    """Raise unless a state is what a change expects, and what it shows may follow."""
    for key, expected in change.expected.items():
        actual = base.version_of(key)
        if actual != expected:
            raise ExpectedVersionMismatch(key, expected, actual)
    for pin in change.pins:
        _check_pin(base, pin)
    for key, version in change.tombstones:
        if key not in base.pins:
            raise NotFoundError(f"table '{key}' is not in the graph", table_key=key)
        if version < base.pins[key].version:
            raise InternalError(f"tombstone {version} of '{key}' is below its version {base.pins[key].version}")


def _check_pin(base: ManifestSnapshot, pin: Pin) -> None:
    known = base.pins.get(pin.table_key) or base.hidden.get(pin.table_key)
    if known is None:
        return
    if pin.table_key in _returning(base, [pin]):
        return
    if known.location != pin.location:
        raise ConflictError(f"table '{pin.table_key}' lies at {known.location}, not at {pin.location}")
    current = base.version_of(pin.table_key)
    if pin.version > current:
        return
    old = base.pins.get(pin.table_key)
    handed_off = old is not None and pin.version == current and pin.row_count == old.row_count
    if not handed_off:
        raise InternalError(f"version {pin.version} of '{pin.table_key}' does not follow {current}")


def _returning(base: ManifestSnapshot, pins: Iterable[Pin]) -> set[str]:
    """Keys of dropped tables that come back as another table, or without a new version.

    The greatest version of a key is the newest for every reader, so the rows of its former life have to go. States of
    that time keep theirs: they are older versions of the manifest.
    """
    return {
        pin.table_key
        for pin in pins
        if pin.table_key not in base.pins
        and (hidden := base.hidden.get(pin.table_key)) is not None
        and (hidden.location != pin.location or pin.version <= hidden.tombstone)
    }


def _attempt(store: GraphStore, staged: StagedPublish, operation_id: str) -> Published | None:
    """One compare-and-swap on the manifest; None when another publish came first."""
    base, commit, earlier = staged.base, staged.commits[-1], staged.commits[:-1]
    transaction = lance.Transaction(
        base.version,
        staged.operation,
        transaction_properties={
            "omnigraph.commit_id": commit.id,
            "omnigraph.actor": commit.actor or "",
            "omnigraph.operation_id": operation_id,
        },
    )
    failpoints.reach("publish.before_commit")
    try:
        handle = lance.LanceDataset.commit(as_dataset(base.handle), transaction, max_retries=0)
        failpoints.reach("publish.lost_ack")
    except CommitConflictError as error:
        return _look(store, base, staged.commits, error)
    except STORE_EXCEPTIONS as error:
        found = _look(store, base, staged.commits, error)
        if found is None:
            raise StorageError(f"the publish on branch '{base.branch}' failed before it took effect") from error
        _sync_version(store, staged, commit.version)
        return found
    _sync_version(store, staged, handle.version)
    if handle.version != commit.version:
        return Published(commit, _newest(store, base), earlier)  # a writer without head rows came in between: fold
    if not store.location.is_local and _is_behind(store, handle):
        late = _LateCommit("the place was free because a cleanup had emptied it")
        return _look(store, base, staged.commits, late)
    newest = max(fragment.fragment_id for fragment in handle.get_fragments())
    return Published(commit, replace(staged.after, present_rows={newest: staged.present}, handle=handle), earlier)


class _LateCommit(Exception):
    """A version was made below others, where a cleanup had removed one."""


def _is_behind(store: GraphStore, handle: LanceTable) -> bool:
    """Whether newer versions are there. A request that was late may land in a place that was taken before and is free
    again; then the newest state does not have its commit. On a disk the section is held, and nobody is late."""
    with store_errors("look at the manifest"):
        return bool(handle.latest_version != handle.version)


def _newest(store: GraphStore, base: ManifestSnapshot) -> ManifestSnapshot:
    """The newest state on the lineage of another one."""
    return store.read_lineage(BranchRef(base.branch, base.identity, None, 0, base.lineage))


def _look(store: GraphStore, base: ManifestSnapshot, commits: Sequence[Commit], error: Exception) -> Published | None:
    """The acknowledgement was lost, or somebody was faster: the store knows whether the commit is there."""
    commit = commits[-1]
    try:
        snapshot = _newest(store, base)
        found = store.publisher.find(snapshot, commit.id)
        return Published(found, snapshot, tuple(commits[:-1])) if found else None
    except (StorageError, NotFoundError):
        raise OutcomeUnknown(
            f"the commit {commit.id} may or may not have happened: the store stopped answering",
            hint="open the graph again; it finishes or drops the write",
            commit_id=commit.id,
        ) from error


def _after(base: ManifestSnapshot, change: GraphChange) -> tuple[dict[str, Pin], dict[str, Hidden]]:
    pins, hidden = dict(base.pins), dict(base.hidden)
    for pin in change.pins:
        pins[pin.table_key] = pin
        hidden.pop(pin.table_key, None)
    for key, version in change.tombstones:
        hidden[key] = Hidden(key, pins.pop(key).location, version)
    return dict(sorted(pins.items())), dict(sorted(hidden.items()))


def _write_rows(
    base: ManifestSnapshot, change: GraphChange, commits: Sequence[Commit], after: ManifestSnapshot
) -> tuple[Any, int, pa.Table]:
    """Write the fragment that describes the present after this publish.

    Returns:
        The operation, how many rows of the fragment are of the present, and the rows behind them.
    """
    present = [manifest.table_row(pin) for pin in after.pins.values()]
    present += [manifest.hidden_row(entry) for entry in after.hidden.values()]
    if after.head:
        present.append(manifest.head_row(base.branch, after.head))
    replaced, merged = _replaced(base, change), _history_to_merge(base.handle)
    past, large = _version_rows(base, change, replaced)
    past += [manifest.tombstone_row(key, version) for key, version in change.tombstones]
    past += [manifest.commit_row(known) for known in commit_log.unknown_commits(base, change.merged_commits)]
    past += [manifest.commit_row(commit) for commit in commits]

    new = _write(base.handle, manifest.to_arrow(large)) if large else []
    recent = manifest.to_arrow(past)
    rewritten = merged
    if merged:
        new += _write(base.handle, _history(base.handle, merged, replaced))
    elif base.recent is not None and base.recent.num_rows <= limits.MANIFEST_RECENT_ROWS:
        rewritten = set(base.present_rows)
        recent = pa.concat_tables([manifest.past_rows(base.recent, replaced) if replaced else base.recent, recent])
    removed, changed = set(rewritten), []
    for fragment_id, offsets in _rows_to_replace(base, replaced).items():
        if fragment_id in rewritten:
            continue
        left = base.handle.get_fragment(fragment_id).delete_rows(offsets)
        if left is None:
            removed.add(fragment_id)
        else:
            changed.append(left)
    new += _write(base.handle, pa.concat_tables([manifest.to_arrow(present), recent]))
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[*sorted(removed), _HEAD_FRAGMENT], updated_fragments=changed, new_fragments=new
    )
    return operation, len(present), recent


def _version_rows(
    base: ManifestSnapshot, change: GraphChange, replaced: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the table versions that a change shows, and those among them that are too large to lie beside the
    present, which every reader reads."""
    digests = {key: dict(added) for key, added in change.digests.items()}
    if replaced:  # the files of a version outlive its row
        gone = select_rows(base.handle, ["table_key", "metadata"], one_of("object_id", pa.array(replaced)))
        for row in gone.to_pylist():
            digests.setdefault(row["table_key"], {}).update(manifest.digests_of(row["metadata"]))
    rows = [
        manifest.table_version_row(pin, digests.get(pin.table_key))
        for pin in change.pins
        if base.pins.get(pin.table_key) != pin
    ]
    large = [row for row in rows if len(row["metadata"]) > limits.MANIFEST_RECENT_CHARACTERS]
    return [row for row in rows if row not in large], large


def _replaced(base: ManifestSnapshot, change: GraphChange) -> list[str]:
    """Ids of rows of the past that this publish makes untrue: versions that it shows on another lineage (the row of a
    version is unique), and everything about tables that come back."""
    replaced = [
        manifest.version_id(pin.table_key, pin.version)
        for pin in change.pins
        if (old := base.pins.get(pin.table_key)) is not None and old.version == pin.version and old != pin
    ]
    returning = _returning(base, change.pins)
    if returning:
        former = select_rows(base.handle, ["object_id"], one_of("table_key", pa.array(sorted(returning))))
        replaced += former.column("object_id").to_pylist()
    return replaced


def _rows_to_replace(base: ManifestSnapshot, replaced: list[str]) -> dict[int, list[int]]:
    """Where the rows of the present and those that became untrue lie: fragment id → offsets."""
    offsets = {fragment_id: set(known) for fragment_id, known in base.present_rows.items()}
    if replaced:
        rows = select_rows(base.handle, ["object_id"], one_of("object_id", pa.array(replaced)))
        for address in rows.column("_rowaddr").to_pylist():
            offsets.setdefault(address >> 32, set()).add(address & 0xFFFFFFFF)
    return {fragment_id: sorted(found) for fragment_id, found in offsets.items()}


def _history_to_merge(handle: LanceTable) -> set[int]:
    """Old fragments that this publish should rewrite as one: the youngest, while they are of similar size.

    Full ones are left alone, and with them what is older, so that the order of fragments stays that of time.
    """
    every = sorted(handle.get_fragments(), key=lambda fragment: -fragment.fragment_id)
    fragments = list(takewhile(lambda each: each.metadata.physical_rows < limits.MANIFEST_FRAGMENT_ROWS, every))
    if len(fragments) <= limits.MANIFEST_FRAGMENTS:
        return set()
    chosen: set[int] = set()
    gathered = 0
    for fragment in fragments:
        rows = fragment.metadata.physical_rows
        if chosen and rows > limits.FOLD_RATIO * gathered:
            break
        chosen.add(fragment.fragment_id)
        gathered += rows
    return chosen


def _history(handle: LanceTable, fragment_ids: set[int], replaced: list[str]) -> pa.Table:
    """The rows of the past in some fragments; rows of the present are written anew by the publish."""
    rows = handle.scanner(fragments=[handle.get_fragment(number) for number in sorted(fragment_ids)]).to_table()
    return manifest.past_rows(rows, replaced)


def _write(handle: LanceTable, rows: pa.Table) -> list[Any]:
    return write_fragments(
        rows, as_dataset(handle), schema=manifest.SCHEMA, mode="append", data_storage_version=DATA_STORAGE_VERSION
    )


def _sync_rows(store: GraphStore, base: ManifestSnapshot, operation: Any) -> None:
    """What a version file names must be on the disk before the version file can be."""
    if store.location.is_local:
        root = store.tables.uri(manifest.PATH, base.lineage)
        object_store.sync_files(object_store.files_of(root, operation), store.location.uri)


def _sync_version(store: GraphStore, staged: StagedPublish, version: int) -> None:
    if store.location.is_local:
        root = store.tables.uri(manifest.PATH, staged.base.lineage)
        object_store.sync_files([f"{root}/{version_file(version)}"], store.location.uri)
