"""From staged tables to a visible commit. Nothing here is safe because of a clock, a lock or a lease.

Prepare (outside) → gate → A recovery record → B table commits → C one publish → D record removed. A write is visible by
C alone, and C succeeds only while the branch has the head that the write was computed on. Until then nothing it did
counts: a record is dropped or finished by whoever comes next, and versions of tables that no publish named are passed
over. So a process may stop between any two steps for any time, and any request may take effect later. The section only
saves work. Read `apply.py` for B, `publish.py` for C, `recovery/sweep.py` for who comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from typing import Any, Generic, TypeVar

from omnigraph import failpoints, ids, limits
from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    HistoricalVersionReclaimed,
    InternalError,
    OmniGraphError,
    OutcomeUnknown,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    RowLevelCasContention,
    SchemaChanged,
    StorageError,
)
from omnigraph.logs import COMMITS
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.apply import Slot, SlotTaken, change_of, clear_drift, commit_table, slot
from omnigraph.storage.commit.preparation import (
    AnyPrepared,
    CommitDraft,
    Prepared,
    PreparedTable,
    Workspace,
    content_of,
)
from omnigraph.storage.commit.publish import Published, check_change
from omnigraph.storage.commit.sidecar import Pointer, Sidecar, TableIntent, Tombstone, WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, schema_files
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.locks import Fence
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.version_steps import are_upkeep

Report = TypeVar("Report")


@dataclass(frozen=True, slots=True)
class Write(Generic[Report]):
    """One write as the protocol sees it: who writes what, and how to compute it on a state of its branch.

    Attributes:
        prepare: validates and stages the change on a state; an empty answer means that there is nothing to commit.
            Asked again when that state moved before the commit.
        base: state the caller computed the change from; None takes the newest.
        if_commit: head that the caller insists on; None for any.
        schema: hash of the schema that the rows were made for; under another one the write is refused. None for a
            preparation that looks at the schema of the state itself.
        recomputes_reads: ``prepare`` reads again whatever the change depends on, so a table that moved is no conflict.
        message: what the author says about it; kept in the commit.
        done: what the history calls it, where that is not the kind of writer that recovery sees.
        reads: tables that the caller read to compute the change, whether it changes them or not; one whose rows are
            others since ``base`` is a conflict.
        commit_id: what the caller wants its commit to be called. If the branch has a commit of that name, the write was
            done before, and is not done again.
    """

    branch: str
    kind: WriterKind
    actor: str | None
    prepare: Callable[[Workspace], Prepared[Report]]
    base: ManifestSnapshot | None = None
    if_commit: str | None = None
    schema: str | None = None
    recomputes_reads: bool = False
    reads: frozenset[str] = frozenset()
    message: str | None = None
    done: str | None = None
    commit_id: str | None = None

    def note(self, prepared: AnyPrepared) -> dict[str, Any]:
        """What its commit says of itself, see `metadata/commit_note.py`."""
        counts = {} if prepared.schema else {key: _counts(table) for key, table in prepared.tables.items()}
        counts |= {key: rows.to_dict() for key, rows in prepared.pointed.items()}
        rows = {key: counts[key] for key in sorted(counts) if any(counts[key].values())}
        said = {"kind": self.done or _DONE[self.kind], "message": self.message, "rows": rows}
        return {name: value for name, value in said.items() if value}


#: What the history calls a commit, by the kind of writer.
_DONE = {
    WriterKind.MUTATION: "mutation",
    WriterKind.LOAD: "load",
    WriterKind.SCHEMA_APPLY: "schema_change",
    WriterKind.BRANCH_MERGE: "merge",
    WriterKind.ENSURE_INDICES: "index_build",
    WriterKind.OPTIMIZE: "optimize",
}


def _counts(table: PreparedTable) -> dict[str, int]:
    staged = table.staged
    deleted = table.pin.row_count if staged.overwrites else staged.deleted
    inserted = staged.rows_after - table.pin.row_count + deleted
    return {"inserted": inserted, "updated": staged.updated, "deleted": deleted}


@dataclass(frozen=True, slots=True)
class Committed(Generic[Report]):
    """How a write ended.

    Attributes:
        commit: None when it changes nothing.
        report: that of its preparation; None for a write that was done before, by its commit id.
        earlier: the commits that were published with it and come before it.
    """

    commit: Commit | None
    report: Report
    earlier: tuple[Commit, ...] = ()


@dataclass(slots=True)
class _Identity(Generic[Report]):
    """What all attempts at one write have in common, so that it is published once, whoever publishes it.

    Attributes:
        recorded: attempts that somebody else may finish, by the id of their last commit.
        open: the last attempt was lost to something other than a new head; another process may still finish it.
    """

    commit_id: str = field(default_factory=ids.new_ulid)
    created_at: datetime = field(default_factory=ids.now)
    recorded: dict[str, Prepared[Report]] = field(default_factory=dict)
    open: bool = False

    def published(self, store: GraphStore, state: ManifestSnapshot) -> Committed[Report] | None:
        """An attempt that a state shows."""
        for commit_id, prepared in self.recorded.items():
            found = store.publisher.find(state, commit_id)
            if found is not None:
                before = (store.publisher.find(state, draft.id) for draft in prepared.commits[:-1])
                return Committed(found, prepared.report, tuple(each for each in before if each is not None))
        return None


class Drifted(Exception):
    """A table has versions that nobody shows. Commits that are published together say where their rows lie, and after
    what is passed over those would get other numbers: they are to be made one after the other."""


class _Lost(Exception):
    """Somebody was faster. The attempt will not be shown; the write is tried again on the newest state."""


def run(store: GraphStore, write: Write[Report]) -> Committed[Report]:
    """Commit a write, and tell whoever watches the store."""
    done = _run(store, write)
    if store.guard is not None and done.commit is not None:
        store.guard.committed(done.commit)
    return done


def _run(store: GraphStore, write: Write[Report]) -> Committed[Report]:
    """The one loop in which writes of every kind are tried again.

    A write is prepared outside the commit section. When its branch moved before its turn came, it is prepared again on
    what the branch is now, a few times; after that inside the section, so that a busy branch starves nobody.
    """
    newest = store.snapshot(write.branch)
    first = write.base or newest
    base = first if (first.branch, first.identity) == (newest.branch, newest.identity) else newest
    identity: _Identity[Report] = _Identity() if write.commit_id is None else _Identity(write.commit_id)
    if (done := _done_before(store, write, newest)) is not None:
        return done
    for attempt in range(limits.REPREPARE_BUDGET + limits.PUBLISHER_RETRY_BUDGET + 1):
        prepared = None
        if attempt <= limits.REPREPARE_BUDGET:
            try:
                prepared = _prepare(store, write, base)
            except (StorageError, HistoricalVersionReclaimed):
                fresh = store.refresh(write.branch)
                if not _moved(base, fresh):
                    raise
                base = fresh  # a cleanup or a dropped type removed what was being read; it is not the newest any more
                continue
            except OmniGraphError:
                done = _done_before(store, write, store.refresh(write.branch)) if write.commit_id else None
                if done is None:
                    raise
                return done
            if prepared.is_empty:
                return _nothing_to_do(store, write, prepared)
            failpoints.reach("write.after_stage")
        with store.sections.hold(write.branch) as fence:
            fresh, healed = _settled(store, write.branch, fence)
            done = identity.published(store, fresh) or _done_before(store, write, fresh)
            if done is not None:
                return done
            first = _first_seen(write, first, fresh, healed)
            if prepared is None:
                base = fresh
                with fence.kept():
                    prepared = _prepare(store, write, fresh)
                if prepared.is_empty:
                    return _nothing_to_do(store, write, prepared)
            if not write.recomputes_reads:
                _check_reads(store, write.reads, first, fresh, prepared)
            if not _moved(base, fresh):
                try:
                    published = _commit(store, write, identity, fresh, prepared, fence)
                    _tell(write, published)
                    return Committed(published.commit, prepared.report, published.earlier)
                except _Lost:
                    fresh = store.refresh(write.branch)
        COMMITS.info("write on branch '%s' is computed again: another writer was faster", write.branch)
        base = fresh
    if identity.open:
        raise RecoveryRequired(
            f"the write on branch '{write.branch}' kept losing its race",
            hint="the next write or open of this branch finishes or drops it",
            commit_id=identity.commit_id,
        )
    raise RowLevelCasContention(
        f"the write on branch '{write.branch}' kept losing its race", hint="retry", branch=write.branch
    )


def _nothing_to_do(store: GraphStore, write: Write[Report], prepared: Prepared[Report]) -> Committed[Any]:
    """A write that changes nothing, perhaps because it was done before."""
    done = _done_before(store, write, store.refresh(write.branch)) if write.commit_id else None
    return done or Committed(None, prepared.report)


def _done_before(store: GraphStore, write: Write[Report], state: ManifestSnapshot) -> Committed[Any] | None:
    """A write whose caller sent it again because the first answer was lost."""
    found = commit_log.find_by_id(state, write.commit_id) if write.commit_id is not None else None
    return Committed(found, None) if found is not None else None


def _settled(store: GraphStore, branch: str, fence: Fence) -> tuple[ManifestSnapshot, int]:
    """The newest state, once what dead writers left of it is resolved, and how many they were."""
    healed = heal_branch(store, branch, fence)
    return store.refresh(branch, migrate_layout=True), healed


def _first_seen(write: Write[Any], first: ManifestSnapshot, fresh: ManifestSnapshot, healed: int) -> ManifestSnapshot:
    """What the reads of a write are held against. Finishing a dead write is part of starting this one: unless the
    caller computed it from an older state, it is computed from what the dead writer left."""
    return fresh if healed and write.base is None else first


def _moved(base: ManifestSnapshot, fresh: ManifestSnapshot) -> bool:
    """A branch that was made again may have the same version and head, but not the files staged for the old one."""
    return (base.identity, base.version, base.head) != (fresh.identity, fresh.version, fresh.head)


def _prepare(store: GraphStore, write: Write[Report], base: ManifestSnapshot) -> Prepared[Report]:
    if write.schema and base.schema and write.schema != base.schema:
        raise SchemaChanged("the schema", write.schema, base.schema)
    if write.if_commit is not None:
        head = store.head_id(base)
        if head != write.if_commit:
            raise PreconditionFailed(
                f"branch '{base.branch}' is at commit {head}, not at {write.if_commit}",
                hint="read again and retry",
                branch=base.branch,
                expected=write.if_commit,
                actual=head,
            )
    prepared = write.prepare(Workspace(store, base))
    if not write.kind.preserves_content:
        store.permit({*prepared.tables, *prepared.pointers, *prepared.tombstones})
    _sync_staged(store, prepared)
    return prepared


def _check_reads(
    store: GraphStore,
    reads: frozenset[str],
    first: ManifestSnapshot,
    fresh: ManifestSnapshot,
    prepared: AnyPrepared,
) -> None:
    """A change that was computed from existing rows is refused when their table moved since the caller looked."""
    for key in sorted(reads | {key for key, table in prepared.tables.items() if table.reads_rows}):
        if first.pins.get(key) == fresh.pins.get(key) or _same_rows(store, first, fresh, key):
            continue
        if first.version_of(key) == fresh.version_of(key):  # numbers of another lineage
            raise ReadSetChanged(f"the lineage of '{key}'", _lineage(first, key), _lineage(fresh, key))
        raise ExpectedVersionMismatch(key, first.version_of(key), fresh.version_of(key))


def _same_rows(store: GraphStore, first: ManifestSnapshot, fresh: ManifestSnapshot, key: str) -> bool:
    """Whether a table only got an index, or was optimized: what was computed from its rows is still right, and is
    staged again on where they lie now."""
    before, after = first.pins.get(key), fresh.pins.get(key)
    if first.identity != fresh.identity:  # a branch of the same name, whose numbers say nothing
        return False
    if before is None or after is None or (before.location, before.branch) != (after.location, after.branch):
        return False
    now = store.table(after)
    if before.version < after.version and are_upkeep(now, above=before.version):
        return True
    return content_of(store.table(before)) == content_of(now)


def _lineage(snapshot: ManifestSnapshot, key: str) -> str:
    pin = snapshot.pins.get(key)
    return f"{pin.branch or ids.MAIN}/{pin.origin or pin.version}" if pin else "none"


def _commit(
    store: GraphStore,
    write: Write[Report],
    identity: _Identity[Report],
    base: ManifestSnapshot,
    prepared: Prepared[Report],
    fence: Fence,
) -> Published:
    places = _places(store, prepared)
    if prepared.commits and any(places[key] is not table.handle for key, table in prepared.tables.items()):
        raise Drifted
    record = _record(store, write, identity, base, prepared, places)
    change = change_of(store, record)
    check_change(base, change)
    failpoints.reach("write.after_gate_checks")
    sidecar.write(store.objects, record)
    identity.recorded[_last(record).id] = prepared
    failpoints.reach("write.after_sidecar")
    try:
        staging = _threads().submit(store.publisher.stage, base, change, fence.epoch)  # written while the tables commit
        try:
            handles = _commit_tables(store, record, places)
        finally:
            wait([staging])
        staged = staging.result()
        failpoints.reach("write.after_all_table_commits", record.kind)
        if record.schema:
            schema_files.stage(store.objects, record.schema)
        published = store.publisher.publish(staged, record.operation_id)
        if published is None:
            raise _Lost
    except (SlotTaken, _Lost) as lost:
        published = _lose(store, identity, record, base)
        if published is None:
            raise _Lost from lost
        _finish(store, record)
        return published
    except (OutcomeUnknown, RecoveryRequired):
        raise
    except (StorageError, ConflictError) as error:
        raise _settle(store, record, places, fence, error) from error
    made = {pin.table_key: pin for pin in change.pins}
    for table, handle in zip(record.tables, handles, strict=True):
        pin, shown = made[table.table_key], base.pins.get(table.table_key)
        store.tables.remember(table_version_of(pin), handle)
        if shown is not None:
            store.recent_changes.keep(pin, shown, prepared.tables[table.table_key].staged.pending, handle)
    _finish(store, record)
    for commit in (*published.earlier, published.commit):
        store.mirror.note(published.snapshot, commit)
    return published


def _tell(write: Write[Any], published: Published) -> None:
    """Each commit for itself: those that were published together have authors of their own."""
    for commit in (*published.earlier, published.commit):
        tables = ", ".join(commit.rows) or "no rows"
        COMMITS.info(
            "commit %s on branch '%s': %s of %s by %s",
            *(commit.id, write.branch, commit.kind or write.kind, tables, commit.actor or "nobody"),
        )


def _finish(store: GraphStore, record: Sidecar) -> None:
    """The change is visible. What fails from here on fails no write: the record stays for whoever comes next."""
    try:
        if record.schema:
            schema_files.settle(store, record.schema)
    except StorageError:
        return
    failpoints.reach("write.after_publish_before_delete")
    sidecar.remove(store.objects, record.operation_id)


def _places(store: GraphStore, prepared: AnyPrepared) -> dict[str, LanceTable | None]:
    """What each table is committed on: the version that the graph shows, or a copy of it above all others."""
    tables = prepared.tables
    looks = map if store.location.is_local else _threads().map
    return dict(zip(tables, looks(partial(_place, store), tables.values()), strict=True))


def _place(store: GraphStore, table: PreparedTable) -> LanceTable | None:
    """A look at an object store takes a while. None for a table that the write is going to make."""
    pin = table.pin
    with store_errors(f"look at table '{pin.table_key}'"):
        if table.handle is None or store.tables.newest_number(pin.location, pin.branch, table.handle) == pin.version:
            return table.handle
    return clear_drift(store, table.pin)


def _record(
    store: GraphStore,
    write: Write[Any],
    identity: _Identity[Any],
    base: ManifestSnapshot,
    prepared: AnyPrepared,
    places: dict[str, LanceTable | None],
) -> Sidecar:
    merged = prepared.merged
    return Sidecar(
        operation_id=ids.new_ulid(),
        branch=write.branch,
        actor=write.actor,
        kind=write.kind,
        tables=tuple(_intent(store, base, key, table, places[key]) for key, table in sorted(prepared.tables.items())),
        started_at=ids.now(),
        commit=prepared.commits[-1] if prepared.commits else _draft(write, identity, prepared),
        earlier=prepared.commits[:-1],
        base_head=store.head_id(base),
        base_identity=base.identity,
        base_schema=base.schema or write.schema or prepared.made_for,
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


def _draft(write: Write[Any], identity: _Identity[Any], prepared: AnyPrepared) -> CommitDraft:
    return CommitDraft(
        identity.commit_id,
        write.actor,
        identity.created_at,
        prepared.merged.parent if prepared.merged else None,
        prepared.labels,
        write.note(prepared),
    )


def _last(record: Sidecar) -> CommitDraft:
    """The commit that becomes the head."""
    if record.commit is None:
        raise InternalError("a write without a commit")
    return record.commit


def _shown(prepared: AnyPrepared) -> dict[str, Pin]:
    return {key: table.pin for key, table in prepared.tables.items()} | dict(prepared.pointers)


def _intent(
    store: GraphStore, base: ManifestSnapshot, key: str, table: PreparedTable, place: LanceTable | None
) -> TableIntent:
    shown, stands = base.version_of(key), int(place.version) if place is not None else 0
    return TableIntent(
        table_key=key,
        uri=store.tables.uri(table.pin.location),
        expected_version=stands,
        post_commit_pin=stands + 1,
        branch=table.pin.branch,
        staged=replace(table.staged, read_version=stands),
        location=table.pin.location,
        shown_version=None if shown == stands else shown,
    )


def _commit_tables(store: GraphStore, record: Sidecar, places: dict[str, LanceTable | None]) -> list[LanceTable]:
    def commit_one(table: TableIntent) -> LanceTable:
        failpoints.reach("write.before_table_commit", record.kind)
        handle = commit_table(store, places[table.table_key], table, record.operation_id)
        failpoints.reach("write.after_table_commit", record.kind)
        return handle

    if len(record.tables) <= 1:
        return [commit_one(table) for table in record.tables]
    commits = [_threads().submit(commit_one, table) for table in record.tables]
    wait(commits)
    return [commit.result() for commit in commits]


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for the commits of this process. What runs on them waits for the store only, never for a section."""
    return ThreadPoolExecutor(limits.TABLE_THREADS, thread_name_prefix="omnigraph-commit")


def _lose(store: GraphStore, identity: _Identity[Any], record: Sidecar, base: ManifestSnapshot) -> Published | None:
    """An attempt that cannot be published by its own hand: somebody finished it meanwhile, or nobody ever will once
    the head has moved. Its record goes."""
    snapshot = store.refresh(record.branch)
    found = identity.published(store, snapshot)
    if found is not None and found.commit is not None:
        return Published(found.commit, snapshot, found.earlier)
    identity.open = not _moved(base, snapshot)
    sidecar.remove(store.objects, record.operation_id)
    return None


def _settle(
    store: GraphStore, record: Sidecar, places: dict[str, LanceTable | None], fence: Fence, error: OmniGraphError
) -> OmniGraphError:
    """A step after A failed. Only a record of which something landed is ever finished; so with nothing there, the
    record gone and nobody in this section since, the write never happened. Otherwise its outcome is open."""
    try:
        if (
            not any(_may_have_landed(store, table, places) for table in record.tables)
            and sidecar.remove(store.objects, record.operation_id)
            and fence.is_held()
        ):
            if record.schema:
                schema_files.discard(store.objects)
            return error
    except StorageError:
        pass
    return RecoveryRequired(
        f"the write {record.operation_id} was interrupted: {error}",
        hint="the next write or open of this branch finishes or drops it",
        operation_id=record.operation_id,
        commit_id=record.commit.id if record.commit else None,
    )


def _may_have_landed(store: GraphStore, table: TableIntent, places: dict[str, LanceTable | None]) -> bool:
    place = places[table.table_key]
    with store_errors(f"look at table '{table.table_key}'"):
        location, branch = table.location or "", table.branch
        if place is not None and store.tables.newest_number(location, branch, place) == table.expected_version:
            return False
    newest = store.tables.newest_or_none(location, branch)
    return slot(newest, table) is Slot.OURS


def _sync_staged(store: GraphStore, prepared: AnyPrepared) -> None:
    """What the record is going to promise must be on the disk before the record is. Outside the section, if possible:
    nobody need wait for it there."""
    if not store.location.is_local or not limits.fsync_enabled():
        return
    files: list[str] = []
    for table in prepared.tables.values():
        root = store.tables.uri(table.pin.location, table.pin.branch)
        files += object_store.files_of(root, table.staged.operation)
    with store_errors("sync the staged files"):
        object_store.sync_files(files, store.location.uri)
