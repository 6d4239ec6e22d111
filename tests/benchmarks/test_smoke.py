"""Both parts run at a tiny scale: every measure is reported, and all engines give the same answers.

The figures mean nothing at this size; no test looks at them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import child, cli, history, query, search, server, storage
from benchmarks.options import Options
from benchmarks.query.engines import DUCKDB, LADYBUG, OURS, available
from benchmarks.query.questions import ANALYSES, HOPS, LOOKUP, MANY
from benchmarks.query.warm import TITLES
from benchmarks.report import Report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

needs_peers = pytest.mark.skipif(
    not (find_spec("duckdb") and find_spec("ladybug")),
    reason="duckdb or ladybug is not installed; `make bench` installs them",
)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a process and importing an engine takes seconds; `test_report.py` starts one for real."""
    monkeypatch.setattr(child, "run", child.call)


@needs_peers
def test_the_query_part_asks_every_question_and_all_engines_agree(tmp_path: Path) -> None:
    # A disagreement raises DifferentAnswers, so a report means that all answers were equal.
    report = query.run(Options(tmp_path, scale=0.002))

    warm = {(row.measure, row.peer_name) for row in report.rows}
    questions = (*ANALYSES, LOOKUP, *HOPS, *MANY)
    assert {(TITLES[question], peer) for question in questions for peer in (LADYBUG, DUCKDB)} <= warm
    assert {row.measure for row in report.rows if row.unit == "MB"} == {"peak memory of answering every question"}
    assert any(row.measure.startswith("open and first answer") for row in report.rows)
    assert all(row.peer and row.peer > 0 for row in report.rows)
    if OURS in available():
        assert all(row.ours and row.ours > 0 for row in report.rows)
        assert any(row.measure.startswith("right after a 1-row commit") for row in report.rows)
    else:
        assert report.missed, "a goal that was not measured is not met"


@pytest.mark.s3
def test_the_storage_part_reports_every_measure(tmp_path: Path) -> None:
    report = storage.run(Options(tmp_path, scale=0.001))

    measures = [row.measure for row in report.rows]
    for wanted in (
        "1-row commit, no fsync",
        "1-row commit, fsync on",
        "commit of 10 rows over 10 tables",
        "1-row commit after",
        "1-row upsert into",
        "1-row append to",
        "cold open (rw)",
        "cold open (ro)",
        "branch of",
        "storage calls of a 1-row commit",
        "storage calls of a snapshot",
        "storage calls of an open (rw)",
    ):
        found = [row for row in report.rows if row.measure.startswith(wanted) and row.goal is not None]
        assert found, f"{wanted} is not among {measures}"
        if find_spec("deltalake") or wanted != "1-row commit, fsync on":
            assert all(row.ours and row.peer for row in found)
    assert _kinds_of_calls(report) and not [kind for kind in _kinds_of_calls(report) if kind.startswith("other")]


def test_the_search_part_reports_every_measure(tmp_path: Path) -> None:
    report = search.run(Options(tmp_path, scale=0.005))
    assert {row.peer_name for row in report.rows} >= {"raw Lance", "NumPy", "warm", "raw calls"}
    assert all(row.ours and row.peer for row in report.rows)


def test_the_history_part_reports_every_measure(tmp_path: Path) -> None:
    report = history.run(Options(tmp_path, scale=0.001))
    measures = [row.measure for row in report.rows]
    for wanted in ("merge of 100 changed rows into", "branch + 100 changed rows + merge", "diff of 100 changed rows"):
        found = [row for row in report.rows if row.measure.startswith(wanted) and row.goal is not None]
        assert found, f"{wanted} is not among {measures}"
        assert all(row.ours and row.peer for row in found)


def test_the_cli_part_reports_both_goals_and_what_each_shortcut_saves(tmp_path: Path) -> None:
    report = cli.run(Options(tmp_path, scale=0.01))
    assert [row.measure.split("`")[1] for row in report.rows[:3]] == [
        "omnigraph version",
        "omnigraph query",
        "omnigraph mutate",
    ]
    shortcuts = ["typer", "typing", "pandas", "rarely", "garbage", "pydantic"]
    assert [row.measure.split()[-1].strip("`") for row in report.rows[3:]] == shortcuts
    assert all(row.ours and row.peer and row.goal for row in report.rows)


def test_the_server_part_reports_every_measure(tmp_path: Path) -> None:
    report = server.run(Options(tmp_path, scale=0.001))
    wanted = [
        "point query over HTTP",
        "point query over",
        "durable 1-row",
        "durable 1-row",
        "Arrow answer",
        "memory of",
    ]
    assert len(report.rows) == len(wanted)
    assert all(row.measure.startswith(begin) for row, begin in zip(report.rows, wanted, strict=True))
    assert all(row.goal is not None and row.ours is not None and row.peer for row in report.rows)


def _kinds_of_calls(report: Report) -> set[str]:
    return {line[0] for grid in report.grids for line in grid.lines}
