"""A busy table starves nobody: whoever names rows by their id gets its turn after a bounded number of attempts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import EndpointMissing, ExpectedVersionMismatch, PreconditionFailed
from omnigraph.write.change import Change
from tests.support import race_graph
from tests.support.race_graph import group_changes, rows
from tests.support.race_runner import Race, assert_mirrors_are_complete, assert_sound, run
from tests.support.small_graphs import people, start_child

#: Arranges what another writer does each time a write has been staged; gives the turns that this one took.
Outrun = Callable[[Callable[[int], object]], list[int]]

#: A write is staged this often at most; after that it is computed inside the section.
MOST = limits.REPREPARE_BUDGET + 1


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """A group of two nodes and an edge by the name of ``old``, and a person called ``kept``."""
    uri = str(tmp_path / "graph")
    race_graph.init(uri)
    with og.open(uri) as graph:
        graph.write(group_changes("old"))
        graph.write([Change("node:Person", rows("kept"))])
        yield graph


@pytest.fixture
def outrun(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> Outrun:
    """Arranges that somebody else commits each time a write has been staged and asks for its turn."""

    def arrange(rival: Callable[[int], object]) -> list[int]:
        real, turns = failpoints.reach, list[int]()

        def reach(name: str, kind: str = "") -> None:
            real(name, kind)
            if name == "write.after_stage":
                monkeypatch.setattr(failpoints, "reach", real)
                turns.append(len(turns))
                rival(turns[-1])
                monkeypatch.setattr(failpoints, "reach", reach)

        monkeypatch.setattr(failpoints, "reach", reach)
        return turns

    return arrange


def remove(*names: str, table: str = "node:Person") -> Change:
    return Change(table, remove=pa.array(names))


def test_a_removal_by_id_that_is_always_outrun_gets_its_turn_in_the_section(graph: og.Graph, outrun: Outrun) -> None:
    with og.open(graph.uri) as rival:
        turns = outrun(lambda turn: rival.write([Change("node:Person", rows(f"new-{turn}"))]))
        done = graph.write([remove("kept")])
    assert (len(turns), done.removed) == (MOST, {"node:Person": 1})
    names = graph.snapshot().arrow("Person", ["name"]).column("name").to_pylist()
    assert sorted(names) == sorted(["counter", "old", *(f"new-{turn}" for turn in turns)])


def test_a_removal_is_checked_against_the_rows_that_came_meanwhile(graph: og.Graph, outrun: Outrun) -> None:
    """The rows are named, the rules still read: an edge that came meanwhile keeps its node."""
    edge = pa.table({"id": ["late"], "src": ["kept"], "dst": ["old"], "mark": ["late"]})

    def add_edge(turn: int) -> None:
        if turn == 0:
            rival.write([Change("edge:LivesIn", edge)])

    with og.open(graph.uri) as rival:
        outrun(add_edge)
        with pytest.raises(EndpointMissing):
            graph.write([remove("kept")])
    assert "kept" in graph.snapshot().arrow("Person", ["name"]).column("name").to_pylist()


def test_a_removal_whose_rows_somebody_else_removed_changes_nothing(graph: og.Graph, outrun: Outrun) -> None:
    with og.open(graph.uri) as rival:
        outrun(lambda turn: rival.write([remove("kept")]))
        done = graph.write([remove("kept")])
        assert (done.commit, done.removed) == (None, {})
        assert graph.commits.head() == rival.commits.head()


def test_a_removal_computed_from_a_named_state_is_refused_when_its_table_moved(graph: og.Graph, outrun: Outrun) -> None:
    base, head = graph.snapshot(), graph.commits.head().id
    with og.open(graph.uri) as rival:
        turns = outrun(lambda turn: rival.write([Change("node:Person", rows(f"new-{turn}"))]))
        with pytest.raises(ExpectedVersionMismatch, match="stale view of 'node:Person'"):
            graph.write([remove("kept")], base=base)
        with pytest.raises(PreconditionFailed):
            graph.write([remove("kept")], if_commit=head)
    assert len(turns) == 1, "a refused write was tried again"
    assert graph.snapshot().count("Person") == 4


def contend(uri: str, folder: Path, **settings: int) -> Race:
    """Every third writer adds rows to a table all the time, the others change rows of their own in it."""
    folder.mkdir()
    race = Race(uri, folder, "own_rows", readers=0, victims=0, **settings)  # type: ignore[arg-type]
    race_graph.init(uri)
    run(race)
    assert_mirrors_are_complete(race)
    assert_sound(race)
    return race


def assert_nothing_was_lost(race: Race) -> None:
    """Every operation was acknowledged, and every update of a row that is left is in the row."""
    operations = race.operations_noted()
    assert len(operations) == race.writers * race.operations
    assert {operation.state for operation in operations} == {"acknowledged"}
    with og.open(race.uri, mode="ro") as graph:
        values = {row["name"]: row["value"] for row in graph.snapshot().arrow("Person").to_pylist()}
    for writer in (number for number in range(race.writers) if number % 3 != 2):
        updated = {f"writer-{writer}-op-{op - 2}": op for op in range(3, race.operations, 4)}
        left = {name: value for name, value in updated.items() if name in values}
        assert left, "no updated row is left"
        assert {name: values[name] for name in left} == left


def assert_efforts_were_bounded(race: Race) -> None:
    for writer in range(race.writers):
        efforts = json.loads((race.folder / f"effort-{writer}.json").read_text())
        assert max(efforts) <= MOST, f"writer {writer}: {efforts}"


def longest_wait(race: Race) -> int:
    """The most commits that others made between two commits of one writer, or before its first."""
    with og.open(race.uri, mode="ro") as graph:
        actors = [commit.actor for commit in reversed(graph.commits.list("main"))][2:]
    waits, last = Counter[str | None](), {f"act-{writer}": -1 for writer in range(race.writers)}
    for place, actor in enumerate(actors):
        assert actor in last
        waits[actor] = max(waits[actor], place - last[actor] - 1)
        last[actor] = place
    return max(waits.values())


def test_processes_change_rows_of_their_own_in_a_table_that_others_fill(tmp_path: Path) -> None:
    race = contend(str(tmp_path / "graph"), tmp_path / "meet", writers=6, operations=8)
    assert_nothing_was_lost(race)
    assert_efforts_were_bounded(race)


@pytest.mark.s3
def test_processes_change_rows_of_their_own_under_the_lease_of_an_object_store(s3_root: str, tmp_path: Path) -> None:
    race = contend(s3_root, tmp_path / "meet", writers=3, operations=4)
    assert_nothing_was_lost(race)
    assert_efforts_were_bounded(race)


@pytest.mark.torture
def test_the_section_of_a_local_disk_goes_round(tmp_path: Path) -> None:
    race = contend(str(tmp_path / "graph"), tmp_path / "meet", writers=6, operations=40)
    assert_nothing_was_lost(race)
    assert_efforts_were_bounded(race)
    assert longest_wait(race) <= 120, "somebody waited until nearly all others were done"


@pytest.mark.torture
@pytest.mark.s3
def test_the_lease_of_an_object_store_goes_round(s3_root: str, tmp_path: Path) -> None:
    race = contend(s3_root, tmp_path / "meet", writers=4, operations=20)
    assert_nothing_was_lost(race)
    assert_efforts_were_bounded(race)
    assert longest_wait(race) <= 40, "somebody waited until nearly all others were done"


_BUSY = """
import sys
import omnigraph as og
from tests.support.small_graphs import persons
graph = og.open(sys.argv[1])
print("ready", flush=True)
for number in range(1000):
    graph.write([persons(f"busy{number}")])
    print(number, flush=True)
"""


@pytest.mark.s3
def test_a_load_that_takes_longer_than_a_lease_comes_through_on_a_busy_branch(
    s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process commits to the same table all the time, and a lease lasts only a part of what staging takes."""
    monkeypatch.setenv("OMNIGRAPH_LEASE_SECONDS", "0.3")
    rows = pa.table({"handle": [f"row{number:06}" for number in range(60_000)]})
    with people(s3_root) as graph, start_child(_BUSY, s3_root) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            assert child.stdout.readline() == "0\n"
            done = graph.load({"Person": rows}, "append", engine="embedded")
            assert done.nodes == {"Person": 60_000}
            assert child.poll() is None, "the other writer is alive and was not refused"
        finally:
            child.kill()
        assert graph.snapshot().count("Person") > 60_000
        assert graph.verify().ok
