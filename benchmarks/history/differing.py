"""Differences of few rows against comparing the whole table, on one branch and across two."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import fsync, new_graph, people, settle
from omnigraph.storage.delta import Method, table_delta
from omnigraph.write.change import Change, Mode

ROWS = 1_000_000
CHANGES = 100
ROUNDS = 7


def few_changes_against_a_full_comparison(options: Options) -> list[Row]:
    """The changed rows lie scattered over the table. Both ways read the images of what changed."""
    rows = options.size(ROWS, 5_000)
    with fsync(False):
        graph = new_graph(options, "diff", rows, indexed=True)
        base = graph.commits.head().id
        graph.branches.create("side")
        _change(graph, rows, "main", 1)
        _change(graph, rows, "side", 2)
        settle(graph)
    return [
        _measured(options, graph, "along a branch", base, "main", CHANGES, rows),
        _measured(options, graph, "across branches", "main", "side", 2 * CHANGES, rows),
    ]


def _measured(options: Options, graph: og.Graph, how: str, from_: str, to: str, changes: int, rows: int) -> Row:
    """Each time on a handle of its own, because a graph remembers its last comparisons."""
    opened: list[og.Graph] = []

    def diff() -> None:
        _require(sum(1 for _ in opened[-1].diff(from_, to)), changes)

    def compare() -> None:
        before, after = (_state(opened[-1], each).tables["node:Person"] for each in (from_, to))
        delta = table_delta(opened[-1]._store.tables, before, after, method=Method.FULL)
        _require(delta.before(delta.updated).num_rows, changes)
        _require(delta.after(delta.updated).num_rows, changes)

    def open_again() -> None:
        opened.append(og.open(graph.uri, mode="ro"))

    actions = {"diff": Action(diff, before=open_again), "full": Action(compare, before=open_again)}
    taken = in_turns(actions, options.size(ROUNDS, 2), warm_up=1)
    return Row(
        f"diff of {changes} changed rows in {rows:,}, {how}",
        taken["diff"].median,
        taken["full"].median,
        "full comparison",
        goal=Goal(1 / 20),
    )


def _state(graph: og.Graph, target: str) -> og.Snapshot:
    return graph.snapshot(target) if target in ("main", "side") else graph.snapshot(at=target)


def _change(graph: og.Graph, rows: int, branch: str, seed: int) -> None:
    """New ages for scattered people; no two seeds meet in one person."""
    numbers = np.random.default_rng(seed).choice(rows // 2, CHANGES, replace=False) * 2 + seed % 2
    chosen = people(range(rows)).take(pa.array(np.sort(numbers)))
    ages = pa.array(np.full(CHANGES, 100 + seed, np.int32))
    table = chosen.set_column(chosen.column_names.index("age"), "age", ages)
    graph.write([Change("node:Person", table, Mode.MERGE)], branch=branch)


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} changes instead of {expected}")
