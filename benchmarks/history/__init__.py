"""What a merge, a difference and a schema change cost, against smaller graphs of our own and against doing it all.

Each file gives a function from options to rows; `MEASURES` is the table of contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.history import differing, evolving, merging
from benchmarks.options import Options
from benchmarks.report import Report, Row

MEASURES: tuple[Callable[[Options], Sequence[Row]], ...] = (
    merging.large_graph_against_small,
    merging.branch_and_merge_against_a_commit,
    differing.few_changes_against_a_full_comparison,
    evolving.new_property_against_a_rewrite,
)


def run(options: Options) -> Report:
    """Measure everything."""
    return Report("history", tuple(row for measure in MEASURES for row in measure(options)))
