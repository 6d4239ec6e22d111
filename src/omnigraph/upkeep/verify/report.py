"""What `verify` says: which checks ran, over how many things, how long, and every problem as a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from omnigraph import limits


@dataclass(frozen=True, slots=True)
class VerifyCheck:
    """One kind of check over the whole graph.

    Attributes:
        name: stable name; problems carry the same.
        what: what was proven, as a phrase.
        count: how many things of that kind were looked at.
        seconds: time that it took.
    """

    name: str
    what: str
    count: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "what": self.what, "count": self.count, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        check: name of the check that found it.
        branch: graph branch; None when it concerns the whole graph.
        table: table key; None when it concerns no table.
        message: one sentence for a person.
        harmless: it loses nothing and blocks nothing; the next writer or cleanup removes it.
    """

    check: str
    branch: str | None
    table: str | None
    message: str
    harmless: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "branch": self.branch,
            "table": self.table,
            "message": self.message,
            "harmless": self.harmless,
        }

    def line(self) -> str:
        place = " ".join(part for part in (self.branch and f"branch '{self.branch}'", self.table) if part)
        weight = "leftover" if self.harmless else "problem"
        return f"{weight} ({self.check}){f' on {place}' if place else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The answer of `verify`.

    Attributes:
        ok: nothing is wrong; harmless leftovers do not count.
        checks: every kind of check that ran, in order.
        problems: everything that was found, in the order of the checks.
    """

    ok: bool
    checks: tuple[VerifyCheck, ...]
    problems: tuple[Problem, ...]

    def __repr__(self) -> str:
        found = "ok" if not self.problems else f"{'ok' if self.ok else 'not ok'}, {len(self.problems)} problems"
        return f"VerifyReport({found}, {len(self.checks)} checks)"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "ok": self.ok,
            "checks": [check.to_dict() for check in self.checks],
            "problems": [problem.to_dict() for problem in self.problems],
        }

    def lines(self) -> tuple[str, ...]:
        """The report for people: one line a check, then one a problem."""
        found: dict[str, int] = {}
        for problem in self.problems:
            found[problem.check] = found.get(problem.check, 0) + 1
        checks = [
            f"{'!' if check.name in found else 'ok'} {check.name}: {check.what}, {check.count} looked at"
            for check in self.checks
        ]
        return (*checks, *(problem.line() for problem in self.problems))

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Ledger:
    """Gathers counts, times and problems while checks run."""

    def __init__(self, checks: Iterable[tuple[str, str]]) -> None:
        self._what = dict(checks)
        self._counts = dict.fromkeys(self._what, 0)
        self._seconds = dict.fromkeys(self._what, 0.0)
        self._problems: list[Problem] = []

    @contextmanager
    def looking_at(self, check: str, count: int = 1) -> Iterator[None]:
        """Time one part of a check."""
        self._counts[check] += count
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[check] += time.perf_counter() - start

    def add(self, check: str, branch: str | None, table: str | None, message: str, *, harmless: bool = False) -> None:
        self._problems.append(Problem(check, branch, table, message, harmless))

    def extend(self, problems: Iterable[Problem]) -> None:
        self._problems += problems

    @contextmanager
    def attempt(self) -> Iterator[list[Problem]]:
        """Gives the problems that were found inside the block, once it is left."""
        found: list[Problem] = []
        before = len(self._problems)
        try:
            yield found
        finally:
            found += self._problems[before:]

    def take_back(self, found: list[Problem]) -> None:
        """Forget problems of a state that is not the newest any more; they were the last that were found."""
        del self._problems[len(self._problems) - len(found) :]

    def report(self) -> VerifyReport:
        order = list(self._what)
        checks = tuple(
            VerifyCheck(name, what, self._counts[name], self._seconds[name]) for name, what in self._what.items()
        )
        problems = tuple(sorted(self._problems, key=lambda each: order.index(each.check)))
        return VerifyReport(all(problem.harmless for problem in problems), checks, problems)


def lasting(find: Callable[[], list[Problem]]) -> list[Problem]:
    """The problems that are still there after a while, as they were found at first and again each time: some states are
    wrong only while a live writer passes through them."""
    found = find()
    for pause in limits.VERIFY_PATIENCE_SECONDS:
        if not found:
            break
        time.sleep(pause)
        again = set(find())
        found = [problem for problem in found if problem in again]
    return found
