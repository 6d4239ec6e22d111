"""What the Spark engine costs against plain Spark, and the embedded load against DuckDB.

Each file gives a function from options to rows; `MEASURES` is the table of contents.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.spark import loads, optimizing, reads

#: The largest load comes first: later ones leave a session in this process, and the machine has only so much memory.
MEASURES: tuple[Callable[[Options], Sequence[Row]], ...] = (
    loads.ten_times_the_rows,
    loads.spark_against_spark,
    loads.few_rows_into_many,
    reads.export_and_scan,
    loads.embedded_against_duckdb,
    optimizing.optimize_against_lance,
)


def run(options: Options) -> Report:
    """Measure everything."""
    rows = tuple(row for measure in MEASURES for row in measure(options))
    turns = f"medians of {loads.ROUNDS} turns, {reads.ROUNDS} for exports and scans, one for ten times the rows"
    return Report("spark", rows, facts=(("Spark", f"pyspark {version('pyspark')}, {_java()}"), ("turns", turns)))


def _java() -> str:
    """What runs Spark, as it calls itself."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return said.splitlines()[0].replace('"', "")
