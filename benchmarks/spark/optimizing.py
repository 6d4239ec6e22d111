"""What `optimize` costs on Spark against Lance's own compaction of the same fragments and indexes in one process."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import lance

import omnigraph as og
from benchmarks import child
from benchmarks.options import THREADS, Options
from benchmarks.report import Goal, Row
from benchmarks.storage.optimizing import scattered
from omnigraph.storage.tables.compaction import fragment_rows

EDGES = 24_000_000
FRAGMENTS = 200
GOAL = Goal(1.5)


def optimize_against_lance(options: Options) -> list[Row]:
    """Edges in many fragments, with their indexes."""
    place, twin = options.place / "optimized", options.place / "twin"
    edges = options.size(EDGES, 4_000)
    graph = scattered(place, edges, FRAGMENTS)
    store = graph.internals.reader()
    location = store.snapshot("main").pins["edge:Knows"].location
    shutil.copytree(store.tables.uri(location), twin)
    graph.close()
    ours = child.run("benchmarks.spark.optimizing:optimize_on_spark", uri=str(place))
    peer = child.run("benchmarks.spark.optimizing:compact", uri=str(twin), rows=fragment_rows(edges))
    measure = f"optimize {edges:,} edges in {FRAGMENTS} fragments on Spark"
    memory = f"driver {ours['memory'] / 2**20:,.0f} MiB, {ours['memory_before'] / 2**20:,.0f} before"
    return [Row(measure, ours["seconds"], peer["seconds"], "compact_files of Lance", goal=GOAL, note=memory)]


def optimize_on_spark(uri: str) -> dict[str, float]:
    """Seconds without the start of the session."""
    from omnigraph import spark as ogs

    session = ogs.session(f"local[{THREADS}]")
    session.range(0, THREADS, 1, THREADS).mapInArrow(lambda batches: batches, "id long").collect()
    with og.open(uri) as graph:
        before = child.peak_memory()
        started = time.perf_counter()
        graph.optimize(types=["Knows"], engine="spark")
        return {
            "seconds": time.perf_counter() - started,
            "memory": child.peak_memory(),
            "memory_before": before,
        }


def compact(uri: str, rows: int) -> dict[str, float]:
    """What Lance does with the same table by itself."""
    table = lance.dataset(Path(uri))
    started = time.perf_counter()
    table.optimize.compact_files(target_rows_per_fragment=rows)
    return {"seconds": time.perf_counter() - started}
