"""What the digests of values cost: loads and commits with them against the same without, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

import omnigraph as og
from benchmarks.measure import Action, Samples, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import PEOPLE, ROUNDS, committing, fresh_numbers, fsync, new_graph, people, person
from omnigraph.storage.tables import stage_rows

LOADED_ROWS = 500_000
LOADS = 7
GOAL = Goal(1.05)


def with_digests_against_without(options: Options) -> list[Row]:
    """Loads of a large file in two formats, and one-row commits."""
    rows = options.size(LOADED_ROWS, 2_000)
    loads = options.size(LOADS, 1)
    with fsync(False):
        found = []
        for path in (_jsonl(options, rows), _parquet(options, rows)):
            taken = _compared(partial(_loading, options, path), loads, warm_up=1)
            found.append(_row(f"load of {rows:,} rows from {path.suffix[1:]}", taken))
        graph, numbers = new_graph(options, "digests", 1_000), fresh_numbers()
        taken = _compared(lambda: committing(graph, lambda: [person(numbers())]), options.size(5 * ROUNDS, 3))
        found.append(_row("1-row commit", taken))
    return found


def _compared(action: Callable[[], Action], rounds: int, warm_up: int = 3) -> dict[str, Samples]:
    plain = action()

    def without() -> Any:
        with _no_digests():
            return plain.run()

    return in_turns({"with": action(), "without": Action(without, plain.before, plain.after)}, rounds, warm_up=warm_up)


@contextmanager
def _no_digests() -> Iterator[None]:
    with patch.object(stage_rows, "of_files", return_value={}):
        yield


def _loading(options: Options, path: Path) -> Action:
    """Load a file into an empty graph of its own."""
    names, opened = count(), []

    def new() -> None:
        opened.append(og.init(options.place / f"load-{path.stem}-{id(names)}-{next(names)}", PEOPLE))

    return Action(
        before=new,
        run=lambda: opened[-1].load(path, "append", type="Person", engine="embedded"),
        after=lambda: opened.pop().close(),
    )


def _jsonl(options: Options, rows: int) -> Path:
    path = options.place / "people.jsonl"
    with path.open("w") as file:
        for batch in people(range(rows)).to_batches(10_000):
            for handle, name, age in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                file.write(f'{{"handle": "{handle}", "name": "{name}", "age": {age}}}\n')
    return path


def _parquet(options: Options, rows: int) -> Path:
    path = options.place / "Person.parquet"
    pq.write_table(people(range(rows)), path)
    return path


def _row(measure: str, taken: dict[str, Samples]) -> Row:
    ours, peer = taken["with"], taken["without"]
    return Row(measure, ours.median, peer.median, "without digests", goal=GOAL)
