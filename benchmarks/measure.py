"""Takes times fairly: actions take turns, the garbage collector rests, medians count.

Two things are only compared when they were measured in turns in one run, so that a slow minute of the machine hits
both. Work around an action (`before`, `after`) is not timed.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WARM_UP = 3


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Action:
    """Something to time, and what has to happen around it untimed."""

    run: Callable[[], Any]
    before: Callable[[], Any] = _nothing
    after: Callable[[], Any] = _nothing


@dataclass(frozen=True, slots=True)
class Samples:
    """Times of one action, in seconds, in the order in which they were taken."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)


def in_turns(actions: Mapping[str, Action], rounds: int, warm_up: int = WARM_UP) -> dict[str, Samples]:
    """Run A, B, A, B, … and return the times of each, without those of the first rounds."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    with no_garbage_collection():
        for number in range(warm_up + rounds):
            for name, action in actions.items():
                elapsed = _time(action)
                if number >= warm_up:
                    taken[name].append(elapsed)
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


def seconds_of(run: Callable[[], Any]) -> float:
    """How long one call takes."""
    return _time(Action(run))


def _time(action: Action) -> float:
    action.before()
    started = time.perf_counter()
    action.run()
    elapsed = time.perf_counter() - started
    action.after()
    return elapsed


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect now, and not again until the block ends."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
