"""The two decision tables for records without redo, row by row, on numbers alone."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from omnigraph.storage.commit.sidecar import Sidecar, TableIntent, WriterKind
from omnigraph.storage.recovery.roll import Decision, TableState, classify, decide

STRICT = (WriterKind.MUTATION, WriterKind.LOAD)
MULTISTEP = (WriterKind.BRANCH_MERGE, WriterKind.SCHEMA_APPLY)
MAINTENANCE = (WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE)
PIN = 7

#: head, expected, post → what happened. The pin is 7.
_STRICT_ROWS = {
    (6, 7, 8): TableState.INVARIANT_VIOLATION,
    (0, 7, 8): TableState.INVARIANT_VIOLATION,
    (7, 7, 8): TableState.NO_MOVEMENT,
    (7, 6, 7): TableState.NO_MOVEMENT,
    (8, 7, 8): TableState.ROLLED_PAST_EXPECTED,
    (8, 7, 9): TableState.UNEXPECTED_AT_P1,
    (8, 7, 7): TableState.UNEXPECTED_AT_P1,
    (8, 6, 8): TableState.UNEXPECTED_AT_P1,
    (8, 6, 7): TableState.UNEXPECTED_AT_P1,
    (9, 7, 8): TableState.UNEXPECTED_MULTISTEP,
    (9, 7, 9): TableState.UNEXPECTED_MULTISTEP,
    (9, 6, 9): TableState.UNEXPECTED_MULTISTEP,
}

#: head, expected, maintenance only → for kinds that may commit several times; the announced version is a lower bound.
_LOOSE_ROWS = {
    (6, 7, False): (TableState.INVARIANT_VIOLATION,) * 2,
    (7, 7, False): (TableState.NO_MOVEMENT,) * 2,
    (7, 6, True): (TableState.NO_MOVEMENT,) * 2,
    (8, 7, True): (TableState.ROLLED_PAST_EXPECTED, TableState.INCOMPLETE_PHASE_B),
    (8, 7, False): (TableState.INCOMPLETE_PHASE_B,) * 2,
    (9, 7, True): (TableState.ROLLED_PAST_EXPECTED, TableState.INCOMPLETE_PHASE_B),
    (9, 7, False): (TableState.INCOMPLETE_PHASE_B,) * 2,
    (8, 6, True): (TableState.UNEXPECTED_AT_P1,) * 2,
    (8, 6, False): (TableState.UNEXPECTED_AT_P1,) * 2,
    (9, 6, True): (TableState.UNEXPECTED_MULTISTEP,) * 2,
    (9, 6, False): (TableState.UNEXPECTED_MULTISTEP,) * 2,
}


def _intent(key: str, expected: int = PIN, post: int = PIN + 1) -> TableIntent:
    return TableIntent(key, f"/graph/nodes/{key}", expected, post, None)


@pytest.mark.parametrize("kind", STRICT)
@pytest.mark.parametrize(("numbers", "state"), _STRICT_ROWS.items())
@pytest.mark.parametrize("maintenance_only", [False, True])
def test_a_kind_that_commits_once_must_match_exactly(
    kind: WriterKind, numbers: tuple[int, int, int], state: TableState, maintenance_only: bool
) -> None:
    head, expected, post = numbers
    assert classify(kind, _intent("a", expected, post), head, PIN, maintenance_only=maintenance_only) is state


@pytest.mark.parametrize("post", [PIN, PIN + 1, PIN + 2])
@pytest.mark.parametrize(("numbers", "states"), _LOOSE_ROWS.items())
def test_a_kind_that_commits_often_must_prove_that_it_came_to_its_end(
    numbers: tuple[int, int, bool], states: tuple[TableState, TableState], post: int
) -> None:
    head, expected, maintenance_only = numbers
    for kinds, state in zip((MAINTENANCE, MULTISTEP), states, strict=True):
        for kind in kinds:
            found = classify(kind, _intent("a", expected, post), head, PIN, maintenance_only=maintenance_only)
            assert found is state, kind


def _record(kind: WriterKind, expected: dict[str, int], *, aborted: bool = False) -> Sidecar:
    tables = tuple(_intent(key, version) for key, version in expected.items())
    return Sidecar("01JZ8V6N3T5Y7Q2K4M9X0B1C2D", "main", None, kind, tables, datetime.now(UTC), aborted=aborted)


def _decide(
    kind: WriterKind, *states: TableState, pin: int = PIN, aborted: bool = False, schema_staged: bool = False
) -> Decision:
    keys = [f"node:{number}" for number in range(len(states))]
    record = _record(kind, dict.fromkeys(keys, PIN), aborted=aborted)
    found = dict(zip(keys, states, strict=True))
    return decide(record, found, dict.fromkeys(keys, pin), schema_staged=schema_staged)


@pytest.mark.parametrize("kind", WriterKind)
@pytest.mark.parametrize("other", TableState)
@pytest.mark.parametrize("aborted", [False, True])
def test_one_broken_table_stops_everything(kind: WriterKind, other: TableState, aborted: bool) -> None:
    assert _decide(kind, other, TableState.INVARIANT_VIOLATION, aborted=aborted) is Decision.ABORT


@pytest.mark.parametrize("kind", WriterKind)
@pytest.mark.parametrize("state", [state for state in TableState if state is not TableState.INVARIANT_VIOLATION])
def test_a_record_that_its_writer_gave_up_is_taken_back_whatever_its_tables_say(
    kind: WriterKind, state: TableState
) -> None:
    assert _decide(kind, state, aborted=True) is Decision.ROLL_BACK


@pytest.mark.parametrize("kind", WriterKind)
def test_no_movement_above_the_expected_version_means_that_it_is_done(kind: WriterKind) -> None:
    still = TableState.NO_MOVEMENT
    assert _decide(kind, still, still, pin=PIN + 1) is Decision.STALE
    assert _decide(kind, still, still, pin=PIN) is Decision.ROLL_BACK


@pytest.mark.parametrize("kind", WriterKind)
def test_one_table_above_its_expected_version_is_enough_to_be_stale(kind: WriterKind) -> None:
    record = _record(kind, {"a": PIN, "b": PIN})
    states = dict.fromkeys("ab", TableState.NO_MOVEMENT)
    assert decide(record, states, {"a": PIN, "b": PIN + 1}) is Decision.STALE


@pytest.mark.parametrize("kind", WriterKind)
@pytest.mark.parametrize(
    "state", [TableState.UNEXPECTED_AT_P1, TableState.UNEXPECTED_MULTISTEP, TableState.INCOMPLETE_PHASE_B]
)
@pytest.mark.parametrize("other", [TableState.NO_MOVEMENT, TableState.ROLLED_PAST_EXPECTED])
def test_one_unexplained_table_takes_everything_back(kind: WriterKind, state: TableState, other: TableState) -> None:
    assert _decide(kind, state, other) is Decision.ROLL_BACK
    assert _decide(kind, other, state, pin=PIN + 1) is Decision.ROLL_BACK


@pytest.mark.parametrize("kind", WriterKind)
def test_everything_moved_as_announced_goes_forward(kind: WriterKind) -> None:
    moved = TableState.ROLLED_PAST_EXPECTED
    assert _decide(kind, moved, schema_staged=True) is Decision.ROLL_FORWARD
    assert _decide(kind, moved, moved, schema_staged=True) is Decision.ROLL_FORWARD


@pytest.mark.parametrize("states", [(), (TableState.ROLLED_PAST_EXPECTED,)], ids=str)
def test_a_schema_change_without_its_staged_files_never_came_to_its_end(states: tuple[TableState, ...]) -> None:
    assert _decide(WriterKind.SCHEMA_APPLY, *states) is Decision.ROLL_BACK


@pytest.mark.parametrize("head", [PIN + 1, PIN + 3])
def test_staged_schema_files_prove_that_every_table_of_a_schema_change_is_done(head: int) -> None:
    proven = {"maintenance_only": False, "schema_staged": True}
    intent = _intent("a", PIN, PIN + 1)
    assert classify(WriterKind.SCHEMA_APPLY, intent, head, PIN, **proven) is TableState.ROLLED_PAST_EXPECTED
    assert classify(WriterKind.BRANCH_MERGE, intent, head, PIN, **proven) is TableState.INCOMPLETE_PHASE_B


@pytest.mark.parametrize("kind", [*STRICT, *MULTISTEP])
def test_a_table_that_did_not_move_takes_its_siblings_back(kind: WriterKind) -> None:
    assert _decide(kind, TableState.ROLLED_PAST_EXPECTED, TableState.NO_MOVEMENT) is Decision.ROLL_BACK


@pytest.mark.parametrize("kind", MAINTENANCE)
def test_maintenance_keeps_what_is_done_and_leaves_out_the_rest(kind: WriterKind) -> None:
    assert _decide(kind, TableState.ROLLED_PAST_EXPECTED, TableState.NO_MOVEMENT) is Decision.ROLL_FORWARD


@pytest.mark.parametrize("kind", STRICT + MULTISTEP)
def test_a_record_without_tables_goes_forward(kind: WriterKind) -> None:
    assert _decide(kind, schema_staged=True) is Decision.ROLL_FORWARD


def test_every_combination_of_two_states_has_a_decision() -> None:
    for kind, one, two, pin in itertools.product(WriterKind, TableState, TableState, (PIN, PIN + 1)):
        assert _decide(kind, one, two, pin=pin) is _decide(kind, two, one, pin=pin)
