"""Data out of a graph through Spark: the export as JSONL, and the scan of a type, against Spark on its own files.

The peer reads the same rows, ids included, from the Parquet that an export wrote. The start of a session is not
counted.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import THREADS, Options
from benchmarks.report import Goal, Row
from benchmarks.social import SCHEMA, make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROUNDS = 2
SCANNED = ["src", "dst", "since"]


def export_and_scan(options: Options) -> list[Row]:
    """Everything out as lines, and one aggregate over the largest type."""
    from omnigraph import spark as ogs

    session = ogs.session(f"local[{THREADS}]")
    place = options.place / "reads"
    with og.init(place / "graph", SCHEMA) as graph:
        graph.load(dict(make(options.scale).tables), "append", engine="embedded")
        files = place / "parquet"
        ogs.export(graph, files, "parquet")
        lines, copy = place / "lines", place / "copy"

        def write_json() -> None:
            for path in sorted(files.iterdir()):
                session.read.parquet(str(path)).write.mode("overwrite").json(str(copy / path.stem))

        taken = in_turns(
            {
                "export": Action(lambda: ogs.export(graph, lines), before=lambda: _remove(lines)),
                "json": Action(write_json),
                "scan": Action(lambda: _aggregate(ogs.read(graph, "Follows", SCANNED))),
                "parquet": Action(lambda: _aggregate(session.read.parquet(str(files / "Follows.parquet")))),
            },
            ROUNDS,
            warm_up=1,
        )
    return [
        Row(
            "Spark export to JSONL",
            taken["export"].median,
            taken["json"].median,
            "Spark writing the same rows as JSON",
            goal=Goal(2.5),
        ),
        Row(
            "Spark scan of one type to an aggregate",
            taken["scan"].median,
            taken["parquet"].median,
            "Spark on Parquet",
            goal=Goal(3),
        ),
    ]


def _aggregate(frame: DataFrame) -> None:
    from pyspark.sql import functions as F

    frame.groupBy(F.year("since")).agg(F.count("*"), F.min("src"), F.max("dst")).collect()


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
