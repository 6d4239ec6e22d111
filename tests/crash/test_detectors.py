"""The checks that the crash tests rely on must be able to fail: each is shown a planted defect."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from tests.crash.foreign import PERSON, ForeignRecord, foreign_record
from tests.support import ledger as ledgers
from tests.support.crash_checks import assert_sound, records, settled
from tests.support.crash_graph import ACTOR, MAIN
from tests.support.kill_runner import Target, kill_child, spawn
from tests.support.ledger import Ledger, name

A, B = name(1, 1, 0), name(1, 1, 1)


def _noted(path: Path) -> Ledger:
    ledger = Ledger(path / "ledger.jsonl")
    ledger.start("both", {"people": [A], "firms": [B]})
    return ledger


def _violations(path: Path, **present: list[str]) -> list[str]:
    return ledgers.violations(ledgers.read(path / "ledger.jsonl"), {"people": [], "firms": [], **present})


def test_values_name_their_writer_and_operation() -> None:
    assert (name(17, 42), name(17, 42, 3)) == ("writer-17-op-42", "writer-17-op-42-row-3")


def test_an_acknowledged_operation_must_be_there_exactly_once(tmp_path: Path) -> None:
    _noted(tmp_path).acknowledge("both", "receipt")
    assert _violations(tmp_path, people=[A], firms=[B]) == []
    assert len(_violations(tmp_path, people=[A])) == 1
    assert len(_violations(tmp_path)) == 2
    assert len(_violations(tmp_path, people=[A, A], firms=[B])) == 1
    assert [operation.receipt for operation in ledgers.read(tmp_path / "ledger.jsonl")] == ["receipt"]


def test_a_refused_operation_must_not_be_there(tmp_path: Path) -> None:
    _noted(tmp_path).refuse("both")
    assert _violations(tmp_path) == []
    assert len(_violations(tmp_path, people=[A])) == 1


def test_an_unknown_operation_must_be_there_wholly_or_not_at_all(tmp_path: Path) -> None:
    _noted(tmp_path)
    assert _violations(tmp_path) == []
    assert _violations(tmp_path, people=[A], firms=[B]) == []
    assert len(_violations(tmp_path, people=[A])) == 1
    assert len(_violations(tmp_path, firms=[B])) == 1


def test_a_row_from_nowhere_is_found(tmp_path: Path) -> None:
    _noted(tmp_path).acknowledge("both")
    (sentence,) = _violations(tmp_path, people=[A, "stranger"], firms=[B])
    assert "stranger" in sentence
    assert "no operation" in sentence


def test_a_removed_row_must_stay_away_and_its_removal_must_be_whole(tmp_path: Path) -> None:
    ledger = _noted(tmp_path)
    ledger.acknowledge("both")
    ledger.start("gone", {}, {"people": [A], "firms": [B]})
    assert _violations(tmp_path, people=[A], firms=[B]) == []
    assert _violations(tmp_path) == []
    assert len(_violations(tmp_path, people=[A])) == 1
    ledger.acknowledge("gone")
    assert _violations(tmp_path) == []
    assert len(_violations(tmp_path, people=[A])) == 1


def test_an_operation_must_not_be_started_twice(tmp_path: Path) -> None:
    _noted(tmp_path).start("both", {})
    with pytest.raises(AssertionError, match="twice"):
        ledgers.read(tmp_path / "ledger.jsonl")


def test_a_ledger_survives_the_writer_that_is_killed(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    kill_child(Target(place.uri, MAIN, place.ledger), "insert_one=victim", "write.after_stage")
    assert ledgers.read(place.ledger)[-1].name == "victim"
    assert ledgers.read(place.ledger)[-1].state == "started"


def test_a_child_that_was_not_killed_fails_the_test(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    with pytest.raises(AssertionError, match="reached no failpoint"):
        kill_child(Target(place.uri, MAIN, place.ledger), "open=", "write.after_stage")


def test_a_child_is_gone_when_its_block_ends(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    with spawn(Target(place.uri, MAIN, place.ledger), "open=") as child:
        assert child.poll() is None
    assert child.returncode == -signal.SIGKILL


def _drift(place: ForeignRecord) -> None:
    lance.dataset(f"{place.uri}/{place.pins[PERSON].location}").create_scalar_index("name", "BTREE")


def _stray_record(place: ForeignRecord) -> None:
    place.leave_record("Mutation", [])


def _commit_copied_twice(place: ForeignRecord) -> None:
    mirror = lance.dataset(f"{place.uri}/{COMMITS_PATH}")
    lance.write_dataset(mirror.to_table().slice(0, 1), mirror, mode="append")


def _actor_copied_twice(place: ForeignRecord) -> None:
    mirror = lance.dataset(f"{place.uri}/{ACTORS_PATH}")
    lance.write_dataset(mirror.to_table().slice(0, 1), mirror, mode="append")


def _unnoted_row(place: ForeignRecord) -> None:
    Ledger(place.ledger).start("never", {PERSON: ["never-written"]})
    Ledger(place.ledger).acknowledge("never")


@pytest.mark.parametrize("plant", [_drift, _stray_record, _commit_copied_twice, _actor_copied_twice, _unnoted_row])
def test_a_planted_defect_is_found(tmp_path: Path, plant: Callable[[ForeignRecord], None]) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    with og.open(place.uri, actor=ACTOR) as graph:
        assert_sound(graph, MAIN, place.ledger)
        plant(place)
        with pytest.raises(AssertionError):
            assert_sound(graph, MAIN, place.ledger)


def test_an_open_that_changes_something_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    real = og.open

    def leave_a_trace(uri: str, **options: str) -> og.Graph:
        Path(uri, "trace").write_text(str(len(list(Path(uri).iterdir()))))
        found: og.Graph = real(uri, **options)  # type: ignore[call-overload]
        return found

    monkeypatch.setattr(og, "open", leave_a_trace)
    with pytest.raises(AssertionError, match="changed something"), settled(place.uri, MAIN, place.ledger):
        pass
    assert records(place.uri) == {}
