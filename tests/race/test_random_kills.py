"""Writers killed at random moments, again and again on one graph; after each kill the ledgers explain every row."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import race_graph
from tests.support.race_runner import (
    Race,
    assert_mirrors_are_complete,
    assert_sound,
    kill_at_random,
    notes_in,
    spawn,
    write_once_more,
)

WRITERS = 2


def kill_in_rounds(uri: str, folder: Path, seed: int, rounds: int, branch: str) -> None:
    """Each round starts the writers anew, kills all of them at random moments, opens the graph and checks it."""
    folder.mkdir()
    (folder / "go").touch()
    race_graph.init(uri, branch)
    rng = random.Random(seed)
    for number in range(rounds):
        kind = rng.choice(["mixed", "group", "one_table"])
        # Operations are counted over all rounds, so every round ends far below the last one.
        race = Race(uri, folder, kind, branch=branch, writers=WRITERS, operations=10_000, readers=0)
        with ExitStack() as stack:
            children = [stack.enter_context(spawn(race, kind, writer)) for writer in range(WRITERS)]
            for writer, child in enumerate(children):
                ledger = race.ledger(writer)
                kill_at_random(child, ledger, notes_in(ledger) + rng.randrange(1, 12), rng)
                assert child.returncode < 0, f"round {number} of seed {seed}: the writer ended on its own"
        assert_sound(race)
        write_once_more(race)
        assert_mirrors_are_complete(race)


@pytest.mark.parametrize(("seed", "branch", "rounds"), [(1, "main", 1), (2, "review/a", 2)])
def test_a_graph_survives_random_kills_of_its_writers(seed: int, branch: str, rounds: int, tmp_path: Path) -> None:
    kill_in_rounds(str(tmp_path / "graph"), tmp_path / "meet", seed, rounds, branch)


@pytest.mark.s3
def test_a_graph_on_an_object_store_survives_random_kills_of_its_writers(s3_root: str, tmp_path: Path) -> None:
    kill_in_rounds(s3_root, tmp_path / "meet", 3, 1, "main")


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
def test_a_graph_survives_hundreds_of_random_kills(seed: int, tmp_path: Path) -> None:
    kill_in_rounds(str(tmp_path / "graph"), tmp_path / "meet", seed, 10, "review/a" if seed % 2 else "main")


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("seed", range(10))
def test_a_graph_on_an_object_store_survives_many_random_kills(seed: int, s3_root: str, tmp_path: Path) -> None:
    kill_in_rounds(s3_root, tmp_path / "meet", seed, 5, "review/a" if seed % 2 else "main")
