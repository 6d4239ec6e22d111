"""Small graphs for the storage measures, and the verbs they share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from benchmarks.measure import Action
from benchmarks.options import Options
from omnigraph.write.change import Change, Mode

ROUNDS = 60

PEOPLE = "node Person { handle: String @key  name: String  age: I32? }\n"


def people(numbers: range) -> pa.Table:
    """Rows of `PEOPLE`, one per number; the number decides everything about a row."""
    values = np.arange(numbers.start, numbers.stop)
    text = pa.array(np.char.mod("%08d", values))
    return pa.table(
        {
            "handle": _joined("person-", text),
            "name": _joined("Name of ", text),
            "age": pa.array((values % 90).astype(np.int32)),
        }
    )


def _joined(prefix: str, text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix), text.cast(pa.string()), "")


def person(number: int, mode: Mode = Mode.APPEND, type_name: str = "Person") -> Change:
    """A change that puts one row."""
    return Change(f"node:{type_name}", people(range(number, number + 1)), mode)


def new_graph(options: Options, name: str, rows: int = 0, *, indexed: bool = False) -> og.Graph:
    """A graph with one table of that many people."""
    graph = og.init(options.place / name, PEOPLE)
    if rows:
        graph.write([Change("node:Person", people(range(rows)))])
    if indexed:
        graph.ensure_indices()
    return graph


def graph_with_history(options: Options, commits: int) -> og.Graph:
    """A graph that has seen this many one-row commits; made by the first who asks in a run."""
    place = options.place / f"history-{commits}"
    if place.exists():
        return og.open(place)
    graph = og.init(place, PEOPLE)
    for number in range(commits):
        graph.write([person(number)])
    settle(graph)
    return graph


def settle(graph: og.Graph) -> None:
    """Let the copies that follow a commit in the background finish, so that they disturb nobody's time."""
    graph._store.mirror.flush()


def committing(graph: og.Graph, changes: Callable[[], list[Change]]) -> Action:
    """Commit what ``changes`` gives; it is asked before the time is taken."""
    waiting: list[list[Change]] = []
    return Action(
        before=lambda: waiting.append(changes()),
        run=lambda: graph.write(waiting.pop()),
        after=lambda: settle(graph),
    )


def fresh_numbers(start: int = 10_000_000) -> Callable[[], int]:
    """Numbers that no row of a graph has yet."""
    return count(start).__next__


@contextmanager
def fsync(on: bool) -> Iterator[None]:
    """Whether local commits are synced to the disk inside the block."""
    before = os.environ.get("OMNIGRAPH_FSYNC")
    os.environ["OMNIGRAPH_FSYNC"] = "1" if on else "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMNIGRAPH_FSYNC"]
        else:
            os.environ["OMNIGRAPH_FSYNC"] = before
