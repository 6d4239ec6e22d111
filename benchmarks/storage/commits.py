"""What a commit costs when it touches more tables, when the history is long, and when the table is large."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import omnigraph as og
from benchmarks.measure import Samples, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import (
    PEOPLE,
    ROUNDS,
    committing,
    fresh_numbers,
    fsync,
    graph_with_history,
    new_graph,
    person,
)
from omnigraph.write.change import Mode

TABLES = 10
OLD_HISTORY = 1_000
YOUNG_HISTORY = 5
FIRST_COMMITS = 20
LARGE_TABLE = 1_000_000
SMALL_TABLE = 1_000


def ten_tables_against_one(options: Options) -> list[Row]:
    """Ten rows over ten tables against one row to one table of the same graph."""
    names = [f"Person{number}" for number in range(TABLES)]
    numbers = fresh_numbers()
    with fsync(False):
        graph = og.init(options.place / "ten", "".join(PEOPLE.replace("Person", name) for name in names))
        taken = in_turns(
            {
                "ten": committing(graph, lambda: [person(numbers(), type_name=name) for name in names]),
                "one": committing(graph, lambda: [person(numbers(), type_name=names[0])]),
            },
            options.size(ROUNDS, 3),
        )
    return [_row("commit of 10 rows over 10 tables", taken["ten"], taken["one"], "1 row, 1 table", Goal(4))]


def old_history_against_young(options: Options) -> list[Row]:
    """A one-row commit after many others against one of the first, on two graphs in turns."""
    commits = options.size(OLD_HISTORY, 20)
    with fsync(False):
        old, young = graph_with_history(options, commits), graph_with_history(options, YOUNG_HISTORY)
        numbers = fresh_numbers()
        taken = in_turns(
            {
                "old": committing(old, lambda: [person(numbers())]),
                "young": committing(young, lambda: [person(numbers())]),
            },
            options.size(FIRST_COMMITS, 3),
        )
    return [
        _row(
            f"1-row commit after {commits:,} commits", taken["old"], taken["young"], f"first {FIRST_COMMITS}", Goal(1.3)
        )
    ]


def large_table_against_small(options: Options) -> list[Row]:
    """A one-row upsert and a one-row append, both keyed, into a large indexed table against a small one."""
    large_rows = options.size(LARGE_TABLE, 2 * SMALL_TABLE)
    with fsync(False):
        large = new_graph(options, "large", large_rows, indexed=True)
        small = new_graph(options, "small", SMALL_TABLE, indexed=True)
        upserts, appends = _spread(), fresh_numbers()
        rounds = options.size(ROUNDS, 3)
        upserted = in_turns(
            {
                "large": committing(large, lambda: [person(upserts(large_rows), Mode.MERGE)]),
                "small": committing(small, lambda: [person(upserts(SMALL_TABLE), Mode.MERGE)]),
            },
            rounds,
        )
        appended = in_turns(
            {
                "large": committing(large, lambda: [person(appends())]),
                "small": committing(small, lambda: [person(appends())]),
            },
            rounds,
        )
    peer = f"{SMALL_TABLE:,} rows"
    return [
        _row(f"1-row upsert into {large_rows:,} rows", upserted["large"], upserted["small"], peer, Goal(1.5)),
        _row(f"1-row append to {large_rows:,} rows", appended["large"], appended["small"], peer, Goal(1.5)),
    ]


def _spread() -> Callable[[int], int]:
    """Rows all over a table of a given size, so that no two upserts hit the same part of it by design."""
    steps = count(1)
    return lambda rows: next(steps) * 7_919 % rows


def _row(measure: str, ours: Samples, peer: Samples, peer_name: str, goal: Goal) -> Row:
    note = f"means {ours.mean * 1e3:.2f} and {peer.mean * 1e3:.2f} ms, {ours.mean / peer.mean:.2f}×"
    return Row(measure, ours.median, peer.median, peer_name, goal=goal, note=note)
