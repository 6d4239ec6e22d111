"""Pairs and triples of short operations on the simulated store, played under one schedule and judged afterwards.

Every operation notes what it was told in the end. Then: what was acknowledged is there exactly once, what was refused
is not there, what is unknown is there once or not at all, no edge lacks its node, no increment is lost, and every
branch takes writes again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

from omnigraph import ids
from omnigraph.errors import BranchExists, BranchNotFound, OmniGraphError, OutcomeUnknown, RecoveryRequired
from omnigraph.history.branches import create_branch, delete_branch
from omnigraph.history.rename_branch import RenameRequest, rename_branch
from omnigraph.storage.commit import protocol
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.recovery import audit, sweep
from tests.protocol.store import InlineThreads, SimulatedStore, rows_of, write
from tests.protocol.world import Change, Killed, Process, Schedule, World, new_world, scheduled

A, B, DEV, MOVED, ASIDE = "node:A", "node:B", "dev", "moved", "aside"


#: A row that only the branch has, where it may be renamed.
BASE = "base"


@dataclass(slots=True)
class Play:
    """One run of a case."""

    world: World
    told: dict[str, str] = field(default_factory=dict)

    def store(self, name: str) -> SimulatedStore:
        return SimulatedStore(Process(name, self.world))


Operation = Callable[[SimulatedStore, str], object]


def append(store: SimulatedStore, mark: str) -> object:
    """One new row."""
    return write(store, ids.MAIN, lambda _: {A: Change("append", (mark,))})


def append_other(store: SimulatedStore, mark: str) -> object:
    return write(store, ids.MAIN, lambda _: {B: Change("append", (mark,))})


def append_both(store: SimulatedStore, mark: str) -> object:
    return write(store, ids.MAIN, lambda _: {A: Change("append", (mark,)), B: Change("append", (mark,))})


def _rows(workspace: Workspace, key: str) -> Counter[str]:
    return Counter(cast(Any, workspace.readable(key)).rows())


def increment(store: SimulatedStore, mark: str) -> object:
    """A counter that is read and replaced, and a row that says so."""

    def compute(workspace: Workspace) -> dict[str, Change]:
        known = [row for row in _rows(workspace, A) if row.startswith("count ")]
        value = int(known[0].split()[1]) if known else 0
        return {A: Change("update", (mark, f"count {value + 1}"), tuple(known))}

    return write(store, ids.MAIN, compute)


def overwrite(store: SimulatedStore, mark: str) -> object:
    """All rows of a table anew: those that were there, and one more."""
    return write(store, ids.MAIN, lambda workspace: {A: Change("overwrite", (*_rows(workspace, A).elements(), mark))})


def add_edge(store: SimulatedStore, mark: str) -> object:
    """A row of one table that needs a row of another."""

    def compute(workspace: Workspace) -> dict[str, Change]:
        return {B: Change("append", (mark, f"edge {mark} to hub"))} if _rows(workspace, A)["hub"] else {}

    return write(store, ids.MAIN, compute)


def drop_node(store: SimulatedStore, mark: str) -> object:
    """Removes the row that edges need, if there is none."""

    def compute(workspace: Workspace) -> dict[str, Change]:
        used = any(row.startswith("edge ") for row in _rows(workspace, B))
        return {} if used or not _rows(workspace, A)["hub"] else {A: Change("update", (mark,), ("hub",))}

    return write(store, ids.MAIN, compute)


def append_dev(store: SimulatedStore, mark: str) -> object:
    """A row on a branch; its first write forks the table."""
    return write(store, DEV, lambda _: {A: Change("append", (mark,))})


def make_dev(store: SimulatedStore, mark: str) -> object:
    create_branch(store, DEV, ids.MAIN, None)
    return write(store, DEV, lambda _: {A: Change("append", (mark,))})


def drop_dev(store: SimulatedStore, mark: str) -> object:
    delete_branch(store, DEV)
    return "deleted"


def renew_dev(store: SimulatedStore, mark: str) -> object:
    delete_branch(store, DEV)
    return make_dev(store, mark)


def move_dev(store: SimulatedStore, mark: str) -> object:
    """Another name for the branch, and a row under that name."""
    rename_branch(store, RenameRequest(DEV, MOVED, None))
    return write(store, MOVED, lambda _: {A: Change("append", (mark,))})


def move_and_back(store: SimulatedStore, mark: str) -> object:
    rename_branch(store, RenameRequest(DEV, MOVED, None))
    rename_branch(store, RenameRequest(MOVED, DEV, None))
    return write(store, DEV, lambda _: {A: Change("append", (mark,))})


def move_aside(store: SimulatedStore, mark: str) -> object:
    """Yet another name."""
    rename_branch(store, RenameRequest(DEV, ASIDE, None))
    return write(store, ASIDE, lambda _: {A: Change("append", (mark,))})


def make_moved(store: SimulatedStore, mark: str) -> object:
    """Another branch of the name that the renamed one gets."""
    create_branch(store, MOVED, ids.MAIN, None)
    return write(store, MOVED, lambda _: {A: Change("append", (mark,))})


def recover(store: SimulatedStore, mark: str) -> object:
    return sweep.sweep(store, strict=True)


#: What leaves a row with its mark on main, and on the branch.
ON_MAIN: dict[str, Operation] = {
    each.__name__: each for each in (append, append_other, append_both, increment, overwrite, add_edge, drop_node)
}
ON_BRANCH: dict[str, Operation] = {each.__name__: each for each in (append_dev, make_dev, drop_dev, renew_dev)}
RENAMES: dict[str, Operation] = {each.__name__: each for each in (move_dev, move_aside, move_and_back, make_moved)}
OPERATIONS: dict[str, Operation] = ON_MAIN | ON_BRANCH | {"recover": recover}


@dataclass(frozen=True, slots=True)
class Case:
    """Operations that run at once, each in a process of its own; ``branch`` says whether the branch is there before."""

    operations: tuple[str, ...]
    branch: bool = False

    @property
    def renames(self) -> bool:
        return any(name in RENAMES for name in self.operations)

    def __str__(self) -> str:
        return f"{' + '.join(self.operations)}{' (dev exists)' if self.branch else ''}"


def play(case: Case, choose: Callable[[list[str]], tuple[str, str]]) -> list[str]:
    """Run a case under a schedule; returns what is wrong afterwards, each with the trace that led there."""
    run = Play(new_world())
    schedule = Schedule(choose)
    with (
        patch.object(protocol, "_threads", InlineThreads),
        patch.object(audit, "record", lambda tables, record, kind, *_: run.world.recoveries.append(kind)),
    ):
        before = run.store("before")
        write(before, ids.MAIN, lambda _: {A: Change("append", ("hub",))})
        if case.branch:
            create_branch(before, DEV, ids.MAIN, None)
        if case.renames:
            write(before, DEV, lambda _: {A: Change("append", (BASE,))})
        programs = {
            f"{number}-{name}": _program(run, f"{number}-{name}", (OPERATIONS | RENAMES)[name])
            for number, name in enumerate(case.operations)
        }
        with scheduled(run.world, schedule):
            schedule.run(programs)
        run.world.let_late_requests_happen()
        found = list(_violations(run, case))
    return [f"{case}: {problem}\n  " + "\n  ".join(schedule.trace) for problem in found]


def _program(run: Play, name: str, operation: Operation) -> Callable[[], None]:
    def program() -> None:
        try:
            done = operation(run.store(name), name)
            run.told[name] = "done" if done is not None else "nothing to do"
        except Killed:
            run.told[name] = "unknown"
        except (OutcomeUnknown, RecoveryRequired):
            run.told[name] = "unknown"
        except OmniGraphError as error:
            run.told[name] = f"refused: {error}"
        except BaseException as error:
            run.told[name] = f"failed: {type(error).__name__}: {error}"

    return program


def _violations(run: Play, case: Case) -> Iterator[str]:
    for name, told in run.told.items():
        if told.startswith("failed"):
            yield f"{name} {told}"
    after = run.store("after")
    try:
        for key in (A, B):
            write(after, ids.MAIN, lambda _, key=key: {key: Change("append", (f"after {key}",))})  # type: ignore[misc]
        sweep.sweep(after, strict=True)
        yield from _wrong_rows(run, after, case, ids.MAIN, [name for name in case.operations if name in ON_MAIN])
        yield from _wrong_together(run, after, case)
        yield from _names(run, after, case) if case.renames else _branch(run, after, case)
    except Exception as error:
        yield f"blocked: {type(error).__name__}: {error}"
    if any(path.startswith("__recovery/") for path in run.world.objects):
        yield "a record is left"


def _wrong_rows(run: Play, after: SimulatedStore, case: Case, branch: str, names: list[str]) -> Iterator[str]:
    shown = sum((rows_of(after, branch, key) for key in (A, B)), Counter[str]())
    yield from _unexplained(run, case, shown, branch, names)


def _unexplained(run: Play, case: Case, shown: Counter[str], branch: str, names: list[str]) -> Iterator[str]:
    for number, name in enumerate(case.operations):
        mark = f"{number}-{name}"
        if name not in names:
            continue
        count, whole, told = shown[mark], 2 if name == "append_both" else 1, run.told[mark]
        expected = {"done": (whole,), "unknown": (0, whole)}.get(told, (0,))
        if count not in expected:
            yield f"{mark} was told '{told}' and is there {count} times on {branch}"


def _wrong_together(run: Play, after: SimulatedStore, case: Case) -> Iterator[str]:
    a, b = rows_of(after, ids.MAIN, A), rows_of(after, ids.MAIN, B)
    if any(row.startswith("edge ") for row in b) and not a["hub"]:
        yield "an edge lacks its node"
    counts = [row for row in a if row.startswith("count ")]
    marks = sum(1 for row in a if row.endswith("-increment"))
    if (marks and counts != [f"count {marks}"]) or (not marks and counts):
        yield f"{marks} increments left {counts}"


def _branch(run: Play, after: SimulatedStore, case: Case) -> Iterator[str]:
    """The branch is readable and writable if it is there; a new one can be made if it is not.

    A row on a branch that somebody deletes or renews may be gone with it. Otherwise it counts like one on main.
    """
    if not any(name in ON_BRANCH for name in case.operations):
        return
    try:
        after.branch_ref(DEV)
    except BranchNotFound:
        create_branch(after, DEV, ids.MAIN, None)
    else:
        removing = {"drop_dev", "renew_dev"} & set(case.operations)
        if not removing:
            yield from _wrong_rows(run, after, case, DEV, ["append_dev", "make_dev"])
        if case.operations.count("renew_dev") == 1 and not {"drop_dev"} & set(case.operations):
            yield from _wrong_rows(run, after, case, DEV, ["renew_dev"])
    write(after, DEV, lambda _: {A: Change("append", ("after dev",))})
    if rows_of(after, DEV, A)["after dev"] != 1:
        yield "a write to the branch is not there"


def _names(run: Play, after: SimulatedStore, case: Case) -> Iterator[str]:
    """A branch that is renamed is there under one name, with its rows; each name has one branch or can get one."""
    there = [ref.name for ref in after.branch_refs() if ref.name != ids.MAIN]
    if sorted(there) != [name for name in (ASIDE, DEV, MOVED) if after.has_branch(name)]:
        yield f"the listing shows {there}"
    if not {"drop_dev", "renew_dev"} & set(case.operations):
        shown = sum((rows_of(after, name, key) for name in there for key in (A, B)), Counter[str]())
        yield from _unexplained(run, case, shown, "some branch", [*ON_BRANCH, *RENAMES])
        if shown[BASE] != 1:
            yield f"the rows of the branch are there {shown[BASE]} times"
    for name in (DEV, MOVED):
        if name not in there:
            create_branch(after, name, ids.MAIN, None)
        write(after, name, lambda _, name=name: {A: Change("append", (f"after {name}",))})  # type: ignore[misc]
    for name, other in ((DEV, MOVED), (MOVED, DEV)):
        rows = rows_of(after, name, A)
        if (rows[f"after {name}"], rows[f"after {other}"]) != (1, 0):
            yield f"writes to the branches are there as {rows}"


def bounded(switches: tuple[int, ...]) -> Callable[[list[str]], tuple[str, str]]:
    """The first process makes so many steps, then the second so many, then the first, …; then each runs to its end."""
    left, turn = list(switches), [0]

    def choose(ready: list[str]) -> tuple[str, str]:
        while left and (left[0] == 0 or not any(name.startswith(f"{turn[0]}-") for name in ready)):
            left.pop(0)
            turn[0] = 1 - turn[0]
        wanted = [name for name in ready if name.startswith(f"{turn[0]}-")]
        if left:
            left[0] -= 1
        return (wanted or ready)[0], "go"

    return choose


def killing(steps: int, verdict: str, until: int) -> Callable[[list[str]], tuple[str, str]]:
    """The first process is held before a step while the second makes some, and dies there."""
    seen = {"0": 0, "1": 0}

    def choose(ready: list[str]) -> tuple[str, str]:
        first, second = (next((name for name in ready if name.startswith(f"{n}-")), None) for n in "01")
        if first and seen["0"] < steps:
            seen["0"] += 1
            return first, "go"
        if second and (seen["1"] < until or not first):
            seen["1"] += 1
            return second, "go"
        return (first, verdict) if first else (str(second), "go")

    return choose


def randomly(seed: int) -> Callable[[list[str]], tuple[str, str]]:
    """Any process next; sometimes one dies, with or without its request on the way."""
    chance = random.Random(seed)

    def choose(ready: list[str]) -> tuple[str, str]:
        verdict = chance.choices(["go", "kill", "kill in flight"], [200, 1, 1])[0]
        return chance.choice(ready), verdict

    return choose


def steps_of(case: Case, number: int) -> int:
    """How many steps an operation makes when nobody disturbs it."""
    count = [0]

    def choose(ready: list[str]) -> tuple[str, str]:
        chosen = next((name for name in ready if name.startswith(f"{number}-")), ready[0])
        count[0] += chosen.startswith(f"{number}-")
        return chosen, "go"

    play(case, choose)
    return count[0]


__all__ = ["OPERATIONS", "BranchExists", "Case", "bounded", "killing", "play", "randomly", "steps_of"]
