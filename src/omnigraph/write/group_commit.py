"""Small writes that wait for the same branch are published together, each as its own commit.

Threads that write to one branch of one graph form a line. The first one leads: it takes those that wait behind it,
runs each on the newest state, and publishes all that are independent of each other with one publish, one record and one
version of each table (decision 29). Each keeps its commit, its author, its receipt and its error. A write that is alone
goes its way as ever, and so does one that insists on a head, or is large.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import failpoints, ids, limits
from omnigraph.errors import OmniGraphError, QueryCancelled, QueryTimeout, StorageError
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import CommitDraft, Prepared, Workspace
from omnigraph.storage.commit.protocol import Drifted, Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.commit_note import RowCounts
from omnigraph.storage.metadata.commit_part import TablePart
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.change import Change, Mode, id_column
from omnigraph.write.independence import Footprint, footprint_of, written_ids
from omnigraph.write.mutate import Affected, Mutation, MutationDraft, mutation_of, result_of
from omnigraph.write.mutation_result import MutationRequest, MutationResult
from omnigraph.write.stage_changes import StagedChanges, stage_changes, typed_changes

#: So often a write in the line looks whether its time is over, in seconds.
_LOOK_SECONDS = 0.05


def mutate(store: GraphStore, schemas: SchemaRegistry, request: MutationRequest) -> MutationResult:
    """Run a named write of a `.gq` text as one commit.

    Raises:
        PreconditionFailed: ``if_commit`` is not the head.
    """
    waiting = _Waiting(store, request, mutation_of(schemas, request), request.commit_id or ids.new_ulid())
    line = _line_of(store, request.branch)
    try:
        if line.join(waiting):
            _lead(line, waiting)
        return waiting.answer()
    finally:
        try:
            line.leave(waiting)
        except BaseException:  # an interrupt on the way; others may wait for the rest of it
            line.leave(waiting)
            raise


@dataclass(slots=True, eq=False)
class _Waiting:
    """One write in a line.

    Attributes:
        decided: it has an answer, or it is its turn to lead, or to be run by its own thread.
        tried: others tried to publish it, and may have done so.
        is_gone: its thread waits no more.
    """

    store: GraphStore
    request: MutationRequest
    mutation: Mutation
    commit_id: str
    created_at: datetime = field(default_factory=ids.now)
    decided: threading.Event = field(default_factory=threading.Event)
    tried: bool = False
    is_gone: bool = False
    result: MutationResult | None = None
    error: BaseException | None = None

    @property
    def may_join(self) -> bool:
        return self.request.if_commit is None

    def answer(self) -> MutationResult:
        if self.error is not None:
            raise self.error
        return self.result if self.result is not None else _run_alone(self)


def _run_alone(waiting: _Waiting) -> MutationResult:
    """The write as it is when nobody else writes. One that was tried before, or that its caller may be sending again,
    is looked for by its commit id."""
    request = waiting.request
    is_known = waiting.tried or request.commit_id is not None
    done = run(
        waiting.store,
        Write(
            request.branch,
            WriterKind.MUTATION,
            request.actor,
            waiting.mutation.prepare,
            if_commit=request.if_commit,
            recomputes_reads=True,
            message=request.message,
            commit_id=waiting.commit_id if is_known else None,
        ),
    )
    report: Affected | None = done.report
    if report is None:
        assert done.commit is not None
        return _receipt(waiting, done.commit)
    return result_of(request, done.commit, report)


def _receipt(waiting: _Waiting, commit: Commit) -> MutationResult:
    """The answer to a write that was done before, from what its commit says of itself."""
    counts = {"node": 0, "edge": 0}
    for key, rows in commit.rows.items():
        counts[key.partition(":")[0]] += rows.inserted + rows.updated + rows.deleted
    request = waiting.request
    name = waiting.mutation.query_name
    return MutationResult(commit, request.branch, name, counts["node"], counts["edge"], commit.actor)


class _Line:
    """The writes of this process that wait for one branch.

    An interrupt may end a thread between any two steps. So who leads is said in one place, a write that was taken out
    of the line is in a list of its leader first, and what ends a turn can be done twice.

    A leader that takes long, because its statements do, holds up nobody for longer than `limits.LINE_SECONDS`: then the
    first of those behind it leads, and whoever comes to the section first commits first, as two processes would.

    Attributes:
        leader: the write whose thread sees to the others; None when nobody writes.
        since: when it began to, in monotonic seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self.leader: _Waiting | None = None
        self.since = 0.0

    def join(self, waiting: _Waiting) -> bool:
        """Stand in line; returns when the write leads the line (True) or has been seen to (False)."""
        with self._lock:
            self._waiting.append(waiting)
            if self.leader is None:
                self._appoint(waiting)
                return True
        can_stop = waiting.request.budget.can_stop
        while not waiting.decided.wait(_LOOK_SECONDS if can_stop else limits.LINE_SECONDS):
            if can_stop:
                self._withdraw(waiting)
            self._take_over(waiting)
        return self.leader is waiting

    def _appoint(self, waiting: _Waiting | None) -> None:
        self.since = time.monotonic()
        self.leader = waiting
        if waiting is not None:
            waiting.decided.set()

    def _take_over(self, waiting: _Waiting) -> None:
        """Lead, if nobody is before this write but a leader that takes long. One that has not begun stays the leader:
        it knows already that it is."""
        with self._lock:
            is_first = bool(self._waiting) and self._waiting[0] is waiting
            has_begun = self.leader not in self._waiting
            if is_first and has_begun and time.monotonic() - self.since >= limits.LINE_SECONDS:
                self._appoint(waiting)

    def _withdraw(self, waiting: _Waiting) -> None:
        """A write whose time is over goes away. One that others took along already is answered by them."""
        try:
            waiting.request.budget.check()
        except (QueryTimeout, QueryCancelled):
            with self._lock:
                if self.leader is waiting or waiting not in self._waiting:
                    return
                self._waiting.remove(waiting)
            raise

    def take(self, first: _Waiting, taken: list[_Waiting]) -> None:
        """Take the leader out of the line, and those that may be published with it."""
        with self._lock:
            taken.append(first)
            self._waiting.remove(first)
            while self._waiting and len(taken) < limits.GROUP_WRITES:
                following = self._waiting[0]
                if not (first.may_join and following.may_join):
                    return
                taken.append(following)
                self._waiting.popleft()

    def settle(self, taken: Sequence[_Waiting], later: Sequence[_Waiting]) -> None:
        """Wake those who were taken. Some have to wait for the next publish; they are the first then.

        Whoever has no answer runs by itself: by its commit id it finds out whether it was published.
        """
        with self._lock:
            again = [each for each in later if not each.is_gone]
            self._waiting = deque([*again, *(each for each in self._waiting if each not in taken)])
        for each in taken:
            if each not in later:
                each.tried = len(taken) > 1 and each.result is None and each.error is None
                each.decided.set()

    def leave(self, waiting: _Waiting) -> None:
        """A write has its answer, or its thread was interrupted; then what others took along is out of its hands.
        If it led, the next one does."""
        with self._lock:
            waiting.is_gone = True
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            if self.leader is waiting:
                self._appoint(self._waiting[0] if self._waiting else None)
            elif self.leader is not None:
                self.leader.decided.set()


#: Lines by address, options of the store and branch: two handles may mean different stores by one address.
_lines: WeakValueDictionary[tuple[str, frozenset[tuple[str, str]], str], _Line] = WeakValueDictionary()
_registry = threading.Lock()


def _line_of(store: GraphStore, branch: str) -> _Line:
    location = store.location
    with _registry:
        return _lines.setdefault((location.uri, frozenset(location.options.items()), branch), _Line())


def _lead(line: _Line, first: _Waiting) -> None:
    """See to the write that leads a line and to those that go with it."""
    taken: list[_Waiting] = []
    group = _Group(taken)
    try:
        line.take(first, taken)
        if len(taken) > 1:
            group.publish()
    finally:
        try:
            line.settle(taken, group.later)
        except BaseException:  # as above
            line.settle(taken, group.later)
            raise


@dataclass(frozen=True, slots=True)
class _Joined:
    """A write that is part of a publish, and what it does."""

    waiting: _Waiting
    draft: MutationDraft


@dataclass(frozen=True, slots=True)
class _Report:
    """How one attempt at a publish ends for each write.

    Attributes:
        joined: are published, in this order.
        done: have a commit already; their caller sent them again.
        idle: change nothing.
        refused: break a rule.
        later: depend on what others do.
    """

    joined: list[_Joined]
    done: list[tuple[_Waiting, Commit]]
    idle: list[_Joined]
    refused: list[tuple[_Waiting, OmniGraphError]]
    later: list[_Waiting]


class _Group:
    """Writes that are tried together.

    Attributes:
        later: those that have to wait for the next publish.
    """

    def __init__(self, taken: Sequence[_Waiting]) -> None:
        self._taken = taken
        self.later: list[_Waiting] = []

    def publish(self) -> None:
        first = self._taken[0]
        write: Write[_Report] = Write(
            first.request.branch, WriterKind.MUTATION, None, self._prepare, recomputes_reads=True
        )
        try:
            done = run(first.store.unguarded, write)
        except Drifted:
            return
        except OmniGraphError as error:
            for each in self._taken:
                each.error = _own(error, each.commit_id)
            return
        report = done.report
        self.later = report.later
        for waiting, refusal in report.refused:
            waiting.error = refusal
        for waiting, commit in report.done:
            waiting.result = _receipt(waiting, commit)
        for idle in report.idle:
            idle.waiting.result = _result(idle, None)
        commits = [] if done.commit is None else [*done.earlier, done.commit]
        for joined, commit in zip(report.joined, commits, strict=True):
            joined.waiting.result = _result(joined, commit)
            guard = joined.waiting.store.guard
            if guard is not None:
                guard.committed(commit)

    def _prepare(self, workspace: Workspace) -> Prepared[_Report]:
        report = self._independent(workspace)
        if not report.joined:
            return Prepared(report)
        staged, report = _staged(workspace, report)
        if staged is None:
            return Prepared(report)
        drafts = _commits(staged, report.joined)
        failpoints.reach("group.after_stage")
        return Prepared(report, staged.tables, made_for=report.joined[0].draft.schema.hash, commits=drafts)

    def _independent(self, workspace: Workspace) -> _Report:
        """Run the statements of each write on one state, and choose those that do not disturb each other."""
        report = _Report([], [], [], [], [])
        reach, names = Footprint(), set[str]()
        for waiting in self._taken:
            known = waiting.request.commit_id
            found = commit_log.find_by_id(workspace.snapshot, known) if known is not None else None
            if found is not None:
                report.done.append((waiting, found))
                continue
            try:
                draft = waiting.mutation.draft(Workspace(waiting.store, workspace.snapshot))
                waiting.store.permit(change.table_key for change in draft.changes)
            except StorageError:
                raise
            except OmniGraphError as error:
                report.refused.append((waiting, error))
                continue
            except Exception:
                continue  # its own thread runs it, and meets the same
            own = footprint_of(draft)
            if own is None:
                continue  # its own thread runs it
            if own.disturbs(reach) or waiting.commit_id in names:
                report.later.append(waiting)
            elif not draft.changes:
                report.idle.append(_Joined(waiting, draft))
            else:
                report.joined.append(_Joined(waiting, draft))
                reach.add(own)
                names.add(waiting.commit_id)
        return report


def _result(joined: _Joined, commit: Commit | None) -> MutationResult:
    draft = joined.draft
    affected = Affected(draft.query_name, draft.nodes, draft.edges, _NOTHING, draft.reads)
    return result_of(joined.waiting.request, commit, affected)


_NOTHING = StagedChanges({}, {}, {}, {})


def _own(error: OmniGraphError, commit_id: str) -> OmniGraphError:
    """The same error for one of several writes, with the id of its own commit."""
    found = copy.copy(error)
    found.__cause__ = error.__cause__
    named = error.details.get("commit_id")
    if named is not None:
        found.details = {**error.details, "commit_id": commit_id}
        found.message = error.message.replace(str(named), commit_id)
    return found


def _staged(workspace: Workspace, report: _Report) -> tuple[StagedChanges | None, _Report]:
    """Check the writes together and stage them; where a rule is broken, those that keep it."""
    staged = _stage_or_none(workspace, report.joined)
    if staged is not None:
        return staged, report
    kept, refused = [], list(report.refused)
    for joined in report.joined:
        try:
            _stage(workspace, [joined])
            kept.append(joined)
        except StorageError:
            raise
        except OmniGraphError as error:
            refused.append((joined.waiting, error))
    staged = _stage_or_none(workspace, kept) if len(kept) < len(report.joined) else None
    apart: list[_Joined] = []
    if staged is None and kept:  # each alone is right, together they are not
        kept, apart = kept[:1], kept[1:]
        staged = _stage(workspace, kept)
    later = [*report.later, *(each.waiting for each in apart)]
    return staged, _Report(kept, report.done, report.idle, refused, later)


def _stage_or_none(workspace: Workspace, group: Sequence[_Joined]) -> StagedChanges | None:
    """Writes that were staged together; None for no writes, and for those that break a rule."""
    try:
        return _stage(workspace, group) if group else None
    except StorageError:
        raise
    except OmniGraphError:
        return None


def _stage(workspace: Workspace, group: Sequence[_Joined]) -> StagedChanges:
    catalog = group[0].draft.schema.catalog
    return stage_changes(workspace, catalog, typed_changes(catalog, _together(group)))


def _together(group: Sequence[_Joined]) -> list[Change]:
    """The changes of several writes as those of one, with the rows of each in the order of the writes."""
    by_table: dict[str, list[Change]] = {}
    for joined in group:
        for change in joined.draft.changes:
            by_table.setdefault(change.table_key, []).append(change)
    return [_one(key, changes) for key, changes in by_table.items()]


def _one(table_key: str, changes: Sequence[Change]) -> Change:
    if len(changes) == 1:
        return changes[0]
    put = [change for change in changes if change.put is not None]
    remove = [change.remove.cast(pa.string()) for change in changes if change.remove is not None]
    is_new = all(change.mode is Mode.APPEND for change in put)
    return Change(
        table_key,
        pa.concat_tables([change.put for change in put]) if put else None,
        Mode.APPEND if is_new else Mode.MERGE,
        pa.concat_arrays(remove) if remove else None,
        reads_rows=any(change.reads_rows for change in changes),
        has_ids=bool(put),
        fresh_ids=bool(put) and all(change.fresh_ids for change in put),
    )


def _commits(staged: StagedChanges, group: Sequence[_Joined]) -> tuple[CommitDraft, ...]:
    """The commits of a group in their order. All but the last say which rows are theirs."""
    tables = {key: _Rows(staged, key) for key in staged.tables}
    drafts: list[CommitDraft] = []
    moment = group[0].waiting.created_at
    for joined in group:
        waiting = joined.waiting
        moment = max(moment + timedelta(microseconds=1), waiting.created_at) if drafts else waiting.created_at
        parts: dict[str, TablePart] = {}
        counts: dict[str, RowCounts] = {}
        for change in sorted(joined.draft.changes, key=lambda each: each.table_key):
            if change.table_key in tables:
                parts[change.table_key], counts[change.table_key] = tables[change.table_key].take(change)
        shown = {key: each.to_dict() for key, each in counts.items() if any(each.to_dict().values())}
        said = {"kind": "mutation", "message": waiting.request.message, "rows": shown}
        note = {name: value for name, value in said.items() if value}
        is_last = joined is group[-1]
        drafts.append(
            CommitDraft(waiting.commit_id, waiting.request.actor, moment, note=note, parts={} if is_last else parts)
        )
    return tuple(drafts)


class _Rows:
    """Where the rows of one table lie that a group writes, and those that it takes away."""

    def __init__(self, staged: StagedChanges, table_key: str) -> None:
        resolved, table = staged.resolved[table_key], staged.tables[table_key]
        self._written = [column.combine_chunks() for column in table.staged.written]
        self._replaced = _addresses(resolved.replaced)
        self._removed = _addresses(resolved.removed)
        self._rows = table.pin.row_count

    def take(self, change: Change) -> tuple[TablePart, RowCounts]:
        """The part of one change. Asked in the order of the writes."""
        put = id_column(change.put) if change.put is not None else pa.array([], pa.string())
        names = written_ids(change)
        replaced = [self._replaced[each] for each in names if each in self._replaced]
        removed = [self._removed[each] for each in names if each in self._removed]
        inserted = len(put) - len(replaced)
        self._rows += inserted - len(removed)
        part = TablePart(tuple(self._places(put)), tuple(sorted([*replaced, *removed])), self._rows)
        return part, RowCounts(inserted, len(replaced), len(removed))

    def _places(self, put: pa.Array) -> list[tuple[int, int, int]]:
        """Ranges of the new fragments that hold some rows."""
        found: list[tuple[int, int, int]] = []
        for ordinal, written in enumerate(self._written):
            places = pc.index_in(put, value_set=written).drop_null().to_pylist() if len(put) else []
            for place in sorted(places):
                if found and found[-1][0] == ordinal and found[-1][2] == place:
                    found[-1] = (ordinal, found[-1][1], place + 1)
                else:
                    found.append((ordinal, place, place + 1))
        return found


def _addresses(rows: pa.Table) -> dict[str, int]:
    """Where stored rows lie, by id."""
    return dict(zip(rows.column("id").to_pylist(), rows.column("_rowaddr").to_pylist(), strict=True))
