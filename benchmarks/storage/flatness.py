"""What stays the same when a graph is written to for years: one-row commits over three tables, nothing run by hand.

An old graph and a new one are written to in turns. The old one has many commits, half of them inserts and half updates,
and nobody ever optimized it or cleaned it up.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph as og
from benchmarks import child
from benchmarks.measure import Samples, no_garbage_collection
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import fsync, settle

COMMITS = 10_000
FIRST_COMMITS = 100
WARM_UP = 6
OPENINGS = 9

SCHEMA = """
node Person { handle: String @key  name: String  age: I32? }
node City { handle: String @key  name: String  size: I32? }
edge Knows: Person -> Person { number: I32 }
"""

INSERTS = (
    "query q($h: String, $n: I32) { insert Person { handle: $h, name: $h, age: $n } }",
    "query q($h: String, $n: I32) { insert City { handle: $h, name: $h, size: $n } }",
    "query q($h: String, $n: I32) { insert Knows { from: $h, to: $h, number: $n } }",
)
UPDATES = (
    "query q($h: String, $n: I32) { update Person set { age: $n } where handle = $h }",
    "query q($h: String, $n: I32) { update City set { size: $n } where handle = $h }",
    "query q($h: String, $n: I32) { update Person set { name: $h } where handle = $h }",
)
QUERY = "query q() { match { $p: Person  $p knows $f } return { $p.age as age, count($f) as n } order { n } limit 3 }"


@dataclass(slots=True)
class Written:
    """A graph that one-row commits go to, in a fixed order."""

    graph: og.Graph
    inserted: int = 0
    updated: int = 0
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)

    def insert(self) -> None:
        row, table = divmod(self.inserted, len(INSERTS))
        self.graph.mutate(INSERTS[table], {"h": _handle(row), "n": row})
        self.inserted += 1

    def update(self) -> None:
        step, table = divmod(self.updated, len(UPDATES))
        rows = self.inserted // len(INSERTS)
        self.graph.mutate(UPDATES[table], {"h": _handle(step * 7_919 % max(1, rows)), "n": -step})
        self.updated += 1

    def commit(self, until: int, look_at: set[int]) -> None:
        """Commit inserts and updates in turns; note the bytes and files at some of them."""
        for number in range(1, until + 1):
            self.insert() if number % 2 else self.update()
            if number in look_at:
                settle(self.graph)
                self.sizes[number] = size_of(Path(self.graph.uri))


def _handle(row: int) -> str:
    return f"handle-{row:08d}"


def old_against_new(options: Options) -> list[Row]:
    """Time, CPU, bytes, files and opening of an old graph against a new one."""
    commits = options.size(COMMITS, 60)
    tenth = commits // 10
    rounds = options.size(FIRST_COMMITS // 2, 3)
    with fsync(False):
        old = Written(og.init(options.place / "flat-old", SCHEMA))
        old.commit(commits, {tenth, 2 * tenth, 9 * tenth, 10 * tenth})
        new = Written(og.init(options.place / "flat-new", SCHEMA))
        rows = _commit_rows(old, new, rounds, commits)
        rows += _size_rows(old.sizes, tenth)
        rows += _opening_rows(old, new, options.size(OPENINGS, 1), commits)
    return rows


def _commit_rows(old: Written, new: Written, rounds: int, commits: int) -> list[Row]:
    rows = []
    for name, ours, theirs in (("insert", old.insert, new.insert), ("update", old.update, new.update)):
        wall, cpu = _in_turns((ours, old.graph), (theirs, new.graph), rounds)
        for kind, (mine, peer) in (("", wall), (", CPU with what follows in the background", cpu)):
            note = f"means {mine.mean * 1e3:.2f} and {peer.mean * 1e3:.2f} ms, {mine.mean / peer.mean:.2f}×"
            measure = f"1-row {name} after {commits:,} commits{kind}"
            rows.append(Row(measure, mine.median, peer.median, f"first {rounds}", goal=Goal(1.2), note=note))
    return rows


def _in_turns(
    one: tuple[Callable[[], None], og.Graph], other: tuple[Callable[[], None], og.Graph], rounds: int
) -> tuple[tuple[Samples, Samples], tuple[Samples, Samples]]:
    """Wall time of the commits, and CPU time until their copies are made too."""
    wall: tuple[list[float], list[float]] = ([], [])
    cpu: tuple[list[float], list[float]] = ([], [])
    with no_garbage_collection():
        for number in range(WARM_UP + rounds):
            for side, (run, graph) in enumerate((one, other)):
                started, used = time.perf_counter(), time.process_time()
                run()
                elapsed = time.perf_counter() - started
                settle(graph)
                if number >= WARM_UP:
                    wall[side].append(elapsed)
                    cpu[side].append(time.process_time() - used)
    first, second = ((Samples(tuple(side[0])), Samples(tuple(side[1]))) for side in (wall, cpu))
    return first, second


def _size_rows(sizes: dict[int, tuple[int, int]], tenth: int) -> list[Row]:
    def per_commit(start: int, end: int, which: int) -> float:
        return (sizes[end][which] - sizes[start][which]) / (end - start)

    late, early = (9 * tenth, 10 * tenth), (tenth, 2 * tenth)
    window = f"commits {late[0]:,} to {late[1]:,}"
    peer = f"commits {early[0]:,} to {early[1]:,}"
    total = f"{sizes[late[1]][0]:,} bytes in {sizes[late[1]][1]:,} files at the end"
    return [
        Row(
            f"bytes on disk per commit, {window}",
            per_commit(*late, 0),
            per_commit(*early, 0),
            peer,
            unit="bytes",
            goal=Goal(1.2),
            note=total,
        ),
        Row(
            f"files per 100 commits, {window}",
            100 * per_commit(*late, 1),
            100 * per_commit(*early, 1),
            peer,
            unit="files",
        ),
    ]


def size_of(directory: Path) -> tuple[int, int]:
    """Bytes and files below a directory."""
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(directory) for name in names]
    return sum(sizes), len(sizes)


def _opening_rows(old: Written, new: Written, rounds: int, commits: int) -> list[Row]:
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, (graph, other) in enumerate(((old.graph, new.graph), (new.graph, old.graph))):
            call = "benchmarks.storage.flatness:open_and_ask"
            taken[side].append(child.run(call, uri=graph.uri, before=other.uri))
    peer = f"after {new.inserted + new.updated}"
    measure = f"open and first query after {commits:,} commits"
    return [Row(measure, statistics.median(taken[0]), statistics.median(taken[1]), peer, goal=Goal(1.2))]


def open_and_ask(uri: str, before: str) -> float:
    """Runs in the child: seconds for one open and one query over two tables. Another graph is asked before, so that
    imports are not part of the time."""
    from benchmarks.measure import seconds_of

    og.open(before).query(QUERY)
    with no_garbage_collection():
        return seconds_of(lambda: og.open(uri).query(QUERY))
