"""How far a long operation is: events, and reporters that show them.

An operation says what it does through a function that takes `Progress`. On a terminal that is a bar, elsewhere plain
lines; nothing is shown unless somebody asked or is looking at a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO, TypeAlias


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of an operation.

    Attributes:
        stage: what is being done, such as ``read``, ``check``, ``commit`` or ``index``.
        rows: rows that this stage is done with.
        total: rows that it will be done with, if that is known.
        seconds: since the stage began.
        share: how much of the stage is done, from 0 to 1, if that is known.
        finished: the last event of its stage.
    """

    stage: str
    rows: int = 0
    total: int | None = None
    seconds: float = 0.0
    share: float | None = None
    finished: bool = False

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


ProgressListener: TypeAlias = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Shows nothing."""


def plain_lines(target: TextIO) -> ProgressListener:
    """One line when a stage ends, for logs."""

    def report(progress: Progress) -> None:
        if progress.finished:
            target.write(f"{describe(progress)}\n")
            target.flush()

    return report


def describe(progress: Progress) -> str:
    """``read     2,400,000 rows in 3.1 s (774,194 rows/s)``"""
    if not progress.rows:
        return f"{progress.stage:8} {progress.seconds:.1f} s"
    return f"{progress.stage:8} {progress.rows:,} rows in {progress.seconds:.1f} s ({progress.rate:,.0f} rows/s)"


@contextmanager
def reporter(wanted: bool | ProgressListener | None, target: TextIO | None = None) -> Iterator[ProgressListener]:
    """Where an operation sends its events.

    Args:
        wanted: a function of the caller's; True to show, False not to; None shows a bar if somebody can see it.
        target: where to show, by default the standard error.
    """
    target = target if target is not None else sys.stderr
    is_seen = target.isatty()
    if callable(wanted):
        yield wanted
    elif wanted is False or (wanted is None and not is_seen):
        yield silent
    elif is_seen:
        with _bar(target) as report:
            yield report
    else:
        yield plain_lines(target)


@contextmanager
def _bar(target: TextIO) -> Iterator[ProgressListener]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:8}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
    with Bars(*columns, console=Console(file=target)) as bars:
        tasks: dict[str, TaskID] = {}

        def report(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=1.0, note="")
            note = f"{progress.rows:,} rows, {progress.rate:,.0f}/s" if progress.rows else ""
            done = 1.0 if progress.finished else progress.share
            bars.update(tasks[progress.stage], completed=done, note=note)

        yield report


class Stage:
    """Times one stage and tells about it."""

    def __init__(self, name: str, report: ProgressListener, timings: dict[str, float]) -> None:
        self.name = name
        self.rows = 0
        self.elsewhere = 0.0  # seconds within this stage that belong to another one
        self._report = report
        self._timings = timings
        self._began = time.perf_counter()

    def __enter__(self) -> Stage:
        self._began = time.perf_counter()
        self.tell()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        seconds = time.perf_counter() - self._began - self.elsewhere
        self._timings[self.name] = self._timings.get(self.name, 0.0) + seconds
        if kind is None:
            self._report(Progress(self.name, self.rows, self.rows, seconds, 1.0, finished=True))

    def tell(self, share: float | None = None) -> None:
        self._report(Progress(self.name, self.rows, None, time.perf_counter() - self._began, share))


@contextmanager
def watched(share: Callable[[], float | None], stage: Stage, every: float = 0.5) -> Iterator[None]:
    """Tell every so often how much of a stage is done while a call that cannot tell is running."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            stage.tell(share())

    thread = threading.Thread(target=watch, name="omnigraph-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
