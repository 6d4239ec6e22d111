"""A writer dies by SIGKILL at each failpoint: the next open shows all of its write or nothing, and carries on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from tests.crash.table import (
    Arranged,
    Case,
    arrange,
    arrange_in,
    assert_ended,
    every_case,
    one_case_each,
    quick_cases,
)
from tests.support import ledger as ledgers
from tests.support.crash_checks import assert_sound, drafted_commit, records, settled
from tests.support.crash_graph import ACTOR, MAIN, SCHEMA, perform
from tests.support.kill_runner import kill_child
from tests.support.ledger import Ledger


@pytest.mark.parametrize("case", quick_cases(), ids=str)
def test_a_killed_write_ends_whole_on_a_local_disk(tmp_path: Path, case: Case) -> None:
    _kill_and_check(arrange(str(tmp_path / "g"), tmp_path, case), case)


@pytest.mark.s3
@pytest.mark.parametrize("part", range(3))
def test_writers_killed_one_after_another_on_s3_leave_a_sound_graph(s3_root: str, tmp_path: Path, part: int) -> None:
    """Every failpoint at which something is durable, once, in one graph that lives through all of it."""
    ledger = tmp_path / "main.jsonl"
    with og.init(s3_root, SCHEMA, actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, Ledger(ledger), "seed")
    for number, case in enumerate(one_case_each()[part::3]):
        own = ledger if case.lineage == "main" else Path(shutil.copy(ledger, tmp_path / f"{number}.jsonl"))
        with og.open(s3_root, actor=ACTOR) as graph:
            arranged = arrange_in(graph, own, case, f"review/{number}")
        _kill_and_check(arranged, case, f"-{number}")


@pytest.mark.torture
@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_killed_write_ends_whole_on_a_local_disk(tmp_path: Path, case: Case) -> None:
    _kill_and_check(arrange(str(tmp_path / "g"), tmp_path, case), case)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_killed_write_ends_whole_on_s3(s3_root: str, tmp_path: Path, case: Case) -> None:
    _kill_and_check(arrange(s3_root, tmp_path, case), case)


def _kill_and_check(arranged: Arranged, case: Case, label: str = "") -> None:
    target = arranged.target
    kill_child(target, f"{case.kind}=victim{label}", case.point.name)
    commit = drafted_commit(target.uri) or ledgers.read(target.ledger)[-1].receipt
    interrupted = set(records(target.uri))
    with settled(target.uri, target.branch, target.ledger, mirrored=not _leaves_mirror_behind(case)) as graph:
        assert_ended(graph, arranged, case, case.point.end, commit)
        assert {recovery.operation_id for recovery in graph.recoveries} - arranged.audited <= interrupted
        perform(graph, "insert_one", target.branch, Ledger(target.ledger), f"next{label}")
        assert_sound(graph, target.branch, target.ledger)


def _leaves_mirror_behind(case: Case) -> bool:
    """A commit of a branch that is published, acknowledged and not yet copied: nothing points at the gap."""
    return case.point.name.startswith("graph_publish.") and case.lineage != "main"
