"""One-row mutations of many writers on one branch, against one writer. Every commit is synced to the disk."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count

import omnigraph as og
from benchmarks.measure import no_garbage_collection
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.server.load_client import load
from benchmarks.server.processes import graph_server
from benchmarks.storage.graphs import fsync, new_graph, settle

WRITERS = 32
#: Commits of one turn: of the one writer, and of all the others together.
ALONE, TOGETHER = 60, 640
TURNS = 5
#: As many commits a second, at least.
TIMES = 8
PUT = "query put($h: String) { insert Person { handle: $h, name: $h } }"


def threads_against_one(options: Options) -> Sequence[Row]:
    """32 threads that share one handle."""
    numbers = count(1)
    with fsync(True), new_graph(options, "threads", rows=1_000) as graph:

        def commit_some(times: int) -> None:
            for _ in range(times):
                graph.mutate(PUT, params={"h": f"writer-{next(numbers)}"})

        one, many = turns(
            options,
            lambda commits: _threads(1, commits, commit_some),
            lambda all_: _threads(WRITERS, all_, commit_some),
            graph,
        )
    return [row(f"durable 1-row mutation, {WRITERS} threads on one handle", many, one, "one thread")]


def clients_against_one(options: Options) -> Sequence[Row]:
    """32 clients of one server."""
    numbers = count(1)
    with fsync(True), new_graph(options, "clients", rows=1_000), graph_server(options.place / "clients") as (target, _):

        def request() -> bytes:
            body = {"query": PUT, "params": {"h": f"writer-{next(numbers)}"}}
            return target.request("POST", "/graphs/clients/mutate", json.dumps(body).encode())

        one, many = turns(
            options,
            lambda commits: load(target, request, 1, commits),
            lambda commits: load(target, request, WRITERS, commits),
        )
    return [row(f"durable 1-row mutation over HTTP, {WRITERS} clients on one branch", many, one, "one client")]


def turns(
    options: Options, alone: Callable[[int], object], together: Callable[[int], object], graph: og.Graph | None = None
) -> tuple[float, float]:
    """Seconds for each commit of one writer and of many; the two take turns.

    Args:
        alone, together: write this many commits.
    """
    few, lots = options.size(ALONE, 4), options.size(TOGETHER, WRITERS)
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(1 + options.size(TURNS, 1)):
        for seconds, commits, write in ((taken[0], few, alone), (taken[1], lots, together)):
            with no_garbage_collection():
                started = time.perf_counter()
                write(commits)
                elapsed = time.perf_counter() - started
            if graph is not None:
                settle(graph)
            if turn:
                seconds.append(elapsed / commits)
    return statistics.median(taken[0]), statistics.median(taken[1])


def row(measure: str, many: float, one: float, peer: str) -> Row:
    """The comparison: seconds for each commit, at most an eighth."""
    note = f"{1 / many:,.0f} and {1 / one:,.0f} commits a second, {one / many:.1f} times as many"
    return Row(measure, many, one, peer, goal=Goal(1 / TIMES), note=note)


def _threads(threads: int, commits: int, work: Callable[[int], None]) -> None:
    failed: list[BaseException] = []

    def run(times: int) -> None:
        try:
            work(times)
        except BaseException as error:
            failed.append(error)

    shares = [commits // threads + (number < commits % threads) for number in range(threads)]
    started = [threading.Thread(target=run, args=(share,)) for share in shares]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failed:
        raise failed[0]
