"""Results and how they are shown: measure | ours | peer | ratio | goal | met?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

HEADINGS = ("measure", "ours", "peer", "ratio", "goal", "met?")

_TIME_UNITS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))


@dataclass(frozen=True, slots=True)
class Goal:
    """The ratio of ours to the peer's that is wanted: at most this, or with ``below`` less than this."""

    limit: float
    below: bool = False

    def holds(self, ratio: float) -> bool:
        return ratio < self.limit if self.below else ratio <= self.limit

    def __str__(self) -> str:
        return f"{'<' if self.below else '≤'} {self.limit:g}×"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes:
        ours: the figure of OmniGraph; None when it could not be measured.
        peer_name: whom ``peer`` belongs to; also a smaller or younger graph of ours.
        unit: ``s`` for times, otherwise the name of what is counted.
        note: what a reader should know besides.
    """

    measure: str
    ours: float | None
    peer: float | None
    peer_name: str
    unit: str = "s"
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.ours is not None and self.peer else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None when there is none or a figure is missing."""
        if self.goal is None or self.ratio is None:
            return None
        return self.goal.holds(self.ratio)

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return "–"
        if self.ratio is None:
            return "not measured"
        return "yes" if self.met else f"NO, by {self.ratio / self.goal.limit - 1:.0%}"

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}×"
        peer = f"{_figure(self.peer, self.unit)} {self.peer_name}"
        goal = str(self.goal) if self.goal else ""
        return (self.measure, _figure(self.ours, self.unit), peer, ratio, goal, self.verdict)

    def as_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "ours": self.ours,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "unit": self.unit,
            "ratio": self.ratio,
            "goal": str(self.goal) if self.goal else None,
            "met": self.met,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Grid:
    """A plain table beside the comparisons, such as the storage calls of one operation."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What one part measured."""

    part: str
    rows: tuple[Row, ...]
    grids: tuple[Grid, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def missed(self) -> list[Row]:
        """Goals that are not met, or could not be measured."""
        return [row for row in self.rows if row.goal is not None and not row.met]

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "facts": dict(self.facts),
            "rows": [row.as_json() for row in self.rows],
            "grids": [
                {"title": grid.title, "headings": grid.headings, "lines": [list(line) for line in grid.lines]}
                for grid in self.grids
            ],
        }


def show(report: Report, console: Console) -> None:
    """Print a report, and at its end every goal that was missed and by how much."""
    console.print(_table(report.part, HEADINGS, [row.cells() for row in report.rows]))
    for row in report.rows:
        if row.note:
            console.print(f"  {row.measure}: {row.note}", style="dim", highlight=False)
    for grid in report.grids:
        console.print(_table(grid.title, grid.headings, grid.lines))
    for name, value in report.facts:
        console.print(f"  {name}: {value}", style="dim", highlight=False)
    for row in report.missed:
        console.print(f"goal missed: {row.measure}, {row.verdict} ({row.peer_name})", style="bold red", highlight=False)


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for the documentation."""
    return "\n".join([_line(headings), "|" + "---|" * len(headings), *(_line(line) for line in lines)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _table(title: str, headings: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number == 0 else "right", overflow="fold")
    for line in lines:
        table.add_row(*line, style="bold red" if line[-1].startswith("NO") else None)
    return table


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit != "s":
        return f"{value:,.0f} {unit}"
    _, name, factor = next(step for step in _TIME_UNITS if value >= step[0])
    return f"{value * factor:.3g} {name}"
