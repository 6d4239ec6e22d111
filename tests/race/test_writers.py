"""Many writer processes on one branch, some of them killed on the way: nothing lost, nothing twice, one history."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.support import race_graph
from tests.support.race_runner import Race, assert_mirrors_are_complete, assert_sound, run


def race(uri: str, folder: Path, kind: str, **settings: object) -> Race:
    """Run a race on a new graph and check it."""
    folder.mkdir(exist_ok=True)
    made = Race(uri, folder, kind, **settings)  # type: ignore[arg-type]
    race_graph.init(uri, made.branch)
    run(made)
    assert_mirrors_are_complete(made)
    assert_sound(made)
    return made


def test_eight_processes_with_two_killed_insert_into_one_table(tmp_path: Path) -> None:
    finished = race(str(tmp_path / "graph"), tmp_path / "meet", "one_table", seed=1)
    operations = finished.operations_noted()
    assert len(operations) == 8 * 25
    assert sum(operation.state == "started" for operation in operations) <= finished.victims


def test_processes_with_two_killed_write_to_tables_of_their_own_on_a_branch(tmp_path: Path) -> None:
    race(
        str(tmp_path / "graph"),
        tmp_path / "meet",
        "own_table",
        branch="review/a",
        writers=4,
        operations=6,
        readers=1,
        seed=2,
    )


def test_groups_come_and_go_as_a_whole_and_nobody_is_refused(tmp_path: Path) -> None:
    race(str(tmp_path / "graph"), tmp_path / "meet", "mixed", writers=4, operations=12, victims=2, seed=4)


def test_no_increment_of_a_shared_counter_is_lost(tmp_path: Path) -> None:
    uri = str(tmp_path / "graph")
    race(uri, tmp_path / "meet", "increment", writers=3, operations=8, readers=0, victims=1, seed=5)
    assert_counter_counts_its_rows(uri)


@pytest.mark.s3
def test_processes_with_one_killed_write_groups_on_an_object_store(s3_root: str, tmp_path: Path) -> None:
    race(s3_root, tmp_path / "meet", "group", writers=3, operations=4, readers=1, victims=1, seed=6)


def assert_counter_counts_its_rows(uri: str) -> None:
    """Each increment and its row are one commit, so value and rows agree, killed writers included."""
    with og.open(uri, mode="ro") as graph:
        snapshot = graph.snapshot()
        values = [row["value"] for row in snapshot.arrow("Person").to_pylist() if row["name"] == race_graph.COUNTER]
        assert values == [snapshot.count("City")]


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["one_table", "own_table", "group", "mixed", "own_rows", "increment"])
def test_full_races_on_main_and_on_a_branch(kind: str, seed: int, tmp_path: Path) -> None:
    uri = str(tmp_path / "graph")
    race(uri, tmp_path / "meet", kind, branch="review/a" if seed % 2 else "main", seed=seed)
    if kind == "increment" and seed % 2 == 0:
        assert_counter_counts_its_rows(uri)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["one_table", "own_table", "group", "mixed", "own_rows", "increment"])
def test_full_races_on_an_object_store(kind: str, seed: int, s3_root: str, tmp_path: Path) -> None:
    branch = "review/a" if seed % 2 else "main"
    race(s3_root, tmp_path / "meet", kind, branch=branch, writers=4, operations=10, victims=1, seed=seed)
