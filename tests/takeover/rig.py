"""A graph on an S3 server, a writer behind a proxy that holds its requests, and one that talks to the server directly.

Both writers are processes that stay. `TakeoverRig.play` runs one case: the first is held at a request, the second takes
over and is told how it ended, the request ends, the first goes on. The next case is played on the same graph, by the
same handles. At the end a third handle must find everything of every case explained, and all must be able to write.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from tests.support.actors import ANSWER_SECONDS, Actor, acting
from tests.support.holding_proxy import Hold, HoldingProxy
from tests.support.ledger import Operation, Values
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
)
from tests.takeover.shown import branches_of, compare
from tests.takeover.writers import ACTOR, SCHEMA, SCHEMA_KINDS, WRITERS, Ground, Need

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

    What a writer is told is judged after every case. Rows and branches are compared when the graph is left and at the
    end, for each case by the marks of its rows; at once after a case that takes away what earlier ones put, and after
    one that is told something wrong. Then the whole graph is proved.

    Attributes:
        thorough: compare also before anybody writes again, let the held writer write on, and delete the branches.
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
    unsound: list[str] = field(default_factory=list)
    _unsettled: list[Case] = field(default_factory=list)
    _third: og.Graph | None = None
    _has_no_branches: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.other = self._start_other()
        self.processes.callback(lambda: self._third.close() if self._third is not None else None)

    def begin(self) -> None:
        """A new test: nothing was played yet, and the first case gets a graph of its own."""
        for noted in (self.played, self.unsound, self._unsettled):
            noted.clear()
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
        number = next(self._numbers)
        case = Case(held, other, hold, mode, Ground(number, _is_based(held, other)))
        case.told = [Told(held, f"a{number}", []), Told(other, f"b{number}", [])]
        self.played.append(case)
        try:
            self._arrange(case)
            self._play(case)
        except (og.OmniGraphError, TimeoutError, AssertionError) as error:
            case.wrong.append(f"the case came to no end: {type(error).__name__}: {error}")
            self._start_anew()
        else:
            first, second = case.told
            case.wrong += first.complaints(overtook=False) + second.complaints(overtook=True)
            self._unsettled.append(case)
        if case.wrong or self._must_settle(case):
            self._settle()
        if case.wrong:
            self.uri = ""
        return case

    def wrong(self) -> str:
        """Everything that went wrong in any case, one line each that repeats it, and the reasons below."""
        return "\n".join([*(str(case) for case in self.played if case.wrong), *self.unsound])

    def _play(self, case: Case) -> None:
        first, second = case.told
        number = case.ground.number
        assert self.held is not None
        with self.proxy.holding(case.hold):
            self.held.tell("run", case.held, number, first.mark, False)
            if not self._is_held():
                first.ends = step_ends(self.held.answer())
                self.held.tell("flush")  # what it does after it answered can be held too
                self._is_held()
            if self.proxy.holds:
                self._stop(case)
            second.ends = step_ends(self.other.ask("run", case.other, number, second.mark, True))
            self.proxy.release(ENDS[case.mode])
            if case.was_stopped_for_good:
                first.ends = first.ends or [StepEnd("unknown", "killed")]
                self._start_again()
            else:
                self._await_end(case, first)

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

    def _arrange(self, case: Case) -> None:
        """A graph with what both writers need; both have it open. The case notes what is there."""
        ground, needs = case.ground, _needs(*case.kinds)
        wants_no_branches = not SCHEMA_KINDS.isdisjoint(case.kinds)
        if not self.uri or wants_no_branches != self._has_no_branches:
            self.prove()
            self.uri, self._has_no_branches = f"{self.root}/{ground.number}", wants_no_branches
            og.init(self.uri, SCHEMA, actor=ACTOR).close()
        elif _wipes_main(case):
            self._settle()
        graph = self._handle(new=False)
        there: dict[str, list[str]] = {}
        if "spare" in needs:
            graph.schema.apply(graph.schema.text + writers.spare_line(ground))
            writers.insert_spare(graph, ground, f"s{ground.number}")
            _add(there, {f"main node:{ground.spare}": [f"s{ground.number}"]})
        for told in case.told:
            if "old" in WRITERS[told.kind].needs:
                writers.insert(graph, writers.old(told.mark))
                _add(there, writers.pair_values(writers.old(told.mark)))
        makes_it = WRITERS[case.held].steps[0].makes == "create"
        if needs & {"branch", "base"} and not makes_it:
            graph.branches.create(ground.branch)
            case.existed = True
            if ground.based:
                writers.insert(graph, ground.base, ground.branch)
                _add(there, ground.on_branch(ground.base))
        case.noted = [Operation("before", there, state="acknowledged")]
        self._open_everywhere()
        if "dead" in needs:
            case.noted.append(Operation("dead", writers.pair_values(f"dead{ground.number}")))
            _leave_a_dead_write(graph, f"dead{ground.number}")

    def _open_everywhere(self) -> None:
        self.ready()
        assert self.held is not None
        opening = [actor for actor in (self.held, self.other) if actor.has_open != self.uri]
        for actor in opening:
            actor.tell("open", self.uri)
        for actor in opening:
            assert actor.answer()["name"] == "done"
            actor.has_open = self.uri

    def _must_settle(self, case: Case) -> bool:
        """Whether the next case cannot be played on what this one leaves."""
        leaves_a_branch = bool({"branch", "base"} & _needs(*case.kinds)) or any(
            step.makes for kind in case.kinds for step in WRITERS[kind].steps
        )
        return _wipes_main(case) or (self._has_no_branches and leaves_a_branch)

    def _settle(self) -> None:
        """A new handle sees what was acknowledged, writes to every table of every branch, and finds nothing wrong."""
        cases, self._unsettled = self._unsettled, []
        if not cases:
            return
        try:
            graph = self._handle(new=True)
            if self.thorough:
                compare(graph, cases)
                self._go_on_writing(cases[-1])
            names = graph.branches.list()
            for case in cases:
                case.wrong += branch_violations(case.ground, case.told, case.existed, case.ground.branch in names)
                for branch in branches_of(names, case.ground):
                    self._write_to(graph, case, branch)
            self._write_to(graph, cases[-1], "main")
            compare(graph, cases)
            for case in cases if self.thorough or self._has_no_branches else ():
                for branch in branches_of(names, case.ground):
                    graph.branches.delete(branch)
        except (og.OmniGraphError, TimeoutError) as error:
            cases[-1].wrong.append(f"what {len(cases)} cases left cannot be used: {type(error).__name__}: {error}")
        if any(case.wrong for case in cases):
            self.uri = ""

    def _go_on_writing(self, case: Case) -> None:
        """The held writer is alive and writes at once, with the handle that it has."""
        if self.held is None or self.held.has_open != self.uri:
            return
        mark = f"w{case.ground.number}"
        end = step_ends(self.held.ask("run", "insert", case.ground.number, mark, True))[0]
        self.held.ask("flush")
        done = end.state == "acknowledged"
        case.noted.append(Operation(mark, writers.pair_values(mark), state="acknowledged" if done else "started"))
        if not done:
            case.wrong.append(f"the held writer cannot write any more: {end.name}: {end.text}")

    def _write_to(self, graph: og.Graph, case: Case, branch: str) -> None:
        mark = f"c{case.ground.number}" if branch == "main" else f"c{branch}@"
        place, tables = branch.partition("-")[0], ("node:Person", "edge:Knows", "node:Company")
        try:
            writers.write_all(graph, mark, branch)
        except og.OmniGraphError as error:
            case.wrong.append(f"a write to {branch} fails: {type(error).__name__}: {error}")
            return
        values = {f"{place} {table}": [mark] for table in tables}
        case.noted.append(Operation(f"{branch} {mark}", values, state="acknowledged"))

    def _handle(self, *, new: bool) -> og.Graph:
        """A handle that neither of the two has; what proves something wants a new one."""
        if self._third is None or new or self._third.uri != self.uri:
            if self._third is not None:
                self._third.close()
            self._third = og.open(self.uri, actor=ACTOR)
        return self._third

    def prove(self) -> None:
        """What the cases left, and what recovery, the graph's own proof and an export of every branch find.

        The graph of a wrong case was left.
        """
        self._settle()
        if not self.uri:
            return
        try:
            with og.open(self.uri, actor=ACTOR) as graph:
                graph.recover()
                report = graph.verify()
                self.unsound += [f"verify: {problem}" for problem in report.problems if not problem.harmless]
                for branch in graph.branches.list():
                    graph.export(branch=branch)
        except og.OmniGraphError as error:
            self.unsound.append(f"the proof fails: {type(error).__name__}: {error}")

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
        self.prove()
        assert not self.wrong(), f"\n{self.wrong()}\nafter {len(self.played)} cases, the last: {self.played[-1]}"


def _needs(*kinds: str) -> frozenset[Need]:
    return frozenset().union(*(WRITERS[kind].needs for kind in kinds))


def _is_based(held: str, other: str) -> bool:
    """Whether the branch of a case has rows of its own: not if a writer is to make it, or to write to it first."""
    needs = _needs(held, other)
    return "base" in needs and "branch" not in needs and WRITERS[held].steps[0].makes != "create"


def _wipes_main(case: Case) -> bool:
    return any("main" in step.wipes for kind in case.kinds for step in WRITERS[kind].steps)


def _add(there: dict[str, list[str]], values: Values) -> None:
    for table, marks in values.items():
        there.setdefault(table, []).extend(marks)


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
