"""Copies a whole graph, with all branches, tags and history, to another place, or brings such a copy up to date.

The source is only read, and may be written to meanwhile. Every file is compared with the source before anything refers
to it, and every table that a branch shows is opened before the copy can be. A second run goes on where an interrupted
one stopped. What is done about files that only the copy has is up to `clone_graph.py` and `keep_backup.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from omnigraph import failpoints
from omnigraph.errors import ConflictError, CorruptGraph, StorageError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.holds import Hold, holding, lease_everything
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.objects.file_tree import FileTree, StoredFile
from omnigraph.storage.objects.locks import RECOVERY_DIRECTORY
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables import version_addresses
from omnigraph.storage.tagged_states import tagged_state
from omnigraph.upkeep.clone.carry_files import Carried, CarriedFile, FileCarriers, carried_here, carry_file
from omnigraph.upkeep.clone.copy_plan import DERIVED, PlannedFile, Step, is_name, plan_copy
from omnigraph.upkeep.clone.cut import SCHEMA_FILES, Cut, read_names, take_cut

#: Files that are copied at once. Each takes a few MB of memory.
_THREADS = 4

#: Files of a disk that are not worth a thread of their own, and how many of them are.
_SMALL_BYTES = 1024**2
_SMALL_FILES = 64

#: How often a copy looks again at a source that removes files while they are read.
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class CloneResult:
    """What a clone or a backup has, and what it took.

    Attributes:
        files: of the whole copy.
        bytes: of the whole copy.
        copied_files: those that were not there yet.
        copied_bytes: of those.
        removed_files: that the copy had and the source does not have.
        branches: main included.
        tags: of the copy.
        commits: that the branches know, merged ones included.
    """

    source: str
    target: str
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int
    removed_files: int
    branches: int
    tags: int
    commits: int

    def to_dict(self) -> dict[str, object]:
        """The result as plain values, for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class SourceChanged(Exception):
    """A file of the cut is gone: the source removed a branch, a table or old versions. Never leaves this room."""


@dataclass(slots=True)
class GraphCopy:
    """One run of a copy.

    Attributes:
        present: sizes of the files that the target had at the beginning.
        known: files of the source that are known to be in the target, with the tags they had; of these only the size
            is looked at again.
        settle: called with the cut and its plan before anything refers to the new files; deals with what only the
            target has.
        stored: sizes in the target of the files that are known; where addresses follow, they differ.
        prune: remove what only the target has, when the new state is complete.
        carriers: who carries the files that come as they are and that nothing refers to yet, which are nearly all.
        removed: files of the target that are gone.
    """

    source: GraphStore
    target: GraphStore
    known: dict[str, StoredFile]
    settle: Callable[[GraphCopy, Cut, list[PlannedFile]], None]
    stored: dict[str, int]
    prune: bool = False
    carriers: FileCarriers = carried_here
    present: dict[str, int] = field(init=False)
    removed: int = 0
    _from: FileTree = field(init=False)
    _to: FileTree = field(init=False)
    _copied: dict[str, int] = field(default_factory=dict)
    _vanished: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._from, self._to = FileTree(self.source.location), FileTree(self.target.location)
        self.present = {file.path: file.size for file in self._to.files()}

    def run(self) -> CloneResult:
        """Copy everything.

        Raises:
            ConflictError: the source removed files all the time.
            StorageError: a file came out differently from what was read.
        """
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-clone") as threads:
            for _ in range(_ROUNDS):
                with contextlib.suppress(SourceChanged), holding(_lease(self.source)):
                    return self._run(threads)
        raise ConflictError("the source removed files all the time while it was copied", hint="try again later")

    def _run(self, threads: ThreadPoolExecutor) -> CloneResult:
        """Copy one cut.

        Raises:
            SourceChanged: a file of it is gone.
        """
        cut = take_cut(self.source, self._from)
        plan = plan_copy(self._from.files(), cut)
        self._bring_data(threads, plan)
        failpoints.reach("clone.after_data")
        self.settle(self, cut, plan)
        self._bring(threads, plan, Step.TABLES)
        cut, plan = self._still_there(cut, plan)
        self._bring(threads, plan, Step.BRANCHES)
        cut, plan = self._still_there(cut, plan)
        self.settle(self, cut, plan)
        return self._show(threads, cut, plan)

    def _still_there(self, cut: Cut, plan: list[PlannedFile]) -> tuple[Cut, list[PlannedFile]]:
        """The cut and the plan without branches that the source deleted meanwhile.

        Raises:
            SourceChanged: a file is gone that something else needs.
        """
        left = cut.still_there(read_names(self.source, self._from))
        vanished, self._vanished = self._vanished, []
        if any(map(left.needs, vanished)):
            raise SourceChanged
        gone = {each.path for each in plan if cut.needs(each.path) and not left.needs(each.path)}
        gone.update(vanished, cut.names.keys() - left.names.keys())
        return left, [each for each in plan if each.path not in gone]

    def _show(self, threads: ThreadPoolExecutor, cut: Cut, plan: list[PlannedFile]) -> CloneResult:
        """Make the copy one that can be opened.

        Raises:
            SourceChanged: a state of main is gone; what was brought so far is also part of the next cut, or harmless.
        """
        failpoints.reach("clone.before_names")
        self._bring_in_order(plan, Step.NAMES)
        failpoints.reach("clone.before_main")
        self._bring(threads, plan, Step.MAIN)
        if self._vanished:
            self._vanished.clear()
            raise SourceChanged
        _require_whole(self.target.location, cut)
        self._bring_in_order(plan, Step.TAGS)
        failpoints.reach("clone.before_schema")
        self._bring_in_order(plan, Step.SCHEMA)
        if self.prune:
            self.remove(self.left_over(plan))
        return CloneResult(
            source=self.source.location.uri,
            target=self.target.location.uri,
            files=len(plan),
            bytes=sum(self.stored[each.path] for each in plan if each.path in self.stored),
            copied_files=len(self._copied),
            copied_bytes=sum(self._copied.values()),
            removed_files=self.removed,
            branches=len(cut.states),
            tags=sum(1 for _ in cut.tags()),
            commits=len({commit for name in cut.states for commit in cut.commits[name]}),
        )

    def left_over(self, plan: list[PlannedFile]) -> list[str]:
        """Files that the target has and the plan has not."""
        wanted = {each.path for each in plan}
        return [path for path in self.present if path not in wanted and not path.startswith(f"{RECOVERY_DIRECTORY}/")]

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files of the target; those that make something visible first."""
        for path in sorted(paths, key=lambda path: (not is_name(path), path)):
            self.target.objects.delete(path)
            self.present.pop(path, None)
            self.removed += 1
            failpoints.reach("clone.between_removals")

    def _bring_data(self, threads: ThreadPoolExecutor, plan: list[PlannedFile]) -> None:
        """Bring what nothing refers to yet, by another carrier if there is one for so much."""
        chosen = [each for each in plan if each.step == Step.DATA and not self._is_known(each)]
        files = [self._file(each) for each in chosen]
        carrier = self.carriers(self.source.location, self.target.location, files)
        if carrier is None:
            self._bring(threads, plan, Step.DATA)
            return
        for planned, carried in zip(chosen, carrier.carry(files), strict=True):
            self._know(planned, self._taken(planned, carried))

    def _bring(self, threads: ThreadPoolExecutor, plan: list[PlannedFile], step: Step) -> None:
        """Bring the files of one step, several at a time, and make them durable together."""
        chosen = [each for each in plan if each.step == step]
        list(threads.map(self._bring_all, self._batches(chosen)))
        self._to.sync([each.path for each in chosen if each.path in self._copied])

    def _batches(self, chosen: list[PlannedFile]) -> Iterator[list[PlannedFile]]:
        """What one thread does at a time: a file where a request takes its time, many small ones on a disk."""
        local = self.source.location.is_local and self.target.location.is_local
        small = [each for each in chosen if local and each.file.size < _SMALL_BYTES]
        yield from ([each] for each in chosen if not local or each.file.size >= _SMALL_BYTES)
        yield from (small[start : start + _SMALL_FILES] for start in range(0, len(small), _SMALL_FILES))

    def _bring_all(self, batch: list[PlannedFile]) -> None:
        for each in batch:
            self._bring_one(each)

    def _bring_in_order(self, plan: list[PlannedFile], step: Step) -> None:
        """Refs before the entries that name them, and the schema with its last file last."""
        chosen = [each for each in plan if each.step == step]
        if step == Step.SCHEMA:
            chosen.sort(key=lambda each: SCHEMA_FILES.index(each.path))
        else:
            chosen.sort(key=lambda each: each.path, reverse=True)
        for each in chosen:
            self._bring_one(each)
            self._to.sync([each.path])

    def _bring_one(self, planned: PlannedFile) -> None:
        failpoints.reach("clone.between_files")
        if planned.content is None and self._is_known(planned):
            return
        if planned.content is None and planned.moved is None:
            stored = self._bring_stream(planned)
        else:
            stored = self._bring_content(planned)
        self._know(planned, stored)

    def _know(self, planned: PlannedFile, stored: int | None) -> None:
        """A file is in the target with so many bytes; None when the source has it no more."""
        if stored is not None:
            self.stored[planned.path] = stored
            self.known[planned.path] = planned.file

    def _is_known(self, planned: PlannedFile) -> bool:
        path = planned.path
        return self.known.get(path) == planned.file and self.present.get(path) == self.stored.get(path, -1)

    def _bring_stream(self, planned: PlannedFile) -> int | None:
        """A file as it is. One that was there with the same size is read, and copied when it differs."""
        return self._taken(planned, carry_file(self._from, self._to, self._file(planned)))

    def _file(self, planned: PlannedFile) -> CarriedFile:
        path, size = planned.path, planned.file.size
        return CarriedFile(path, size, self.present.get(path) == size)

    def _taken(self, planned: PlannedFile, carried: Carried) -> int | None:
        """Bytes of a file that was carried; None when the source has it no more."""
        path, size = planned.path, planned.file.size
        if carried == Carried.GONE:
            if not path.startswith(DERIVED):
                self._vanished.append(path)
            return None
        if carried == Carried.COPIED:
            self._note(path, size)
        return size

    def _bring_content(self, planned: PlannedFile) -> int | None:
        """A small file whose content is known, or has to name other addresses."""
        path, content = planned.path, planned.content
        if content is None:
            read = self.source.objects.read(path)
            if read is None or planned.moved is None:
                self._vanished.append(path)
                return None
            content = version_addresses.with_table_at(read, self.target.tables.address(planned.moved))
        if self.present.get(path) != len(content) or self.target.objects.read(path) != content:
            self._to.write(path, content)
            if self.target.objects.read(path) != content:
                raise StorageError(f"{self.target.location.child(path)} does not hold what was written to it")
            self._note(path, len(content))
        return len(content)

    def _note(self, path: str, size: int) -> None:
        self._copied[path] = self.present[path] = size


def _lease(source: GraphStore) -> Hold | None:
    """Keep cleanups from the source; None in a place that is only readable."""
    with contextlib.suppress(StorageError):
        return lease_everything(source.location, source.objects)
    return None


def _require_whole(target: Location, cut: Cut) -> None:
    """Every branch of the copy shows what the cut says, and every table of it and of the tags can be opened there."""
    store = GraphStore(target)
    for name, state in cut.states.items():
        found = store.snapshot(name)
        if (found.version, found.head) != (state.version, state.head):
            raise CorruptGraph(f"branch '{name}' of the copy is at version {found.version}, not {state.version}")
        for pin in found.pins.values():
            rows = int(store.tables.fresh(table_version_of(pin)).count_rows())
            if rows != pin.row_count:
                raise CorruptGraph(f"{pin.table_key} of the copy has {rows} rows, not {pin.row_count}")
    for entry in cut.tags():
        for pin in tagged_state(store, entry).pins.values():
            store.table(pin)
