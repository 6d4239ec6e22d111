"""What a clone costs against a plain copy of the same files, which compares nothing."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import fsync
from omnigraph.write.change import Change

SCHEMA = "node Thing { key: String @key  face: Vector(256)  text: String }"
ROWS = 40_000
COMMITS = 6
ROUNDS = 5
GOAL = Goal(3.0)


def clone_against_copy(options: Options) -> list[Row]:
    """A graph of some 100 MB with a branch, on one disk."""
    source = options.place / "cloned"
    size = _fill(source, options.size(ROWS, 200))
    twin, copy = options.place / "twin", options.place / "copy"
    with fsync(False):
        taken = in_turns(
            {
                "clone": Action(partial(og.clone, source, twin), before=partial(_remove, twin)),
                "copy": Action(partial(_copy, source, copy), before=partial(_remove, copy)),
            },
            options.size(ROUNDS, 1),
            warm_up=1,
        )
    measure = f"clone of a graph of {size / 1e6:,.0f} MB, every file compared"
    return [Row(measure, taken["clone"].median, taken["copy"].median, "cp -r", goal=GOAL)]


def _fill(place: Path, rows: int) -> int:
    """Make the graph; returns its size in bytes."""
    with og.init(place, SCHEMA) as graph:
        for number in range(COMMITS):
            if number == COMMITS - 1:
                graph.branches.create("review")
            branch = "review" if number == COMMITS - 1 else "main"
            graph.write([_things(number * rows, rows)], branch=branch)
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def _things(start: int, rows: int) -> Change:
    values = np.random.default_rng(start).random(rows * 256, dtype=np.float32)
    columns = {
        "key": [f"k{number}" for number in range(start, start + rows)],
        "face": pa.FixedSizeListArray.from_arrays(pa.array(values), 256),
        "text": [f"thing number {number}" for number in range(start, start + rows)],
    }
    return Change("node:Thing", pa.table(columns))


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
