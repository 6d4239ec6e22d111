"""A one-row commit against the same row appended by raw Lance and by Delta."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import lance
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import ROUNDS, committing, fresh_numbers, fsync, new_graph, people, person, settle

ROWS_BEFORE = 1_000


def commit_against_lance(options: Options) -> list[Row]:
    """Without fsync, because Lance never syncs."""
    with fsync(False):
        graph = new_graph(options, "against-lance", ROWS_BEFORE, indexed=True)
        numbers = fresh_numbers()
        address = str(options.place / "raw.lance")
        lance.write_dataset(_stored(people(range(ROWS_BEFORE))), address)
        rounds = options.size(ROUNDS, 3)
        taken = in_turns(
            {"ours": committing(graph, lambda: [person(numbers())]), "lance": _lance_append(address)}, rounds
        )
        burst = in_turns(
            {"ours": _burst(graph, numbers, rounds), "lance": _lance_burst(address, rounds)}, rounds=3, warm_up=0
        )
    ours, raw = taken["ours"], taken["lance"]
    return [
        Row(
            "1-row commit, no fsync",
            ours.median,
            raw.median,
            "raw Lance append",
            goal=Goal(6),
            note=f"means {ours.mean * 1e3:.2f} and {raw.mean * 1e3:.2f} ms",
        ),
        Row(
            "the same back to back, with what follows in the background",
            burst["ours"].median / rounds,
            burst["lance"].median / rounds,
            "raw Lance append",
        ),
    ]


def commit_against_delta(options: Options) -> list[Row]:
    """With fsync. Delta gets to use an address or an open table; the faster of the two counts.

    Delta leaves its files to the page cache, so the last row shows what the same durability costs there.
    """
    measure = "1-row commit, fsync on"
    try:
        from deltalake import DeltaTable, write_deltalake
    except ImportError:
        return [Row(measure, None, None, "deltalake is not installed", goal=Goal(1, below=True))]
    graph = new_graph(options, "against-delta", ROWS_BEFORE, indexed=True)
    numbers, row = fresh_numbers(), _rows_one_by_one()
    tables = {}
    for name in ("address", "open table", "synced"):
        address = str(options.place / f"delta-{name[:4]}")
        write_deltalake(address, _stored(people(range(ROWS_BEFORE))))
        tables[name] = DeltaTable(address)

    def append_and_sync() -> None:
        write_deltalake(tables["synced"], next(row), mode="append")
        _sync_newest(Path(tables["synced"].table_uri.removeprefix("file://")))

    actions = {
        "ours": committing(graph, lambda: [person(numbers())]),
        "address": Action(lambda: write_deltalake(str(options.place / "delta-addr"), next(row), mode="append")),
        "open table": Action(lambda: write_deltalake(tables["open table"], next(row), mode="append")),
        "synced": Action(append_and_sync),
    }
    with fsync(True):
        taken = {name: samples.median for name, samples in in_turns(actions, options.size(ROUNDS, 3)).items()}
    how = min(("address", "open table"), key=taken.__getitem__)
    other = "address" if how == "open table" else "open table"
    note = f"Delta does not sync; given an {other} it takes {taken[other] * 1e3:.2f} ms"
    return [
        Row(measure, taken["ours"], taken[how], f"Delta append, {how}", goal=Goal(1, below=True), note=note),
        Row(measure, taken["ours"], taken["synced"], "Delta append, then its files synced"),
    ]


def _sync_newest(table: Path) -> None:
    """Sync the data file and the log entry that an append wrote, and the folders that hold them."""
    for folder, pattern in ((table, "*.parquet"), (table / "_delta_log", "*.json")):
        newest = max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
        for path in (newest, folder):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def _stored(rows: pa.Table) -> pa.Table:
    """The row as our table stores it: with its id."""
    return rows.add_column(0, "id", rows.column("handle"))


def _rows_one_by_one() -> Iterator[pa.Table]:
    return (_stored(people(range(number, number + 1))) for number in count(10_000_000))


def _lance_append(address: str) -> Action:
    rows = _rows_one_by_one()
    waiting: list[pa.Table] = []
    return Action(
        before=lambda: waiting.append(next(rows)),
        run=lambda: lance.write_dataset(waiting.pop(), address, mode="append"),
    )


def _lance_burst(address: str, appends: int) -> Action:
    rows = _rows_one_by_one()

    def run() -> None:
        for _ in range(appends):
            lance.write_dataset(next(rows), address, mode="append")

    return Action(run)


def _burst(graph: og.Graph, numbers: Callable[[], int], commits: int) -> Action:
    def run() -> None:
        for _ in range(commits):
            graph.write([person(numbers())])
        settle(graph)

    return Action(run)
