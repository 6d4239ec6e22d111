"""The store fails at each failpoint while the writer lives on: the same handle must carry on without being reopened."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import EndpointMissing, OmniGraphError, RecoveryRequired
from omnigraph.write.change import Change, Mode
from tests.crash.table import (
    LINEAGES,
    POINTS,
    Arranged,
    Case,
    End,
    arrange,
    assert_ended,
    every_case,
    one_case_each,
    quick_cases,
)
from tests.support import ledger as ledgers
from tests.support.crash_checks import assert_sound, drafted_commit, files, records, settled
from tests.support.crash_graph import ACTOR, MAIN, edges, marks, perform
from tests.support.ledger import Ledger, name

#: Between the publish and the removal of the record nothing is asked of the store, so nothing can fail there.
_NO_STORE_CALL = {"write.after_publish_before_delete"}
_CAN_LOSE = {"table.lost_ack", "publish.lost_ack"}
_BEFORE_PUBLISH = next(point for point in POINTS if point.name == "write.after_all_table_commits")


def _failing(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.point.name not in _NO_STORE_CALL]


def _losing(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.point.name in _CAN_LOSE]


@pytest.mark.parametrize("case", _failing(quick_cases()), ids=str)
def test_a_failed_write_leaves_the_same_handle_able_to_write(tmp_path: Path, case: Case) -> None:
    _fail_and_check(str(tmp_path / "g"), tmp_path, case)


@pytest.mark.torture
@pytest.mark.parametrize("case", _failing(every_case()), ids=str)
def test_every_failed_write_leaves_the_same_handle_able_to_write(tmp_path: Path, case: Case) -> None:
    _fail_and_check(str(tmp_path / "g"), tmp_path, case)


@pytest.mark.s3
@pytest.mark.torture
@pytest.mark.parametrize("case", _failing(every_case()), ids=str)
def test_every_failed_write_on_s3_leaves_the_same_handle_able_to_write(
    s3_root: str, tmp_path: Path, case: Case
) -> None:
    _fail_and_check(s3_root, tmp_path, case)


@pytest.mark.parametrize("case", _losing(quick_cases()), ids=str)
def test_a_lost_acknowledgement_is_looked_up_and_reported_as_done(tmp_path: Path, case: Case) -> None:
    _lose_and_check(str(tmp_path / "g"), tmp_path, case)


@pytest.mark.s3
@pytest.mark.parametrize("case", _losing(one_case_each())[-1:], ids=str)
def test_a_lost_acknowledgement_on_s3_is_looked_up_and_reported_as_done(
    s3_root: str, tmp_path: Path, case: Case
) -> None:
    _lose_and_check(s3_root, tmp_path, case)


@pytest.mark.torture
@pytest.mark.parametrize("case", _losing(every_case()), ids=str)
def test_every_lost_acknowledgement_is_looked_up_and_reported_as_done(tmp_path: Path, case: Case) -> None:
    _lose_and_check(str(tmp_path / "g"), tmp_path, case)


@pytest.mark.parametrize("lineage", LINEAGES)
def test_the_next_overwrite_in_the_same_process_takes_the_finished_write_into_account(
    tmp_path: Path, lineage: str
) -> None:
    """An overwrite depends on the rows that are there, and those include what the failed write left to be finished."""
    case = Case(_BEFORE_PUBLISH, lineage, "insert_many")
    target = arrange(str(tmp_path / "g"), tmp_path, case).target
    with og.open(target.uri, actor=ACTOR) as graph:
        failpoints.arm(f"{case.point.name}=raise")
        with pytest.raises(RecoveryRequired):
            perform(graph, case.kind, target.branch, Ledger(target.ledger), "victim")
        failpoints.arm("")
        graph.write([Change("edge:Knows", edges([], "", ""), Mode.OVERWRITE)], branch=target.branch)
        assert marks(graph, target.branch)["edge:Knows"] == []
        assert name("victim", 0, 0) in marks(graph, target.branch)["node:Person"]


def test_removing_a_row_that_is_not_there_moves_nothing(tmp_path: Path) -> None:
    target = arrange(str(tmp_path / "g"), tmp_path, Case(_BEFORE_PUBLISH, "main", "insert_one")).target
    before = files(target.uri)
    with og.open(target.uri, actor=ACTOR) as graph:
        result = graph.write([Change("node:Person", remove=pa.array(["nobody"]))])
        assert (result.commit, result.removed) == (None, {})
        assert_sound(graph, MAIN, target.ledger)
    assert files(target.uri) == before


def test_a_write_that_is_refused_before_its_record_leaves_no_trace(tmp_path: Path) -> None:
    target = arrange(str(tmp_path / "g"), tmp_path, Case(_BEFORE_PUBLISH, "main", "insert_one")).target
    before = files(target.uri)
    with og.open(target.uri, actor=ACTOR) as graph:
        with pytest.raises(EndpointMissing):
            graph.write([Change("edge:Knows", edges(["lost"], "nobody", "nobody"))])
        assert_sound(graph, MAIN, target.ledger)
    assert files(target.uri) == before


def _fail_and_check(uri: str, folder: Path, case: Case) -> None:
    arranged = arrange(uri, folder, case)
    target = arranged.target
    with og.open(uri, actor=ACTOR) as graph:
        error = _write_while_armed(graph, arranged, case, f"{case.point.name}=raise")
        end = _expected_end(case, error)
        commit = drafted_commit(uri) or ledgers.read(target.ledger)[-1].receipt
        interrupted = set(records(uri))
        perform(graph, "insert_one", target.branch, Ledger(target.ledger), "next")
        assert_sound(graph, target.branch, target.ledger)
        history = [entry.id for entry in graph.commits.list(target.branch)]
        expected = [arranged.heads[target.branch], *([commit] if end == "new" else [])]
        assert list(reversed(history[1 : len(expected) + 1])) == expected
        assert {recovery.operation_id for recovery in graph.recoveries} <= interrupted
    with settled(uri, target.branch, target.ledger) as graph:
        perform(graph, "insert_one", target.branch, Ledger(target.ledger), "after")


def _expected_end(case: Case, error: OmniGraphError | None) -> End:
    """What the caller was told must be what happened."""
    several = case.kind == "index" and case.lineage == "main"
    if case.point.name == "write.before_table_commit[EnsureIndices]" and several:
        # One table failed, the others went on in their threads; the caller hears which of the two it was.
        return "new" if isinstance(error, RecoveryRequired) else "old"
    assert type(error) is (case.point.error or type(None))
    return "new" if error is None else case.point.end


def _lose_and_check(uri: str, folder: Path, case: Case) -> None:
    arranged = arrange(uri, folder, case)
    target = arranged.target
    with og.open(uri, actor=ACTOR) as graph:
        error = _write_while_armed(graph, arranged, case, f"{case.point.name}=lose")
        assert error is None
        assert records(uri) == {}
        assert_ended(graph, arranged, case, "new", ledgers.read(target.ledger)[-1].receipt)
        assert graph.recoveries == []
    with settled(uri, target.branch, target.ledger) as graph:
        perform(graph, "insert_one", target.branch, Ledger(target.ledger), "next")
        assert_sound(graph, target.branch, target.ledger)


def _write_while_armed(graph: og.Graph, arranged: Arranged, case: Case, points: str) -> OmniGraphError | None:
    """Run the operation of the case; returns what its caller saw. The failpoint must have struck."""
    failpoints.arm(points)
    try:
        perform(graph, case.kind, arranged.target.branch, Ledger(arranged.target.ledger), "victim")
        return None
    except OmniGraphError as error:
        return error
    finally:
        graph._store.mirror.flush()
        struck = failpoints._armed[case.point.name].countdown <= 0
        failpoints.arm("")
        assert struck, f"{case.point.name} was not reached"
