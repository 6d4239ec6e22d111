"""The recovery itself is interrupted: whoever comes next carries on, and the operation is audited once."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired, StoreUnavailable, UncoveredDrift
from omnigraph.storage.commit import sidecar
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from tests.crash.foreign import COMPANY, OPERATION, PERSON, foreign_record, foreign_record_of
from tests.crash.table import LINEAGES, POINTS, Arranged, Case, arrange, assert_ended
from tests.support.crash_checks import assert_sound, assert_whole, drafted_commit, records, settled
from tests.support.crash_graph import ACTOR, MAIN, TABLES, marks, perform
from tests.support.kill_runner import Rendezvous, Target, kill_child, kill_opening, run_child, spawn
from tests.support.ledger import Ledger

_AFTER_SIDECAR = next(point for point in POINTS if point.name == "write.after_sidecar")
_BEFORE_PUBLISH = next(point for point in POINTS if point.name == "write.after_all_table_commits")

#: Every step of finishing a write, in the order in which recovery comes by.
_STEPS = (
    "recovery.sidecar_list",
    "recovery.post_sidecar_list_pre_read",
    "table.lost_ack",
    "recovery.before_roll_forward_publish",
    "publish.before_commit",
    "publish.lost_ack",
    "recovery.record_audit",
    "recovery.sidecar_delete",
)


def _interrupted(uri: str, folder: Path, case: Case) -> Arranged:
    """A write that failed after its record was durable; its handle is gone."""
    arranged = arrange(uri, folder, case)
    with og.open(uri, actor=ACTOR) as graph:
        failpoints.arm(f"{case.point.name}=raise")
        with pytest.raises((StoreUnavailable, RecoveryRequired)):
            perform(graph, case.kind, arranged.target.branch, _forgetful(arranged), "victim")
        failpoints.arm("")
    return arranged


def _forgetful(arranged: Arranged) -> Ledger:
    """A ledger whose writer does not live to note the end."""

    class Forgetful(Ledger):
        def refuse(self, operation: str) -> None:
            """The writer is dead."""

    return Forgetful(arranged.target.ledger)


def _commit_staged(uri: str, keys: set[str]) -> None:
    """Let some of the tables of the interrupted write get their commit, as if it had come so far."""
    location = parse_location(uri)
    (operation,) = [name for name, record in records(uri).items() if record["tables"]]
    record = sidecar.read(ObjectStore(location), operation)
    assert record is not None
    for table in record.tables:
        if table.table_key in keys and table.staged is not None:
            address = f"{table.uri}/tree/{table.branch}" if table.branch else table.uri
            head = lance.dataset(address, storage_options=dict(location.options) or None)
            landed = lance.LanceDataset.commit(head, sidecar.transaction(table.staged, operation), max_retries=0)
            assert landed.version == table.post_commit_pin


@pytest.mark.parametrize("lineage", LINEAGES)
@pytest.mark.parametrize(
    ("kind", "landed"), [("overwrite", TABLES[:1]), ("insert_many", TABLES[1:3]), ("overwrite", TABLES[3:])]
)
def test_a_write_that_moved_any_of_its_tables_is_completed(
    tmp_path: Path, kind: str, lineage: str, landed: tuple[str, ...]
) -> None:
    case = Case(_AFTER_SIDECAR, lineage, kind)
    uri = str(tmp_path / "g")
    arranged = _interrupted(uri, tmp_path, case)
    commit = drafted_commit(uri)
    _commit_staged(uri, set(landed))
    with settled(uri, arranged.target.branch, arranged.target.ledger) as graph:
        assert_ended(graph, arranged, case, "new", commit)
        assert [recovery.kind for recovery in graph.recoveries] == ["RolledForward"]
        perform(graph, "insert_one", arranged.target.branch, Ledger(arranged.target.ledger), "next")
        assert_sound(graph, arranged.target.branch, arranged.target.ledger)


@pytest.mark.torture
@pytest.mark.parametrize("lineage", LINEAGES)
@pytest.mark.parametrize("landed", [c for n in range(5) for c in itertools.combinations(TABLES, n)], ids=",".join)
def test_a_write_that_moved_any_set_of_its_tables_is_completed(
    tmp_path: Path, lineage: str, landed: tuple[str, ...]
) -> None:
    case = Case(_AFTER_SIDECAR, lineage, "insert_many")
    uri = str(tmp_path / "g")
    arranged = _interrupted(uri, tmp_path, case)
    commit = drafted_commit(uri)
    _commit_staged(uri, set(landed))
    with settled(uri, arranged.target.branch, arranged.target.ledger) as graph:
        assert_ended(graph, arranged, case, "new" if landed else "old", commit)


@pytest.mark.torture
@pytest.mark.parametrize("step", _STEPS)
def test_a_recovery_killed_at_any_step_is_finished_by_the_next(tmp_path: Path, step: str) -> None:
    _kill_recovery(str(tmp_path / "g"), tmp_path, "later", [step])


def test_a_recovery_killed_again_and_again_converges_with_one_audit_row(tmp_path: Path) -> None:
    _kill_recovery(str(tmp_path / "g"), tmp_path, "main", list(_STEPS[2:]))


@pytest.mark.torture
@pytest.mark.s3
def test_a_recovery_killed_twice_on_s3_converges_with_one_audit_row(s3_root: str, tmp_path: Path) -> None:
    _kill_recovery(s3_root, tmp_path, "main", ["recovery.before_roll_forward_publish", "recovery.record_audit"])


def _kill_recovery(uri: str, folder: Path, lineage: str, steps: list[str]) -> None:
    case = Case(_AFTER_SIDECAR, lineage, "insert_many")
    arranged = _interrupted(uri, folder, case)
    commit = drafted_commit(uri)
    _commit_staged(uri, {"node:Person"})
    for step in steps:
        kill_opening(arranged.target, step)
    with settled(uri, arranged.target.branch, arranged.target.ledger) as graph:
        assert_ended(graph, arranged, case, "new", commit)
        assert [(recovery.kind, recovery.commit_id) for recovery in graph.recoveries] == [("RolledForward", commit)]
        perform(graph, "insert_one", arranged.target.branch, Ledger(arranged.target.ledger), "next")
        assert_sound(graph, arranged.target.branch, arranged.target.ledger)


@pytest.mark.parametrize("step", _STEPS)
def test_a_recovery_that_fails_at_any_step_fails_the_open_and_the_next_succeeds(tmp_path: Path, step: str) -> None:
    case = Case(_AFTER_SIDECAR, "later", "insert_many")
    uri = str(tmp_path / "g")
    arranged = _interrupted(uri, tmp_path, case)
    commit = drafted_commit(uri)
    _commit_staged(uri, {"node:Person"})
    failpoints.arm(f"{step}=raise")
    if step == "recovery.sidecar_delete":  # a record that cannot be removed is stale, and harmless
        og.open(uri, actor=ACTOR).close()
    else:
        with pytest.raises(StoreUnavailable):
            og.open(uri, actor=ACTOR)
    assert len(records(uri)) == 1
    failpoints.arm("")
    with settled(uri, arranged.target.branch, arranged.target.ledger) as graph:
        assert_ended(graph, arranged, case, "new", commit)
        assert len(graph.recoveries) == 1


def test_a_fresh_process_recovers_and_writes(tmp_path: Path) -> None:
    case = Case(_BEFORE_PUBLISH, "fork", "insert_many")
    arranged = arrange(str(tmp_path / "g"), tmp_path, case)
    kill_child(arranged.target, "insert_many=victim", case.point.name)
    assert run_child(arranged.target, "insert_one=next", "index=more") == ["insert_one=next done", "index=more done"]
    with settled(arranged.target.uri, arranged.target.branch, arranged.target.ledger) as graph:
        assert [recovery.kind for recovery in graph.recoveries] == ["RolledForward"]


def test_a_live_process_finishes_the_write_of_a_dead_one_without_reopening(tmp_path: Path) -> None:
    case = Case(_BEFORE_PUBLISH, "later", "insert_many")
    arranged = arrange(str(tmp_path / "g"), tmp_path, case)
    target = arranged.target
    with og.open(target.uri, actor=ACTOR) as graph:
        kill_child(target, "insert_many=victim", case.point.name)
        perform(graph, "insert_one", MAIN, Ledger(tmp_path / "main.jsonl"), "elsewhere")
        assert len(records(target.uri)) == 1, "a write to another branch has no business with this record"
        perform(graph, "upsert_delete", target.branch, Ledger(target.ledger), "next")
        assert_sound(graph, target.branch, target.ledger)
        assert len(graph.recoveries) == 1


def test_recover_on_demand_says_how_many_writes_it_resolved(tmp_path: Path) -> None:
    case = Case(_BEFORE_PUBLISH, "fork", "insert_many")
    arranged = arrange(str(tmp_path / "g"), tmp_path, case)
    target = arranged.target
    with og.open(target.uri, actor=ACTOR) as graph:
        kill_child(target, "insert_many=victim", case.point.name)
        assert graph.recover() == 1
        assert graph.recover() == 0
        assert_sound(graph, target.branch, target.ledger)


def test_a_cancelled_write_is_finished_by_the_next_one_in_the_same_process(tmp_path: Path) -> None:
    case = Case(_BEFORE_PUBLISH, "main", "insert_many")
    arranged = arrange(str(tmp_path / "g"), tmp_path, case)
    meeting = Rendezvous(tmp_path / "meeting")
    steps = ("insert_many=victim", "insert_one=next")
    with spawn(arranged.target, *steps, failpoints=f"{case.point.name}={meeting.action}") as child:
        meeting.wait(child)
        commit = drafted_commit(arranged.target.uri)
        child.send_signal(signal.SIGINT)
        said, complaint = child.communicate(timeout=60)
    assert said.splitlines() == ["insert_many=victim KeyboardInterrupt", "insert_one=next done"], complaint
    with settled(arranged.target.uri, MAIN, arranged.target.ledger) as graph:
        history = [entry.id for entry in graph.commits.list(MAIN)]
        assert history[1:3] == [commit, arranged.heads[MAIN]]


def test_a_record_that_vanishes_between_listing_and_reading_was_finished_by_its_writer(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    meeting = Rendezvous(tmp_path / "meeting")
    place.leave_record("Mutation", [(PERSON, place.pins[PERSON].version, place.pins[PERSON].version + 1)])
    target = Target(place.uri, MAIN, place.ledger)
    with spawn(target, "open=", failpoints=f"recovery.post_sidecar_list_pre_read={meeting.action}") as child:
        meeting.wait(child)
        ObjectStore(parse_location(place.uri)).delete(f"__recovery/{OPERATION}.json")
        meeting.release()
        said, complaint = child.communicate(timeout=60)
    assert (child.returncode, said) == (0, "open= done\n"), complaint
    with settled(place.uri, MAIN, place.ledger) as graph:
        assert graph.recoveries == []


def test_a_listing_that_fails_fails_the_open_and_the_write(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    failpoints.arm("recovery.sidecar_list=raise")
    with pytest.raises(StoreUnavailable):
        og.open(place.uri)
    failpoints.arm("")
    with og.open(place.uri, actor=ACTOR) as graph:
        failpoints.arm("recovery.sidecar_list=raise")
        with pytest.raises(StoreUnavailable):
            perform(graph, "insert_one", MAIN, Ledger(place.ledger), "refused")
        failpoints.arm("")
        assert_sound(graph, MAIN, place.ledger)


@pytest.mark.s3
def test_two_recoveries_of_one_write_converge_on_one_audit_row(s3_root: str, tmp_path: Path) -> None:
    """The first is held so long that its lease ends; the second takes over and publishes."""
    case = Case(_AFTER_SIDECAR, "main", "insert_many")
    arranged = _interrupted(s3_root, tmp_path, case)
    commit = drafted_commit(s3_root)
    _commit_staged(s3_root, {"node:Person"})
    meeting = Rendezvous(tmp_path / "meeting")
    point = f"recovery.before_roll_forward_publish={meeting.action}"
    with spawn(arranged.target, "open=", failpoints=point, env={"OMNIGRAPH_LEASE_SECONDS": "0.5"}) as child:
        meeting.wait(child)
        with og.open(s3_root, actor=ACTOR) as graph:
            assert_ended(graph, arranged, case, "new", commit)
        meeting.release()
        said, complaint = child.communicate(timeout=60)
    assert (child.returncode, said) == (0, "open= done\n"), complaint
    with settled(s3_root, MAIN, arranged.target.ledger) as graph:
        assert len(graph.recoveries) == 1


def test_a_write_whose_place_another_program_took_is_void_and_the_rest_can_be_taken_back(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    arranged = _interrupted(uri, tmp_path, Case(_AFTER_SIDECAR, "main", "insert_many"))
    _commit_staged(uri, {COMPANY})
    foreign_record_of(uri, arranged.target.ledger).move(PERSON, "append")
    with og.open(uri, actor=ACTOR) as graph:
        graph.recover()
        assert records(uri) == {}
        assert [each.kind for each in graph.recoveries] == ["RolledBack"]
        assert graph.commits.head().id == arranged.heads[MAIN]
        rows = marks(graph, MAIN)
        with pytest.raises(UncoveredDrift, match="other software") as caught:
            perform(graph, "insert_many", MAIN, Ledger(arranged.target.ledger), "refused")
        assert "repair(confirm=True, discard=True)" in str(caught.value.hint)
        assert graph.recover(discard=True) == 1
        assert marks(graph, MAIN) == rows
        assert graph.commits.head().actor == "omnigraph:repair"
        perform(graph, "insert_many", MAIN, Ledger(arranged.target.ledger), "next")
        assert_whole(graph)


def test_a_write_that_is_all_there_is_shown_whatever_another_program_did_after_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    arranged = _interrupted(uri, tmp_path, Case(_AFTER_SIDECAR, "main", "insert_many"))
    _commit_staged(uri, set(TABLES))
    foreign_record_of(uri, arranged.target.ledger).move(PERSON, "append")
    with og.open(uri, actor=ACTOR) as graph:
        graph.recover()
        assert records(uri) == {}
        assert [each.kind for each in graph.recoveries] == ["RolledForward"]
        assert graph.commits.head().parent == arranged.heads[MAIN]
        assert graph.recover(discard=True) == 1
        assert_whole(graph)


@pytest.mark.parametrize("lineage", LINEAGES)
@pytest.mark.parametrize("kind", ["insert_many", "upsert_delete", "overwrite"])
def test_versions_that_nobody_will_ever_show_are_passed_over_also_by_a_writer_that_dies_there(
    tmp_path: Path, kind: str, lineage: str
) -> None:
    """A write committed some tables after its record was dropped: it came too late. Its rows never appear."""
    uri = str(tmp_path / "g")
    arranged = _interrupted(uri, tmp_path, Case(_AFTER_SIDECAR, lineage, kind))
    _commit_staged(uri, set(TABLES[:2]))
    (operation,) = [name for name, record in records(uri).items() if record["tables"]]
    sidecar.remove(ObjectStore(parse_location(uri)), operation)
    branch = arranged.target.branch
    with og.open(uri, mode="ro") as reader:
        before, report = marks(reader, branch), reader.verify()
        assert report.ok, str(report)
        assert [problem.check for problem in report.problems if problem.check == "heads"] or lineage == "fork"
    kill_child(arranged.target, "insert_many=dead", "recovery.post_drift_restore")
    with og.open(uri, actor=ACTOR) as graph:
        assert marks(graph, branch) == before
        perform(graph, "insert_many", branch, _forgetful(arranged), "next")
        assert "victim" not in str(marks(graph, branch))
        assert_whole(graph)
