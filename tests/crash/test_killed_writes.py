"""A writer dies by SIGKILL at each failpoint: the next open shows all of its write or nothing, and carries on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.inspect_files import recorded_digests
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
from tests.support.kill_runner import Target, kill_child
from tests.support.ledger import Ledger


@pytest.mark.parametrize("case", quick_cases(), ids=str)
def test_a_killed_write_ends_whole_on_a_local_disk(tmp_path: Path, case: Case) -> None:
    _kill_and_check(arrange(str(tmp_path / "g"), tmp_path, case), case)


#: One failpoint for each state that a dead writer can leave on the disk.
_STATES = {
    "write.after_sidecar",
    "fork.post_create_pre_open",
    "write.after_table_commit",
    "write.after_all_table_commits",
    "write.after_all_table_commits[EnsureIndices]",
    "publish.lost_ack",
    "graph_publish.before_commit_append",
}


@pytest.mark.s3
def test_writers_killed_one_after_another_on_s3_leave_a_sound_graph(s3_root: str, tmp_path: Path) -> None:
    _kill_in_turn(s3_root, tmp_path, [case for case in one_case_each() if case.point.name in _STATES])


@pytest.mark.torture
@pytest.mark.s3
def test_writers_killed_at_every_failpoint_in_turn_on_s3_leave_a_sound_graph(s3_root: str, tmp_path: Path) -> None:
    _kill_in_turn(s3_root, tmp_path, one_case_each())


@pytest.mark.torture
@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_killed_write_ends_whole_on_a_local_disk(tmp_path: Path, case: Case) -> None:
    _kill_and_check(arrange(str(tmp_path / "g"), tmp_path, case), case)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_killed_write_ends_whole_on_s3(s3_root: str, tmp_path: Path, case: Case) -> None:
    _kill_and_check(arrange(s3_root, tmp_path, case), case)


def _kill_in_turn(uri: str, folder: Path, cases: list[Case]) -> None:
    """One graph lives through all of the kills; each writer meets what the one before left."""
    main = folder / "main.jsonl"
    graph = og.init(uri, SCHEMA, actor=ACTOR)
    perform(graph, "seed", MAIN, Ledger(main), "seed")
    ledgers_of = {MAIN: main}
    for number, case in enumerate(cases):
        ledger = main if case.lineage == "main" else Path(shutil.copy(main, folder / f"{number}.jsonl"))
        arranged = arrange_in(graph, ledger, case, f"review/{number}")
        graph.close()
        commit, interrupted = _kill(arranged, case, f"-{number}")
        graph = og.open(uri, actor=ACTOR)
        assert_ended(graph, arranged, case, case.point.end, commit)
        assert {recovery.operation_id for recovery in graph.recoveries} - arranged.audited <= interrupted
        perform(graph, "insert_one", arranged.target.branch, Ledger(ledger), f"next-{number}")
        ledgers_of[arranged.target.branch] = ledger
    graph.close()
    with settled(uri, MAIN, main) as graph:
        for branch, ledger in ledgers_of.items():
            assert_sound(graph, branch, ledger)


def _kill_and_check(arranged: Arranged, case: Case) -> None:
    target = arranged.target
    commit, interrupted = _kill(arranged, case)
    with settled(target.uri, target.branch, target.ledger, mirrored=not _leaves_mirror_behind(case)) as graph:
        assert_ended(graph, arranged, case, case.point.end, commit)
        assert {recovery.operation_id for recovery in graph.recoveries} <= interrupted
        perform(graph, "insert_one", target.branch, Ledger(target.ledger), "next")
        assert_sound(graph, target.branch, target.ledger)


def _kill(arranged: Arranged, case: Case, label: str = "") -> tuple[str | None, set[str]]:
    """Kill a writer; returns the commit it minted or was told of, and the operations that it left unfinished."""
    target = arranged.target
    kill_child(target, f"{case.kind}=victim{label}", case.point.name)
    commit = drafted_commit(target.uri) or ledgers.read(target.ledger)[-1].receipt
    return commit, set(records(target.uri))


def _leaves_mirror_behind(case: Case) -> bool:
    """A commit of a branch that is published, acknowledged and not yet copied: nothing points at the gap."""
    return case.point.name.startswith("graph_publish.") and case.lineage != "main"


@pytest.mark.parametrize("point", ["write.after_table_commit", "write.after_all_table_commits"])
def test_whoever_finishes_a_killed_write_publishes_its_digests(tmp_path: Path, point: str) -> None:
    uri, ledger = str(tmp_path / "g"), tmp_path / "ledger.jsonl"
    with og.init(uri, SCHEMA, actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, Ledger(ledger), "seed")
    kill_child(Target(uri, MAIN, ledger), "insert_one=killed", point)
    (record,) = records(uri).values()
    told = {name for table in record["tables"] for name in table["transactions"][0]["digests"]}
    with og.open(uri, actor=ACTOR) as graph:
        assert graph.verify(deep=True).problems == ()
        kept = recorded_digests(graph._store.snapshot(MAIN).handle)
        assert told and told <= kept.keys()
