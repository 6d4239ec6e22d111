"""Two or three processes on one graph, held, killed and late at every step of the real commit protocol.

No lease helps here: the section keeps nobody out. What is left is what the store itself decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.protocol.cases import ON_BRANCH, OPERATIONS, RENAMES, Case, bounded, killing, play, randomly, steps_of
from tests.protocol.planted import DEFECTS, planted

#: Two operations at once, each way round; those on a branch once with the branch there and once without.
PAIRS = [
    Case((one, other), branch)
    for one, other in itertools.product(OPERATIONS, repeat=2)
    for branch in ((True, False) if {one, other} & {"make_dev"} else (bool({one, other} & ON_BRANCH.keys()),))
]

#: Renames against everything that a branch or its names can meet.
_MET = ("append_dev", "drop_dev", "renew_dev", "recover", *RENAMES)
PAIRS += [Case(pair, True) for pair in itertools.product(_MET, repeat=2) if set(pair) & RENAMES.keys()]

#: Pairs of which every place of two changes from one to the other is tried in the quick run.
CLOSE = [
    Case(("append_both", "append_both")),
    Case(("append", "overwrite")),
    Case(("add_edge", "drop_node")),
    Case(("increment", "increment")),
    Case(("append_dev", "append_dev"), True),
    Case(("append_dev", "renew_dev"), True),
    Case(("make_dev", "make_dev")),
    Case(("append_both", "recover")),
    Case(("move_dev", "make_moved"), True),
    Case(("move_dev", "move_dev"), True),
    Case(("move_and_back", "append_dev"), True),
]


def _first_wrong(case: Case, schedules: Iterator[tuple[int, ...]]) -> str | None:
    for switches in schedules:
        found = play(case, bounded(switches))
        if found:
            return f"play(Case({case.operations!r}, {case.branch}), bounded({switches}))\n{found[0]}"
    return None


@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_a_process_held_at_any_step_while_another_finishes_harms_nothing(case: Case) -> None:
    assert _first_wrong(case, ((held,) for held in range(steps_of(case, 0) + 1))) is None


@pytest.mark.parametrize("case", CLOSE, ids=str)
def test_two_processes_that_change_twice_at_any_steps_harm_nothing(case: Case) -> None:
    first, second = steps_of(case, 0), steps_of(case, 1)
    schedules = ((i, j) for i in range(1, first + 1) for j in range(1 + i % 2, second + 1, 2))
    assert _first_wrong(case, schedules) is None


@pytest.mark.parametrize("verdict", ["kill", "kill in flight"])
@pytest.mark.parametrize("case", CLOSE, ids=str)
def test_a_process_that_dies_at_any_step_and_whose_last_request_comes_late_harms_nothing(
    case: Case, verdict: str
) -> None:
    for steps in range(steps_of(case, 0) + 1):
        for until in (0, 4, 1000):
            assert play(case, killing(steps, verdict, until)) == [], f"killing({steps}, {verdict!r}, {until})"


@pytest.mark.parametrize("seed", range(300))
def test_three_processes_in_any_order_harm_nothing(seed: int) -> None:
    assert _random(seed) == [], f"seed {seed}"


def _random(seed: int) -> list[str]:
    names = list(OPERATIONS if seed % 3 else _MET)
    chosen = tuple(names[(seed * 7 + place * (seed // 5 + 3)) % len(names)] for place in range(3))
    return play(Case(chosen, bool(set(chosen) & (ON_BRANCH | RENAMES).keys())), randomly(seed))


@pytest.mark.parametrize("defect", DEFECTS)
def test_an_old_rule_that_is_put_back_is_found(defect: str) -> None:
    (operations, branch), _ = DEFECTS[defect]
    case = Case(operations, branch)
    steps = steps_of(case, 0)
    assert _first_wrong(case, ((held,) for held in range(steps + 1))) is None
    with planted(defect):
        held = _first_wrong(case, ((i, j) for i in range(steps + 1) for j in (1000, 3, 5, 7, 9, 11)))
        late = any(play(case, killing(dead, "kill in flight", 1000)) for dead in range(steps + 1))
    assert held is not None or late, f"no schedule shows: {defect}"


@pytest.mark.torture
@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_every_two_changes_of_every_pair_harm_nothing(case: Case) -> None:
    first, second = steps_of(case, 0), steps_of(case, 1)
    assert _first_wrong(case, iter(itertools.product(range(first + 1), range(second + 2)))) is None


@pytest.mark.torture
@pytest.mark.parametrize("case", CLOSE, ids=str)
def test_every_three_changes_of_close_pairs_harm_nothing(case: Case) -> None:
    first, second = min(steps_of(case, 0), 20), min(steps_of(case, 1), 20)
    schedules = ((i, j, k) for i in range(1, first) for j in range(1, second) for k in range(1, first - i + 1))
    assert _first_wrong(case, schedules) is None


@pytest.mark.torture
@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_every_death_of_every_pair_harms_nothing(case: Case) -> None:
    for verdict in ("kill", "kill in flight"):
        for steps in range(steps_of(case, 0) + 1):
            for until in range(steps_of(case, 1) + 1):
                assert play(case, killing(steps, verdict, until)) == [], f"killing({steps}, {verdict!r}, {until})"


@pytest.mark.torture
@pytest.mark.parametrize("block", range(100))
def test_thousands_of_random_schedules_of_three_harm_nothing(block: int) -> None:
    for seed in range(block * 200, block * 200 + 200):
        assert _random(seed) == [], f"seed {seed}"
