"""What the bulk carrier costs against plain Spark, and the embedded load against DuckDB.

Each file gives a function from options to rows; `MEASURES` is the table of contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.spark import loads, reads

MEASURES: tuple[Callable[[Options], Sequence[Row]], ...] = (
    loads.spark_against_spark,
    loads.ten_times_the_rows,
    reads.export_and_scan,
    loads.embedded_against_duckdb,
)


def run(options: Options) -> Report:
    """Measure everything."""
    return Report("spark", tuple(row for measure in MEASURES for row in measure(options)), ())
