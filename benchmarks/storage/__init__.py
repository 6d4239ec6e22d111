"""What a commit, an open and a branch cost, against raw Lance, Delta and younger or smaller graphs of our own.

Each file gives a function from options to rows; `MEASURES` is the table of contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.storage import branching, calls, cloning, commits, digesting, flatness, kept, opening, optimizing, peers

MEASURES: tuple[Callable[[Options], Sequence[Row]], ...] = (
    peers.commit_against_lance,
    peers.commit_against_delta,
    commits.ten_tables_against_one,
    opening.old_against_young,
    commits.old_history_against_young,
    commits.large_table_against_small,
    flatness.old_against_new,
    branching.branch_against_lance,
    digesting.with_digests_against_without,
    cloning.clone_against_copy,
    kept.kept_against_bulk,
    optimizing.commit_beside_optimize,
)


def run(options: Options) -> Report:
    """Measure everything."""
    rows = [row for measure in MEASURES for row in measure(options)]
    counted, grids = calls.count_calls(options)
    return Report("storage", (*rows, *counted), tuple(grids))
