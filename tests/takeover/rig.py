"""A graph on an S3 server, a writer behind a proxy that holds its requests, and one that talks to the server directly.

Both writers are processes that stay. `TakeoverRig.play` runs one case: the first is held at a request, the second takes
over and is told how it ended, the request ends, the first goes on. Then a third handle must find everything explained
and must be able to write everywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from tests.support.actors import ANSWER_SECONDS, Actor, acting
from tests.support.holding_proxy import Hold, HoldingProxy
from tests.support.ledger import Operation
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_until
from tests.takeover import writers
from tests.takeover.case import (
    ENDS,
    FATAL,
    Case,
    Mode,
    StepEnd,
    Told,
    branch_violations,
    ledger_violations,
    operations,
)
from tests.takeover.writers import ACTOR, SCHEMA, SCHEMA_KINDS, WRITERS, Ground

CHILD = "tests.takeover.child"

#: How long the turn of each writer lasts. That of the held one is short, so that nobody waits long for it; the other
#: one is never held, and must not lose its turn because the machine is slow.
HELD_SECONDS, OTHER_SECONDS = "0.5", "5"

#: How often a case is played whose writer lost its turn before it was held.
ATTEMPTS = 5

#: Requests of one operation at most; a sweep that comes here does not end.
MOST = 200


@dataclass(slots=True)
class TakeoverRig:
    """Plays cases one after another, on one graph as long as nothing is wrong with it.

    Attributes:
        thorough: prove the whole graph after every case, and not only its rows.
    """

    server: S3Server | None
    root: str
    proxy: HoldingProxy
    address: str
    processes: ExitStack
    thorough: bool = True
    uri: str = ""
    held: Actor | None = None
    other: Actor = field(init=False)
    played: list[Case] = field(default_factory=list)
    _third: og.Graph | None = None
    _has_no_branches: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.other = self._start_other()
        self.processes.callback(lambda: self._third.close() if self._third is not None else None)

    def begin(self) -> None:
        """A new test: nothing was played yet, and the first case gets a graph of its own."""
        self.played.clear()
        self.uri = ""
        if self.server is not None and self.server.is_slow_when_full:
            self.server.reset()

    def ready(self) -> None:
        """The process that is to be held is there."""
        if self.held is None:
            self._start_again()

    def play_at(self, held: str, other: str, hold: Hold, mode: Mode = "late") -> Case:
        """One case whose request must come."""
        case = self._play_in_time(held, other, hold, mode)
        assert case.request or case.wrong, f"{held} makes no request that matches {hold}: {case}"
        return case

    def sweep(self, held: str, other: str, mode: Mode = "late", **which: Any) -> int:
        """Hold the first request, the second, and so on until there are no more; returns how many there were."""
        for number in range(1, MOST):
            case = self._play_in_time(held, other, Hold(number, **which), mode)
            if not case.request and not case.wrong:
                assert number > 1, f"{held} makes no request that matches: {case}"
                return number - 1
        raise AssertionError(f"{held} makes more than {MOST} requests")

    def _play_in_time(self, held: str, other: str, hold: Hold, mode: Mode) -> Case:
        """On a busy machine a turn may end before the request comes; then the case is played again."""
        for _ in range(ATTEMPTS):
            case = self.play(held, other, hold, mode)
            if case.request or case.wrong or all(end.name != "LockTimeout" for end in case.told[0].ends):
                break
        return case

    def play(self, held: str, other: str, hold: Hold, mode: Mode = "late") -> Case:
        """One case. Without a request that matches, the writers come one after the other and nothing is held."""
        case = Case(held, other, hold, mode)
        self.played.append(case)
        ground = Ground(next(self._numbers))
        try:
            self._play(case, ground, hold)
        except (og.OmniGraphError, TimeoutError, AssertionError) as error:
            case.wrong.append(f"the case came to no end: {type(error).__name__}: {error}")
            self._start_anew()
        if case.wrong:
            self.uri = ""
        return case

    def wrong(self) -> str:
        """Everything that went wrong in any case, one line each that repeats it, and the reasons below."""
        return "\n".join(str(case) for case in self.played if case.wrong)

    def _play(self, case: Case, ground: Ground, hold: Hold) -> None:
        first, second = Told(case.held, f"a{ground.number}", []), Told(case.other, f"b{ground.number}", [])
        noted = self._arrange(ground, first, second)
        case.told = [first, second]
        assert self.held is not None
        with self.proxy.holding(hold):
            self.held.tell("run", case.held, ground.number, first.mark, False)
            if not self._is_held():
                first.ends = step_ends(self.held.answer())
                self.held.tell("flush")  # what it does after it answered can be held too
                self._is_held()
            if self.proxy.holds:
                self._stop(case)
            second.ends = step_ends(self.other.ask("run", case.other, ground.number, second.mark, True))
            self.proxy.release(ENDS[case.mode])
            if case.mode in FATAL and case.request:
                first.ends = first.ends or [StepEnd("unknown", "killed")]
                self._start_again()
            else:
                self._await_end(case, first)
        if self.thorough and not (case.mode in FATAL and case.request):
            noted += self._go_on_writing(case, ground)
        case.wrong += first.complaints(overtook=False) + second.complaints(overtook=True)
        self._check(case, ground, noted)

    def _is_held(self) -> bool:
        """Wait until the request is held, or the writer is through without it."""
        assert self.held is not None
        actor = self.held
        wait_until(
            lambda: self.proxy.holds or actor.has_answered,
            timeout=ANSWER_SECONDS,
            what="the writer to come to its request",
            pause=0.002,
        )
        return self.proxy.holds

    def _stop(self, case: Case) -> None:
        assert self.held is not None
        case.request = self.proxy.asked_for
        if case.mode in FATAL:
            self.held.kill()
        elif case.mode == "stopped":
            self.held.stop()

    def _await_end(self, case: Case, first: Told) -> None:
        """The held writer goes on, and has nothing under way any more."""
        assert self.held is not None
        if case.mode == "stopped" and case.request:
            self.held.go_on()
        if not first.ends:
            first.ends = step_ends(self.held.answer())
            self.held.tell("flush")
        self.held.answer()

    def _go_on_writing(self, case: Case, ground: Ground) -> list[Operation]:
        """The held writer is alive and writes at once, with the handle that it has."""
        assert self.held is not None
        mark = f"w{ground.number}"
        end = step_ends(self.held.ask("run", "insert", ground.number, mark, True))[0]
        self.held.ask("flush")
        if end.state != "acknowledged":
            case.wrong.append(f"the held writer cannot write any more: {end.name}: {end.text}")
            return [Operation(mark, writers.pair_values(mark))]
        return [Operation(mark, writers.pair_values(mark), state="acknowledged")]

    def _arrange(self, ground: Ground, *told: Told) -> list[Operation]:
        """A graph with what both writers need; both have it open. Returns what is there, as operations."""
        wants_no_branches = bool({each.kind for each in told} & SCHEMA_KINDS)
        if not self.uri or wants_no_branches != self._has_no_branches:
            self.uri, self._has_no_branches = f"{self.root}/{ground.number}", wants_no_branches
            og.init(self.uri, SCHEMA, actor=ACTOR).close()
        needs = frozenset().union(*(WRITERS[each.kind].needs for each in told))
        graph = self._handle(new=False)
        for each in told:
            if "old" in WRITERS[each.kind].needs:
                writers.insert(graph, writers.old(each.mark))
        if "spare" in needs:
            graph.schema.apply(graph.schema.text + writers.spare_line(ground))
            writers.insert_spare(graph, ground, f"s{ground.number}")
        makes_it = WRITERS[told[0].kind].steps[0].makes == "create"
        if needs & {"branch", "base"} and not makes_it:
            graph.branches.create(ground.branch)
            if "base" in needs and "branch" not in needs:
                writers.insert(graph, ground.base, ground.branch)
        self.ready()
        assert self.held is not None
        opening = [actor for actor in (self.held, self.other) if actor.has_open != self.uri]
        for actor in opening:
            actor.tell("open", self.uri)
        before = writers.present(graph, ground)
        for actor in opening:
            assert actor.answer()["name"] == "done"
            actor.has_open = self.uri
        noted = [Operation("before", before, state="acknowledged")]
        if "dead" in needs:
            noted.append(Operation("dead", writers.pair_values(f"dead{ground.number}")))
            _leave_a_dead_write(graph, f"dead{ground.number}")
        return noted

    def _check(self, case: Case, ground: Ground, noted: list[Operation]) -> None:
        """A new handle sees what was acknowledged, writes to every table of every branch, and finds nothing wrong."""
        before = dict(noted[0].adds)
        noted += operations(ground, case.told, before)
        graph = self._handle(new=True)
        if self.thorough:
            case.wrong += _unexplained(graph, ground, noted)
        existed = any(name.startswith(f"{ground.branch} ") for name in before)
        case.wrong += branch_violations(ground, case.told, existed, ground.branch in graph.branches.list())
        for branch in writers.branches(graph, ground):
            case.wrong += self._write_to(graph, branch, f"c{ground.number}", noted)
        if self.thorough:
            self._try(case, "recover fails", graph.recover)
            case.wrong += self.proof(graph)
        self._try(case, "a read fails", lambda: case.wrong.extend(_unexplained(graph, ground, noted)))
        if (self.thorough or self._has_no_branches) and ground.branch in graph.branches.list():
            self._try(case, "the branch cannot be deleted", lambda: graph.branches.delete(ground.branch))

    def _handle(self, *, new: bool) -> og.Graph:
        """A handle that neither of the two has; what proves something wants a new one."""
        if self._third is None or new or self._third.uri != self.uri:
            if self._third is not None:
                self._third.close()
            self._third = og.open(self.uri, actor=ACTOR)
        return self._third

    def _write_to(self, graph: og.Graph, branch: str, mark: str, noted: list[Operation]) -> list[str]:
        mark = mark if branch == "main" else f"{mark}@"
        tables = ("node:Person", "edge:Knows", "node:Company")
        try:
            writers.write_all(graph, mark, branch)
        except og.OmniGraphError as error:
            return [f"a write to {branch} fails: {type(error).__name__}: {error}"]
        noted.append(
            Operation(f"{branch} {mark}", {f"{branch} {table}": [mark] for table in tables}, {}, "acknowledged")
        )
        return []

    def proof(self, graph: og.Graph) -> list[str]:
        """What the graph's own proof and an export of every branch find."""
        wrong: list[str] = []
        try:
            report = graph.verify()
            wrong += [f"verify: {problem}" for problem in report.problems if not problem.harmless]
            for branch in graph.branches.list():
                graph.export(branch=branch)
        except og.OmniGraphError as error:
            wrong.append(f"the proof fails: {type(error).__name__}: {error}")
        return wrong

    def _try(self, case: Case, what: str, run: Callable[[], object]) -> None:
        try:
            run()
        except og.OmniGraphError as error:
            case.wrong.append(f"{what}: {type(error).__name__}: {error}")

    def _start_anew(self) -> None:
        """Both processes: what either of them still has to answer belongs to a case that is over."""
        for actor in filter(None, (self.held, self.other)):
            actor.kill()
        self.held = None
        self.other = self._start_other()

    def _start_other(self) -> Actor:
        assert self.server is not None
        return self.processes.enter_context(acting(CHILD, _env(self.server.endpoint, OTHER_SECONDS)))

    def _start_again(self) -> None:
        self.held = self.processes.enter_context(acting(CHILD, _env(self.address, HELD_SECONDS)))

    def finish(self) -> None:
        """The proof that was put off, and the sentence that fails the test."""
        if self.uri and not self.thorough and not self.wrong():
            with og.open(self.uri, actor=ACTOR) as graph:
                assert self.proof(graph) == [], f"after {[str(case) for case in self.played]}"
        assert not self.wrong(), f"\n{self.wrong()}"


def _unexplained(graph: og.Graph, ground: Ground, noted: list[Operation]) -> list[str]:
    return ledger_violations(noted, writers.present(graph, ground))


def step_ends(answer: list[Mapping[str, str]]) -> list[StepEnd]:
    return [StepEnd(**end) for end in answer]  # type: ignore[arg-type]


def _env(address: str, turn: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": address, "OMNIGRAPH_LEASE_SECONDS": turn, "OMNIGRAPH_LOCK_TIMEOUT": "10"}


def _leave_a_dead_write(graph: og.Graph, mark: str) -> None:
    """A write that stopped between its tables and its publish; nobody heard how it ended."""
    failpoints.arm("write.after_all_table_commits=raise")
    try:
        writers.insert(graph, mark)
    except RecoveryRequired:
        return
    finally:
        failpoints.arm("")
    raise AssertionError("the write did not stop")


@contextmanager
def takeover_rig(server: S3Server, root: str, *, thorough: bool = True) -> Iterator[TakeoverRig]:
    """Two processes and a proxy for the length of the block; at its end everything that was wrong fails the test."""
    proxy = HoldingProxy(server.endpoint)
    with proxy.serve() as address, ExitStack() as processes:
        yield TakeoverRig(server, root, proxy, address, processes, thorough)
