"""Writes that are sure to be published together: the commit section is held until all of them stand in line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.write import group_commit
from tests.support.waiting import wait_until


def together(graph: og.Graph, writes: Sequence[Callable[[], Any]], branch: str = "main") -> list[Any]:
    """Run writes at once; what each returned or raised, in their order.

    The first one goes alone, because it finds nobody to lead it; it has to be one that reaches the section. The others
    stand in line behind it, in their order.
    """
    store = graph.internals.store
    line = group_commit._line_of(store, branch)
    outcomes: list[Any] = [None] * len(writes)

    def run(number: int) -> None:
        try:
            outcomes[number] = writes[number]()
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(writes))]
    with patience(60), store.sections.hold(branch):
        for number, thread in enumerate(threads):
            thread.start()
            _await(line, number)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return outcomes


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Inside, a leader may take so long before the next one goes on without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LINE_SECONDS", seconds)
        yield


def _await(line: group_commit._Line, number: int) -> None:
    """Return when the first write leads, and so many wait behind it."""
    wait_until(
        lambda: line.leader is not None and len(line._waiting) == number,
        timeout=20,
        what="a write to stand in line",
        pause=0.001,
    )
