"""What a writer feels of `optimize`: the slowest of its commits while another process optimizes, against alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks import child
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import fsync, people, person
from omnigraph import limits
from omnigraph.write.change import Change

SCHEMA = "node Person { handle: String @key  name: String  age: I32? }\nedge Knows: Person -> Person { since: I32? }"
EDGES = 4_000_000
FRAGMENTS = 200
COMMITS = 200
GOAL = Goal(2.0)


def commit_beside_optimize(options: Options) -> list[Row]:
    """1-row commits to one table while the fragments of another are joined and indexed."""
    place = options.place / "beside"
    edges = options.size(EDGES, 2_000)
    scattered(place, edges, FRAGMENTS if edges > 100_000 else 20).close()
    with fsync(False), og.open(place) as graph:
        numbers = iter(range(10**6, 10**9))

        def commit() -> float:
            started = time.perf_counter()
            graph.write([person(next(numbers))])
            return time.perf_counter() - started

        alone = [commit() for _ in range(20 + options.size(COMMITS, 20))][20:]
        beside = _while_optimizing(place, commit)
    measure = f"99 of 100 1-row commits, while {edges:,} edges are optimized in another process"
    return [
        Row(
            measure,
            float(np.percentile(beside, 99)),
            float(np.percentile(alone, 99)),
            "without that",
            goal=GOAL,
            note=f"{len(beside)} commits; median {np.median(beside) * 1e3:.1f} ms",
        )
    ]


def scattered(place: Path, edges: int, fragments: int) -> og.Graph:
    """A graph whose edges lie in so many fragments, with indexes over all of them."""
    nodes = max(100, edges // 50)
    graph = og.init(place, SCHEMA)
    graph.write([Change("node:Person", people(range(nodes)))])
    ids = people(range(nodes)).column("handle")
    drawn = np.random.default_rng(7).integers(0, nodes, (2, edges))
    rows = {
        "src": ids.take(pa.array(drawn[0])),
        "dst": ids.take(pa.array(drawn[1])),
        "since": pa.array(np.arange(edges) % 50, pa.int32()),
    }
    with patch.object(limits, "FRAGMENT_ROWS", -(-edges // fragments)):
        graph.write([Change("edge:Knows", pa.table(rows))])
    graph.ensure_indices()
    return graph


def optimize_once(uri: str, engine: str = "embedded", types: list[str] | None = None) -> dict[str, float]:
    """Optimize in this process; seconds, and the most memory it held."""
    child.import_rooms()
    with og.open(uri) as graph:
        print("started", flush=True)
        started = time.perf_counter()
        graph.optimize(types=types, engine=engine)  # type: ignore[arg-type]
        return {"seconds": time.perf_counter() - started, "memory": child.peak_memory()}


def _while_optimizing(place: Path, commit: Callable[[], float]) -> list[float]:
    """What commits take from when another process begins to optimize until it has done so."""
    asked = json.dumps({"uri": str(place)})
    command = [sys.executable, "-m", "benchmarks.child", "benchmarks.storage.optimizing:optimize_once", asked]
    with subprocess.Popen(command, cwd=child.ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        running.stdout.readline()
        taken = [commit() for _ in range(20)]
        while running.poll() is None:
            taken.append(commit())
    if running.returncode != 0:
        raise RuntimeError("the process that optimizes failed")
    return taken
