"""The retention rule, and the runs of upkeep."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import CorruptGraph, InputError
from omnigraph.storage.metadata import retention_rule
from omnigraph.upkeep import upkeep_runs
from tests.support.small_graphs import ids_of, people, persons


def _grown(root: Any) -> og.Graph:
    graph = people(root, "a")
    for number in range(4):
        graph.write([persons(f"p{number}")])
    return graph


def test_the_rule_is_stored_with_the_graph_and_cleared(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    default = graph.retention.get()
    assert (default.keep, default.older_than, default.is_default) == (1000, timedelta(days=7), True)
    graph.retention.set(keep=5, older_than="2w", optimize_every="1d")
    with og.open(graph.uri, mode="ro") as again:
        rule = again.retention.get()
    assert (rule.keep, rule.older_than, rule.optimize_every) == (5, timedelta(days=14), timedelta(days=1))
    og.clone(graph.uri, tmp_path / "twin")
    with og.open(tmp_path / "twin", mode="ro") as twin:
        assert twin.retention.get() == rule
    graph.retention.set(older_than=60)
    assert graph.retention.get().keep is None
    graph.retention.clear()
    assert graph.retention.get() == default


def test_a_rule_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    with pytest.raises(InputError, match="needs a rule"):
        graph.retention.set()
    with pytest.raises(InputError, match="all the time"):
        graph.retention.set(keep=1, optimize_every=0)
    assert graph.retention.get().is_default
    (tmp_path / "g" / "__upkeep").mkdir()
    (tmp_path / "g" / retention_rule.PATH).write_text("[1]")
    with pytest.raises(CorruptGraph, match="unreadable"):
        graph.retention.get()


def test_upkeep_does_what_is_due_and_lists_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grown(tmp_path / "g")
    expected = ids_of(graph, "Person")
    first = graph.upkeep()
    assert [(task.name, task.outcome) for task in first.tasks] == [("optimize", "done"), ("cleanup", "not_due")]
    assert graph.upkeep().tasks[0].outcome == "not_due"
    graph.retention.set(keep=1)
    monkeypatch.setattr(limits, "CLEANUP_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(upkeep_runs, "CleanupPolicy", lambda keep, age: _policy(keep, age))
    third = graph.upkeep()
    assert [task.outcome for task in third.tasks] == ["not_due", "done"] and third.ok
    assert [run.id for run in graph.upkeep.runs()][:1] == [third.id] and len(graph.upkeep.runs()) == 3
    assert [run.id for run in graph.upkeep.runs(limit=1)] == [third.id]
    monkeypatch.setattr(limits, "UPKEEP_RUNS", 2)
    graph.upkeep()
    assert len(graph.upkeep.runs()) == 2
    assert ids_of(graph, "Person") == expected and graph.verify().ok


def _policy(keep: int | None, age: timedelta | None) -> Any:
    from omnigraph.upkeep.cleanup.policy import CleanupPolicy

    return CleanupPolicy(keep, age, timedelta(0))


def test_a_task_that_fails_is_told_and_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grown(tmp_path / "g")

    def fail(*_: object) -> None:
        raise CorruptGraph("broken")

    monkeypatch.setattr(og.Graph, "optimize", fail)
    run = graph.upkeep()
    assert (run.tasks[0].outcome, run.tasks[0].summary) == ("failed", "broken")
    assert run.tasks[1].outcome == "not_due" and not run.ok
