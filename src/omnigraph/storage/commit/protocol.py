"""From staged tables to a visible commit, one writer at a time per branch.

Prepare (outside) → gate → A recovery record → B table commits → C one publish → D record removed. A write carries the
facts it was computed from; the gate and the publish compare them. After A nothing is lost: whoever comes next finishes
or drops the write, see `recovery/sweep.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache, partial

from omnigraph import failpoints, ids, limits
from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    InternalError,
    LockTimeout,
    OmniGraphError,
    OutcomeUnknown,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    SchemaChanged,
    StorageError,
    UncoveredDrift,
)
from omnigraph.storage import durable, lineage, schema_files
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.apply import change_of, commit_table
from omnigraph.storage.commit.fork import BaseMoved, writable
from omnigraph.storage.commit.prepared import Merged as Merged
from omnigraph.storage.commit.prepared import Prepared as Prepared
from omnigraph.storage.commit.prepared import PreparedTable as PreparedTable
from omnigraph.storage.commit.publish import check_change, publish, stage_publish
from omnigraph.storage.commit.record import CommitDraft, Pointer, Sidecar, TableIntent, Tombstone, WriterKind
from omnigraph.storage.faults import store_errors
from omnigraph.storage.manifest import Commit, Pin
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.section import Fence
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle


@dataclass(frozen=True, slots=True)
class Workspace:
    """The state a write is computed on, and the tables it may change."""

    store: GraphStore
    snapshot: Snapshot
    fence: Fence | None

    @property
    def threads(self) -> int:
        """How many tables are worked on at once: on a disk that takes processors, on an object store it is waiting."""
        return min(limits.TABLE_THREADS, os.cpu_count() or 1) if self.store.location.is_local else limits.TABLE_THREADS

    def writable(self, table_key: str) -> tuple[Pin, Handle]:
        """A table to stage on. The first write of a branch to a table forks it."""
        pin = self.snapshot.pins[table_key]
        return pin, writable(self.store, self.snapshot, pin, self.fence)

    def readable(self, table_key: str) -> Handle:
        pin = self.snapshot.pins[table_key]
        return self.store.table(pin)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes what, and how to compute it again when its base moved.

    Attributes:
        prepare: validates and stages the change; an empty answer means that there is nothing to commit.
        base: state the caller computed the change from; None takes the newest.
        if_commit: head that the caller insists on; None for any.
        schema: hash of the schema that the change was made for; under another one it is refused.
        gate: called in the section, right before anything durable; what it raises refuses the write.
    """

    branch: str
    kind: WriterKind
    actor: str | None
    prepare: Callable[[Workspace], Prepared]
    base: Snapshot | None = None
    if_commit: str | None = None
    schema: str | None = None
    gate: Callable[[], None] | None = None


def run(store: GraphStore, writer: Writer) -> Commit | None:
    """Commit a write; None when it changes nothing."""
    newest = store.snapshot(writer.branch)
    first = writer.base or newest
    base = first if (first.branch, first.identity) == (newest.branch, newest.identity) else newest
    for _ in range(limits.REPREPARE_BUDGET + 1):
        try:
            prepared = _prepare(store, writer, base, None)
        except BaseMoved as moved:
            base = store.refresh(writer.branch)
            first = _first_seen(writer, first, base, moved.healed)
            continue
        if prepared.is_empty:
            return None
        failpoints.reach("write.after_stage")
        with store.sections.hold(writer.branch) as fence:
            fresh, healed = _settled(store, writer.branch, fence)
            first = _first_seen(writer, first, fresh, healed)
            _check_reads(first, fresh, prepared)
            if not _moved(base, fresh):
                return _commit(store, writer, fresh, prepared, fence)
        base = fresh
    with store.sections.hold(writer.branch) as fence:
        fresh, healed = _settled(store, writer.branch, fence)
        prepared = _prepare(store, writer, fresh, fence)
        if prepared.is_empty:
            return None
        _check_reads(_first_seen(writer, first, fresh, healed), fresh, prepared)
        return _commit(store, writer, fresh, prepared, fence)


def _settled(store: GraphStore, branch: str, fence: Fence) -> tuple[Snapshot, int]:
    """The newest state, once what dead writers left of it is resolved, and how many they were. Nothing moves it while
    the section is held."""
    healed = heal_branch(store, branch, fence)
    return store.refresh(branch, migrate_layout=True), healed


def _first_seen(writer: Writer, first: Snapshot, fresh: Snapshot, healed: int) -> Snapshot:
    """What the reads of a write are held against. Finishing a dead write is part of starting this one: unless the
    caller computed it from an older state, it is computed from what the dead writer left."""
    return fresh if healed and writer.base is None else first


def _moved(base: Snapshot, fresh: Snapshot) -> bool:
    """A branch that was made again may have the same version and head, but not the files staged for the old one."""
    return (base.identity, base.version, base.head) != (fresh.identity, fresh.version, fresh.head)


def _prepare(store: GraphStore, writer: Writer, base: Snapshot, fence: Fence | None) -> Prepared:
    if writer.schema and base.schema and writer.schema != base.schema:
        raise SchemaChanged("the schema", writer.schema, base.schema)
    if writer.if_commit is not None:
        head = lineage.head_id(store.tables, base)
        if head != writer.if_commit:
            raise PreconditionFailed(
                f"branch '{base.branch}' is at commit {head}, not at {writer.if_commit}",
                hint="read again and retry",
                branch=base.branch,
                expected=writer.if_commit,
                actual=head,
            )
    prepared = writer.prepare(Workspace(store, base, fence))
    _sync_staged(store, writer.branch, prepared)
    return prepared


def _check_reads(first: Snapshot, fresh: Snapshot, prepared: Prepared) -> None:
    """A change that was computed from existing rows is refused when its table moved since the caller looked."""
    for key, table in prepared.tables.items():
        if not table.reads_rows or first.pins.get(key) == fresh.pins.get(key):
            continue
        if first.version_of(key) == fresh.version_of(key):  # numbers of another lineage
            raise ReadSetChanged(f"the lineage of '{key}'", _lineage(first, key), _lineage(fresh, key))
        raise ExpectedVersionMismatch(key, first.version_of(key), fresh.version_of(key))


def _lineage(snapshot: Snapshot, key: str) -> str:
    pin = snapshot.pins.get(key)
    return f"{pin.branch or ids.MAIN}/{pin.origin or pin.version}" if pin else "none"


def _commit(store: GraphStore, writer: Writer, base: Snapshot, prepared: Prepared, fence: Fence) -> Commit:
    _check_gate(store, prepared)
    record = _record(store, writer, base, prepared)
    change = change_of(store, record)
    check_change(base, change)  # nothing can be taken back later
    if writer.gate:
        writer.gate()
    failpoints.reach("write.after_gate_checks")
    sidecar.write(store.objects, record)
    failpoints.reach("write.after_sidecar")
    try:
        staging = _threads().submit(stage_publish, store, base, change, fence)  # written while the tables commit
        try:
            handles = _commit_tables(store, record, prepared, fence)
        finally:
            wait([staging])
        staged = staging.result()
        failpoints.reach("write.after_all_table_commits")
        if record.kind is WriterKind.ENSURE_INDICES:
            failpoints.reach("ensure_indices.post_phase_b_pre_manifest_commit")
        if record.kind is WriterKind.BRANCH_MERGE:
            failpoints.reach("branch_merge.post_phase_b_pre_manifest_commit")
        if record.schema:
            schema_files.stage(store.objects, record.schema)
        published = publish(store, writer.branch, change, fence, record.operation_id, staged)
    except (OutcomeUnknown, RecoveryRequired):
        raise
    except (StorageError, ConflictError, LockTimeout) as error:
        raise _settle(store, record, prepared, error) from error
    for table, handle in zip(record.tables, handles, strict=True):
        pin = published.snapshot.pins[table.table_key]
        store.tables.remember(pin.location, pin.branch, pin.origin, handle)
        before = prepared.tables[table.table_key]
        store.effects.keep(pin, before.pin, before.staged.effect, handle)
    _finish(store, record)
    store.mirror.note(published.snapshot, published.commit)
    return published.commit


def _finish(store: GraphStore, record: Sidecar) -> None:
    """The change is visible. What fails from here on fails no write: the record stays for whoever comes next."""
    try:
        if record.schema:
            schema_files.settle(store, record.schema)
    except StorageError:
        return
    failpoints.reach("write.after_publish_before_delete")
    sidecar.remove(store.objects, record.operation_id)


def _check_gate(store: GraphStore, prepared: Prepared) -> None:
    """Every table stands where the graph says; the section keeps it there. A look at an object store takes a while."""
    tables = prepared.tables
    looks = map if store.location.is_local else _threads().map
    for (key, table), head in zip(tables.items(), looks(partial(_newest_version, store), tables.values()), strict=True):
        if head < table.pin.version:
            raise InternalError(f"table '{key}' is at version {head}, below the {table.pin.version} the graph shows")
        if head > table.pin.version:
            raise UncoveredDrift(key, head, table.pin.version)


def _newest_version(store: GraphStore, table: PreparedTable) -> int:
    """0 for a table that the write is going to make."""
    with store_errors(f"look at table '{table.pin.table_key}'"):
        handle = table.handle if table.handle is not None else store.tables.newest_or_none(table.pin.location)
        return int(handle.latest_version) if handle is not None else 0


def _record(store: GraphStore, writer: Writer, base: Snapshot, prepared: Prepared) -> Sidecar:
    moment = ids.now()
    merged = prepared.merged
    return Sidecar(
        operation_id=ids.new_ulid(),
        branch=writer.branch,
        actor=writer.actor,
        kind=writer.kind,
        tables=tuple(_intent(store, writer.branch, base, key, table) for key, table in sorted(prepared.tables.items())),
        started_at=moment,
        commit=CommitDraft(ids.new_ulid(), writer.actor, moment, merged.parent if merged else None, prepared.labels),
        base_head=lineage.head_id(store.tables, base),
        base_schema=base.schema or writer.schema,
        merge_source=merged.parent if merged else None,
        registrations=tuple(
            (key, pin.location, pin.branch)
            for key, pin in sorted(_shown(prepared).items())
            if key not in base.pins and key not in base.hidden
        ),
        pointers=tuple(Pointer(pin, base.version_of(key)) for key, pin in sorted(prepared.pointers.items())),
        tombstones=tuple(
            Tombstone(key, version, base.version_of(key)) for key, version in sorted(prepared.tombstones.items())
        ),
        merged_commits=merged.commits if merged else (),
        schema=prepared.schema,
    )


def _shown(prepared: Prepared) -> dict[str, Pin]:
    return {key: table.pin for key, table in prepared.tables.items()} | dict(prepared.pointers)


def _intent(store: GraphStore, branch: str, base: Snapshot, key: str, table: PreparedTable) -> TableIntent:
    shown = base.version_of(key)
    return TableIntent(
        table_key=key,
        uri=store.tables.uri(table.pin.location),
        expected_version=table.pin.version,
        post_commit_pin=table.pin.version + 1,
        branch=store.lance_branch(branch),
        staged=replace(table.staged, read_version=table.pin.version),
        location=table.pin.location,
        shown_version=None if shown == table.pin.version else shown,
    )


def _commit_tables(store: GraphStore, record: Sidecar, prepared: Prepared, fence: Fence) -> list[Handle]:
    fence.check()

    def commit_one(table: TableIntent) -> Handle:
        if record.kind is WriterKind.ENSURE_INDICES:
            failpoints.reach("ensure_indices.post_stage_pre_commit_btree")
        handle = commit_table(store, prepared.tables[table.table_key].handle, table)
        failpoints.reach("mutation.post_table_commit")
        if record.kind is WriterKind.LOAD:
            failpoints.reach("load.overwrite_mid_table")
        if record.kind is WriterKind.SCHEMA_APPLY:
            failpoints.reach("schema_apply.after_table_effect")
        return handle

    if len(record.tables) <= 1:
        return [commit_one(table) for table in record.tables]
    commits = [_threads().submit(commit_one, table) for table in record.tables]
    wait(commits)  # all of them, also when one fails: none may land later
    return [commit.result() for commit in commits]


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for the commits of this process. What runs on them waits for the store only, never for a section."""
    return ThreadPoolExecutor(limits.TABLE_THREADS, thread_name_prefix="omnigraph-commit")


def _settle(store: GraphStore, record: Sidecar, prepared: Prepared, error: OmniGraphError) -> OmniGraphError:
    """A step after A failed. With no table moved the write never happened; otherwise it will be finished later."""
    try:
        moved = any(_newest_version(store, table) > table.pin.version for table in prepared.tables.values())
        if not moved and record.schema:
            schema_files.discard(store.objects)
    except StorageError:
        moved = True
    if not moved and sidecar.remove(store.objects, record.operation_id):
        return error
    return RecoveryRequired(
        f"the write {record.operation_id} was interrupted: {error}",
        hint="the next write or open of this branch finishes or drops it",
        operation_id=record.operation_id,
        commit_id=record.commit.id if record.commit else None,
    )


def _sync_staged(store: GraphStore, branch: str, prepared: Prepared) -> None:
    """What the record is going to promise must be on the disk before the record is. Outside the section, if possible:
    nobody need wait for it there."""
    if not store.location.is_local or not limits.fsync_enabled():
        return
    files: list[str] = []
    for table in prepared.tables.values():
        root = store.tables.uri(table.pin.location, store.lance_branch(branch))
        files += durable.files_of(root, table.staged.operation)
    with store_errors("sync the staged files"):
        durable.sync_files(files, store.location.uri)
