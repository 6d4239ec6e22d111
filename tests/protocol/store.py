"""The storage of one simulated process: what the commit protocol asks of a store, on a `World` instead of files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from lance import LanceOperation
from lance.commit import CommitConflictError

from omnigraph import ids
from omnigraph.errors import CorruptGraph, StoreUnavailable
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.publish import GraphChange, Published, StagedPublish, _after, _commits, check_change
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.branch_entries import BranchEntries
from omnigraph.storage.metadata.manifest import Commit, Head, ManifestSnapshot, table_version_of
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables.datasets import OPERATION, Ref, TableVersion
from omnigraph.storage.tables.stage_rows import StagedTransaction
from tests.protocol.world import Change, Process, State, Version

#: Which transactions Lance lets land behind which others; everything else is a conflict. Measured by a surface guard.
_REBASES = {("append", "append"), ("append", "update"), ("update", "append")}


@dataclass(frozen=True)
class SimulatedHandle:
    process: Process
    path: str
    lineage: str | None
    version: int

    @property
    def latest_version(self) -> int:
        return int(self._do("look", lambda: self.process.world.newest_number(self.path, self.lineage)))

    def read_transaction(self, version: int) -> Version:
        found = self._do("read transaction", lambda: self._files().get(version))
        if found is None:
            raise OSError(f"no version {version}")
        return cast(Version, found)

    def checkout_version(self, version: int) -> SimulatedHandle:
        return replace(self, version=version)

    def get_fragments(self) -> list[Any]:
        return []

    def rows(self) -> Any:
        return self._files()[self.version].rows

    def _files(self) -> dict[int, Version]:
        return self.process.world.lineages.get((self.path, self.lineage), {})

    def _do(self, label: str, effect: Callable[[], Any]) -> Any:
        return self.process.world.do(self.process, f"{label} {self.path}", effect)


def _tag(content: bytes) -> str:
    """As an object store makes it: two objects of one content have one tag."""
    return hashlib.sha256(content).hexdigest()


class SimulatedObjects:
    """Small objects with conditional puts."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._all = process.world.objects

    def read(self, path: str) -> bytes | None:
        return cast(bytes | None, self._do(f"get {path}", lambda: self._all.get(path)))

    def read_versioned(self, path: str) -> tuple[bytes, str] | None:
        found = self.read(path)
        return (found, _tag(found)) if found is not None else None

    def write(self, path: str, content: bytes) -> None:
        self._do(f"put {path}", lambda: self._put(path, content))

    def create(self, path: str, content: bytes) -> str | None:
        return cast(str | None, self._do(f"create {path}", lambda: self._put(path, content, absent=True)))

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        return cast(str | None, self._do(f"replace {path}", lambda: self._put(path, content, tag=tag)))

    def _put(self, path: str, content: bytes, *, absent: bool = False, tag: str | None = None) -> str | None:
        known = self._all.get(path)
        if (absent and known is not None) or (tag is not None and (known is None or _tag(known) != tag)):
            return None
        self._all[path] = content
        return _tag(content)

    def delete(self, path: str) -> None:
        self._do(f"delete {path}", lambda: self._all.pop(path, None))

    def names(self, directory: str) -> list[str]:
        found = self._do(f"list {directory}", lambda: [path for path in self._all if path.startswith(f"{directory}/")])
        return sorted(path.rpartition("/")[2] for path in found)

    def any_below(self, directory: str) -> bool:
        lineages = self._process.world.lineages
        path, _, lineage = directory.partition("/tree/")
        return bool(self._do(f"list {directory}", lambda: bool(lineages.get((path, lineage)))))

    def _do(self, label: str, effect: Callable[[], Any]) -> Any:
        return self._process.world.do(self._process, label, effect)


class SimulatedTables:
    """Tables as their version files."""

    is_local = False

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world

    def uri(self, path: str, branch: str | None = None) -> str:
        return f"{path}/tree/{branch}" if branch else path

    def at(self, table: TableVersion) -> SimulatedHandle:
        path, branch, version = table.location, table.branch, table.version
        files = self._world.lineages.get((path, branch), {})
        if self._do(f"open {path}", lambda: files.get(version)) is None:
            raise CorruptGraph(f"version {version} of {path} is missing")
        return SimulatedHandle(self._process, path, branch, version)

    def remember(self, *_: object) -> None:
        """Nothing is kept."""

    def newest(self, path: str, branch: str | None = None) -> SimulatedHandle:
        found = self.newest_or_none(path, branch)
        if found is None:
            raise CorruptGraph(f"{path} is missing")
        return found

    def newest_number(self, _path: str, _branch: str | None, handle: SimulatedHandle) -> int:
        return handle.latest_version

    def newest_or_none(self, path: str, branch: str | None = None) -> SimulatedHandle | None:
        number = self._do(f"open newest {path}", lambda: self._world.newest_number(path, branch))
        return SimulatedHandle(self._process, path, branch, number) if number else None

    def commit(self, handle: SimulatedHandle, transaction: Any) -> SimulatedHandle:
        """Look where the commit would land, then put it there."""
        change = self._change(transaction)
        lineage = handle.path, handle.lineage
        files = self._world.lineages[lineage]
        slot = self._do(f"commit look {handle.path}", lambda: self._landing(files, transaction.read_version, change))
        version = Version(
            _applied(files, slot - 1, change), transaction.uuid, dict(transaction.transaction_properties), change.kind
        )
        self._do(f"commit put {handle.path} v{slot}", lambda: self._world.put_version(*lineage, slot, version))
        return replace(handle, version=slot)

    def restore(self, handle: SimulatedHandle, version: int, operation_id: str) -> SimulatedHandle:
        change = Change("restore", restores=version)
        files = self._world.lineages[handle.path, handle.lineage]
        while True:
            slot = self._do(f"restore look {handle.path}", lambda: max(files) + 1)
            made = Version(_applied(files, slot - 1, change), ids.new_ulid(), {OPERATION: operation_id}, "restore")
            with suppress(CommitConflictError):
                self._do(
                    f"restore put {handle.path} v{slot}",
                    partial(self._world.put_version, handle.path, handle.lineage, slot, made),
                )
                return replace(handle, version=slot)

    def _landing(self, files: dict[int, Version], read_version: int, change: Change) -> int:
        for number in sorted(files):
            if number > read_version and change.kind == "overwrite":
                raise CommitConflictError("strict")
            if number > read_version and (change.kind, files[number].kind) not in _REBASES:
                raise CommitConflictError(f"{change.kind} after {files[number].kind}")
        return max(files) + 1

    def _change(self, transaction: Any) -> Change:
        return self._world.changes[transaction.uuid]

    def ref(self, path: str, branch: str) -> Ref | None:
        found = self._do(f"get ref {branch} of {path}", lambda: self._world.refs.get((path, branch)))
        return Ref(f"{found[0]}@{found[1]}", *found) if found else None

    def branch_names(self, path: str) -> list[str]:
        names = self._do(f"list refs of {path}", lambda: [name for place, name in self._world.refs if place == path])
        return sorted(names)

    def branches(self, path: str) -> dict[str, dict[str, Any]]:
        refs = self._do(f"list refs of {path}", lambda: dict(self._world.refs))
        return {
            name: {"parent_branch": ref[0], "parent_version": ref[1], "branch_identifier": name}
            for (place, name), ref in refs.items()
            if place == path
        }

    def fork(self, source_table: TableVersion, branch: str) -> SimulatedHandle:
        """Version file first, ref last, neither of them conditional on the other."""
        world = self._world
        path, from_branch, version = source_table.location, source_table.branch, source_table.version
        source = world.lineages[path, from_branch][version]
        if self._do(f"fork look {path}", lambda: world.newest_number(path, branch)):
            raise StoreUnavailable(f"could not create branch {branch}: it exists")

        def put() -> None:
            world.put_version(path, branch, version, replace(source, kind="clone"))

        try:
            self._do(f"fork put {path} {branch}", put)
        except CommitConflictError as error:
            raise StoreUnavailable(f"could not create branch {branch}") from error
        self._do(f"put ref {branch} of {path}", lambda: world.refs.update({(path, branch): (from_branch, version)}))
        return SimulatedHandle(self._process, path, branch, version)

    def drop_ref(self, path: str, branch: str) -> None:
        self._do(f"delete ref {branch} of {path}", lambda: self._world.refs.pop((path, branch), None))

    def drop_branch(self, path: str, branch: str) -> None:
        """What only the old rules do on an object store."""
        self.drop_ref(path, branch)
        self._do(f"delete tree {branch} of {path}", lambda: self._world.lineages.pop((path, branch), None))

    def _do(self, label: str, effect: Callable[[], Any]) -> Any:
        return self._process.world.do(self._process, label, effect)


def _applied(files: dict[int, Version], number: int, change: Change) -> Counter[str]:
    if change.restores is not None:
        return Counter(files[change.restores].rows)
    rows = Counter() if change.kind == "overwrite" else Counter(files[number].rows)
    rows.subtract(change.remove)
    rows.update(change.add)
    return +rows


class SimulatedPublisher:
    """The publish: a look, then one conditional put."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    def stage(self, base: ManifestSnapshot, change: GraphChange, epoch: int) -> StagedPublish:
        check_change(base, change)
        head = cast(Head, base.head)
        commits = _commits(base, head.commit_id, (*change.earlier, change.commit))
        commit = commits[-1]
        pins, hidden = _after(base, change)
        new = Head(commit.id, commit.parent, epoch, commit.version)
        after = replace(base, version=commit.version, head=new, pins=pins, hidden=hidden)
        return StagedPublish(base, commits, after, None, [])

    def publish(self, staged: StagedPublish, operation_id: str) -> Published | None:
        store, base, commits, commit = self._store, staged.base, staged.commits, staged.commits[-1]
        world, lineage = store.process.world, base.lineage
        handle = SimulatedHandle(store.process, manifest.PATH, lineage, commit.version)
        moved = handle.latest_version != base.version
        if not moved:
            before = cast(State, world.lineages[manifest.PATH, lineage][base.version].rows)
            made = {each.id: each for each in commits}
            state = State(cast(Head, staged.after.head), dict(staged.after.pins), {**before.commits, **made})
            version = Version(state, commit.id, {}, "publish")
            try:
                world.do(
                    store.process,
                    f"publish v{commit.version}",
                    lambda: world.put_version(manifest.PATH, lineage, commit.version, version),
                )
                return Published(commit, replace(staged.after, handle=cast(Any, handle)), commits[:-1])
            except CommitConflictError:
                pass
        newest = store.read_lineage(BranchRef(base.branch, base.identity, None, 0, lineage))
        found = self.find(newest, commit.id)
        return Published(found, newest, commits[:-1]) if found else None

    def find(self, snapshot: ManifestSnapshot, commit_id: str) -> Commit | None:
        return cast(State, cast(Any, snapshot.handle).rows()).commits.get(commit_id)


class SimulatedSections:
    """A section that keeps nobody out: whatever a lease could do, this is the worst of it."""

    @contextmanager
    def hold(self, branch: str) -> Iterator[Any]:
        yield SimpleNamespace(epoch=0, is_held=lambda: False, kept=nullcontext)


class SimulatedStore(GraphStore):
    """The storage of one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.location = Location("s3://simulated/graph")
        objects = SimulatedObjects(process)
        self.objects = cast(Any, objects)
        self.tables = cast(Any, SimulatedTables(process))
        self.recent_changes = cast(Any, SimpleNamespace(keep=lambda *_: None))
        self.entries = BranchEntries(cast(Any, objects))
        self.sections = cast(Any, SimulatedSections())
        self.mirror = cast(Any, SimpleNamespace(note=lambda *_: None, held=nullcontext))
        self.publisher = cast(Any, SimulatedPublisher(self))
        self.forks = {}

    def refresh(self, branch: str, *, migrate_layout: bool = False) -> ManifestSnapshot:
        return self.read_lineage(self.branch_ref(branch))

    def read_lineage(
        self, ref: BranchRef, known: ManifestSnapshot | None = None, *, migrate_layout: bool = False
    ) -> ManifestSnapshot:
        handle = self._newest_manifest(ref)
        state = cast(State, cast(Any, handle).rows())
        return ManifestSnapshot(
            ref.name, handle.version, state.head, state.pins, {}, {}, handle, ref.identity, None, ref.lineage
        )

    def adopt(self, snapshot: ManifestSnapshot) -> None:
        """Nothing is remembered, so that every look is a step."""

    def adopt_fork(self, *_: object) -> None:
        """Nothing is remembered."""

    def forget_branch(self, branch: str) -> None:
        """Nothing is remembered."""


class InlineThreads:
    """Runs what a pool would run, in the order it is given."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, function: Callable[[Any], Any], values: Any) -> Any:
        return map(function, values)


_OPERATIONS: dict[str, Callable[[], Any]] = {
    "append": lambda: LanceOperation.Append([]),
    "update": lambda: LanceOperation.Update([], [], []),
    "overwrite": lambda: LanceOperation.Update([], [], []),
}


def write(store: SimulatedStore, branch: str, compute: Callable[[Workspace], dict[str, Change]]) -> Commit | None:
    """Commit changes of tables with the real protocol; what they are is computed from the state they are made on."""

    def prepare(workspace: Workspace) -> Prepared[None]:
        tables = {}
        for key, change in compute(workspace).items():
            pin, handle = workspace.writable(key)
            staged = StagedTransaction(_OPERATIONS[change.kind](), pin.version, 0, uuid=ids.new_ulid())
            store.process.world.changes[staged.uuid] = change
            tables[key] = PreparedTable(pin, handle, staged, reads_rows=change.kind != "append")
        return Prepared(None, tables)

    return run(store, Write(branch, WriterKind.MUTATION, None, prepare)).commit


def rows_of(store: SimulatedStore, branch: str, key: str) -> Counter[str]:
    """What a branch shows of a table."""
    pin = store.snapshot(branch).pins[key]
    return Counter(cast(Any, store.tables.at(table_version_of(pin))).rows())
