"""What a server adds to the same calls in the process, and how many clients it serves. Everything is on loopback.

Each file gives functions from options to rows; `MEASURES` is the table of contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.server import lasting, reading, writing

MEASURES: tuple[Callable[[Options], Sequence[Row]], ...] = (
    reading.point_queries,
    writing.clients_against_one,
    writing.threads_against_one,
    reading.large_answer,
    lasting.memory_of_many_requests,
)


def run(options: Options) -> Report:
    """Measure everything."""
    return Report("server", tuple(row for measure in MEASURES for row in measure(options)))
