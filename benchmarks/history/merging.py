"""Merging few changes into graphs of two sizes, and the way over a branch against writing directly."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import fsync, new_graph, people, settle
from omnigraph.write.change import Change, Mode

LARGE, SMALL = 1_000_000, 10_000
CHANGES = 100
NEW = 10  # of the changed rows, how many are new
ROUNDS = 15


def large_graph_against_small(options: Options) -> list[Row]:
    """Source and target both moved, so this is a real merge. Without fsync: the question is what we compute."""
    sizes = {"large": options.size(LARGE, 2_000), "small": options.size(SMALL, 1_000)}
    with fsync(False):
        graphs = {name: new_graph(options, f"merge-{name}", rows, indexed=True) for name, rows in sizes.items()}
        taken = in_turns(
            {name: _merging(graph, sizes[name]) for name, graph in graphs.items()}, options.size(ROUNDS, 2)
        )
    return [
        Row(
            f"merge of {CHANGES} changed rows into {sizes['large']:,}",
            taken["large"].median,
            taken["small"].median,
            f"into {sizes['small']:,} rows",
            goal=Goal(2),
        )
    ]


def branch_and_merge_against_a_commit(options: Options) -> list[Row]:
    """Make a branch, change rows there, merge it, against committing the same changes directly."""
    rows = options.size(SMALL * 10, 1_000)
    with fsync(False):
        graph = new_graph(options, "merge-way", rows, indexed=True)
        taken = in_turns(
            {"branch": _over_a_branch(graph, rows), "direct": _directly(graph, rows)}, options.size(ROUNDS, 2)
        )
    return [
        Row(
            f"branch + {CHANGES} changed rows + merge",
            taken["branch"].median,
            taken["direct"].median,
            "the same changes committed directly",
            goal=Goal(4),
        )
    ]


def _changes(rows: int, numbers: Callable[[], int]) -> Change:
    """Some rows of the table with new values, and some new ones."""
    number = numbers()
    start = number * CHANGES % (rows - CHANGES)
    old = people(range(start, start + CHANGES - NEW))
    old = old.set_column(2, "age", pa.array(np.full(old.num_rows, 100 + number, np.int32)))
    fresh = people(range(10_000_000 + number * NEW, 10_000_000 + (number + 1) * NEW))
    return Change("node:Person", pa.concat_tables([old, fresh]), Mode.MERGE)


def _merging(graph: og.Graph, rows: int) -> Action:
    numbers = count(1).__next__
    made: list[str] = []

    def before() -> None:
        made.append(f"work-{len(made)}")
        graph.branches.create(made[-1])
        graph.write([_changes(rows, numbers)], branch=made[-1])
        graph.write([Change("node:Person", people(range(20_000_000 + len(made), 20_000_001 + len(made))))])
        settle(graph)

    def run() -> None:
        result = graph.branches.merge(made[-1])
        if result.outcome != "merged" or result.tables["node:Person"].updated + NEW != CHANGES:
            raise AssertionError(f"not the merge that was to be measured: {result}")

    def after() -> None:
        settle(graph)
        graph.branches.delete(made[-1])

    return Action(run, before, after)


def _over_a_branch(graph: og.Graph, rows: int) -> Action:
    numbers = count(1).__next__
    waiting: list[Change] = []
    made: list[str] = []

    def before() -> None:
        waiting[:] = [_changes(rows, numbers)]
        made.append(f"work-{len(made)}")

    def run() -> None:
        graph.branches.create(made[-1])
        graph.write(waiting, branch=made[-1])
        graph.branches.merge(made[-1])

    def after() -> None:
        settle(graph)
        graph.branches.delete(made[-1])

    return Action(run, before, after)


def _directly(graph: og.Graph, rows: int) -> Action:
    numbers = count(100_000).__next__
    waiting: list[Change] = []

    def before() -> None:
        waiting[:] = [_changes(rows, numbers)]

    return Action(lambda: graph.write(waiting), before, lambda: settle(graph))
