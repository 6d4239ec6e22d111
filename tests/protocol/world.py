"""A simulated conditional store with a scheduler: several processes run the real commit protocol, one step at a time.

Every store operation is one step. Before it the process waits until the schedule lets it go on, so any interleaving can
be played: a process may be held there for ever, be killed there, or be killed while its request is on the way, which
then takes effect later. What the store promises is what S3 promises: reads see finished writes, a conditional put
compares by itself. Tables and manifest are modelled by their version files, each written once; a table commit first
looks where it would land and then puts, as Lance does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lance.commit import CommitConflictError

from omnigraph import ids
from omnigraph.errors import StorageError
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import Commit, Head, Pin

TABLES = ("node:A", "node:B")


class Killed(BaseException):
    """This process is dead; nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a simulated transaction does to the rows of a table; ``kind`` decides how Lance treats it."""

    kind: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    restores: int | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One version file of a table, or of the manifest."""

    rows: Any
    uuid: str
    transaction_properties: dict[str, str]
    kind: str

    @property
    def operation(self) -> str:
        """What the transaction did. Nothing here is upkeep, which Lance tells by the class of the operation."""
        return self.kind


@dataclass(slots=True)
class Process:
    name: str
    world: World
    is_dead: bool = False
    steps: int = 0
    result: str = "running"


@dataclass(slots=True)
class World:
    """Everything that the processes share."""

    objects: dict[str, bytes] = field(default_factory=dict)
    lineages: dict[tuple[str, str | None], dict[int, Version]] = field(default_factory=dict)
    refs: dict[tuple[str, str], tuple[str | None, int]] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    late: list[Callable[[], object]] = field(default_factory=list)
    recoveries: list[str] = field(default_factory=list)
    schedule: Schedule | None = None
    counter: int = 0

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def do(self, process: Process, label: str, effect: Callable[[], Any]) -> Any:
        """One store operation: the place where a process may be held, or die."""
        if process.is_dead:
            raise Killed
        if self.schedule is not None:
            verdict = self.schedule.wait(process, label)
            if verdict == "kill":
                process.is_dead = True
                raise Killed
            if verdict == "kill in flight":
                process.is_dead = True
                self.late.append(effect)
                raise Killed
        process.steps += 1
        return effect()

    def let_late_requests_happen(self) -> None:
        while self.late:
            try:
                self.late.pop(0)()
            except (CommitConflictError, StorageError):
                continue

    def put_version(self, path: str, lineage: str | None, number: int, version: Version) -> None:
        """A conditional put: each version file is written once."""
        files = self.lineages.setdefault((path, lineage), {})
        if number in files:
            raise CommitConflictError(f"version {number} exists")
        files[number] = version

    def newest_number(self, path: str, lineage: str | None) -> int:
        return max(self.lineages.get((path, lineage), {}), default=0)


@dataclass(frozen=True, slots=True)
class State:
    """What one manifest version says."""

    head: Head
    pins: dict[str, Pin]
    commits: dict[str, Commit]


def first_state() -> State:
    genesis = Commit(ids.new_ulid(), ids.MAIN, 1, None, None, None, ids.now())
    pins = {key: Pin(key, key.replace(":", "/"), 1, None, 0, '{"transaction":"genesis"}') for key in TABLES}
    return State(Head(genesis.id, None, 0, 1), pins, {genesis.id: genesis})


def new_world() -> World:
    """A graph with two empty tables."""
    world = World()
    for key in TABLES:
        world.put_version(key.replace(":", "/"), None, 1, Version(Counter(), "genesis", {}, "create"))
    world.put_version(manifest.PATH, None, 1, Version(first_state(), "genesis", {}, "create"))
    return world


class Schedule:
    """Lets one process at a time make one step, as a chooser says.

    Args:
        choose: given the names of the processes that can go on, the one that does; or its name with a verdict.
    """

    def __init__(self, choose: Callable[[list[str]], tuple[str, str]]) -> None:
        self._choose = choose
        self._turn = threading.Condition()
        self._waiting: dict[str, str] = {}
        self._granted: dict[str, str] = {}
        self._running = 0
        self.trace: list[str] = []

    def wait(self, process: Process, label: str) -> str:
        with self._turn:
            self._waiting[process.name] = label
            self._running -= 1
            self._turn.notify_all()
            while process.name not in self._granted:
                if not self._turn.wait(timeout=30):
                    raise AssertionError(f"the schedule forgot {process.name}: {self.trace[-5:]}")
            verdict = self._granted.pop(process.name)
            return verdict

    def run(self, programs: dict[str, Callable[[], None]]) -> None:
        """Play the programs to their ends."""

        def body(program: Callable[[], None]) -> None:
            try:
                program()
            finally:
                with self._turn:
                    self._running -= 1
                    self._turn.notify_all()

        threads = [threading.Thread(target=body, args=(program,), daemon=True) for program in programs.values()]
        self._running = len(threads)
        for thread in threads:
            thread.start()
        while True:
            with self._turn:
                while self._running:
                    assert self._turn.wait(timeout=30), f"a process hangs: {self.trace[-5:]}"
                if not self._waiting:
                    break
                name, verdict = self._choose(sorted(self._waiting))
                self.trace.append(f"{name} {self._waiting.pop(name)}{'' if verdict == 'go' else f' ({verdict})'}")
                self._granted[name] = verdict
                self._running += 1
                self._turn.notify_all()
        for thread in threads:
            thread.join(timeout=30)


@contextmanager
def scheduled(world: World, schedule: Schedule) -> Iterator[None]:
    world.schedule = schedule
    try:
        yield
    finally:
        world.schedule = None
