"""A writer dies by SIGKILL at each failpoint: the next open shows all of its write or nothing, and carries on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.table import Case, arrange, assert_ended, every_case, one_case_each, quick_kills
from tests.support import ledger as ledgers
from tests.support.crash_checks import assert_sound, drafted_commit, records, settled
from tests.support.crash_graph import perform
from tests.support.kill_runner import kill_child
from tests.support.ledger import Ledger


@pytest.mark.parametrize("case", quick_kills(), ids=str)
def test_a_killed_write_ends_whole_on_a_local_disk(tmp_path: Path, case: Case) -> None:
    _kill_and_check(str(tmp_path / "g"), tmp_path, case)


@pytest.mark.s3
@pytest.mark.parametrize("case", one_case_each(), ids=str)
def test_a_killed_write_ends_whole_on_s3(s3_root: str, tmp_path: Path, case: Case) -> None:
    _kill_and_check(s3_root, tmp_path, case)


@pytest.mark.torture
@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_killed_write_ends_whole_on_a_local_disk(tmp_path: Path, case: Case) -> None:
    _kill_and_check(str(tmp_path / "g"), tmp_path, case)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_killed_write_ends_whole_on_s3(s3_root: str, tmp_path: Path, case: Case) -> None:
    _kill_and_check(s3_root, tmp_path, case)


def _kill_and_check(uri: str, folder: Path, case: Case) -> None:
    arranged = arrange(uri, folder, case)
    target = arranged.target
    kill_child(target, f"{case.kind}=victim", case.point.name)
    commit = drafted_commit(uri) or ledgers.read(target.ledger)[-1].receipt
    interrupted = set(records(uri))
    with settled(uri, target.branch, target.ledger, mirrored=not _leaves_mirror_behind(case)) as graph:
        assert_ended(graph, arranged, case, case.point.end, commit)
        assert {recovery.operation_id for recovery in graph.recoveries} <= interrupted
        perform(graph, "insert_one", target.branch, Ledger(target.ledger), "next")
        assert_sound(graph, target.branch, target.ledger)


def _leaves_mirror_behind(case: Case) -> bool:
    """A commit of a branch that is published, acknowledged and not yet copied: nothing points at the gap."""
    return case.point.name.startswith("graph_publish.") and case.lineage != "main"
