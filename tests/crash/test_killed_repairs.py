"""Repairs that are killed half-way: drift is adopted or taken back wholly or not at all, and a second run ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import DriftClass
from tests.support.crash_graph import MAIN
from tests.support.foreign_steps import append, compact, raw_table
from tests.support.kill_runner import Target, kill_child
from tests.support.small_graphs import ids_of, persons

PERSON = "node:Person"

#: What is done to the table, how it is repaired, where that dies, and whether it was visible by then.
CASES = [
    (compact, "", "write.after_stage", False),
    (compact, "", "write.after_sidecar", False),
    (compact, "", "publish.before_commit", False),
    (append, "force", "publish.before_commit", False),
    (append, "force", "publish.lost_ack", True),
    (append, "force", "write.after_publish_before_delete", True),
    (append, "discard", "repair.after_restore", False),
    (append, "discard", "publish.before_commit", False),
    (append, "discard", "publish.lost_ack", True),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repairs")


def _check(uri: str, folder: Path, cases: list[tuple[object, str, str, bool]]) -> None:
    """One graph for all cases: each ends with a table that has no drift."""
    with og.init(uri, "node Person { handle: String @key  age: I32? }") as graph:
        graph.write([persons("ann")])
    for number, (step, how, point, is_visible) in enumerate(cases):
        with og.open(uri) as graph:
            graph.write([persons(f"a{number}")])
            graph.write([persons(f"b{number}")])
            before = ids_of(graph, "Person")
            table = raw_table(graph, PERSON)
            append(table, f"eve{number}") if step is append else compact(table)
            head = graph.commits.head().id
        kill_child(Target(uri, MAIN, folder / "ledger.jsonl"), f"repair={how}", point)
        after = before | ({f"eve{number}"} if how == "force" else set())
        with og.open(uri) as graph:
            assert (graph.commits.head().id != head) is is_visible, point
            assert ids_of(graph, "Person") == (after if is_visible else before), point
            report = graph.repair(confirm=True, force=how == "force", discard=how == "discard")
            assert bool(report.commits) is not is_visible, point
            assert graph.commits.head().parent == head
            assert ids_of(graph, "Person") == after
            assert {each.classification for each in graph.repair().tables} == {DriftClass.NO_DRIFT}
            graph.write([persons(f"c{number}")])
    with og.open(uri) as graph:
        assert graph.verify().problems == ()


def test_a_killed_repair_is_whole_or_nothing_and_is_repeated(folder: Path) -> None:
    _check(str(folder / "g"), folder, list(CASES))


@pytest.mark.s3
def test_a_killed_repair_on_s3_is_whole_or_nothing_and_is_repeated(s3_root: str, folder: Path) -> None:
    _check(s3_root, folder, [CASES[1], CASES[4], CASES[6]])


@pytest.mark.s3
@pytest.mark.torture
def test_a_repair_that_is_killed_at_any_point_on_s3_is_whole_or_nothing(s3_root: str, folder: Path) -> None:
    _check(s3_root, folder, list(CASES))
