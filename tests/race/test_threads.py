"""Many threads share one open graph: the same promises as between processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.write.change import Change, Mode
from tests.support import race_graph
from tests.support.ledger import Ledger, name
from tests.support.race_graph import GROUP, marks, perform
from tests.support.race_runner import Race, assert_mirrors_are_complete, assert_sound

READERS = 2


def write_mixed(graph: og.Graph, race: Race, writer: int) -> int:
    ledger, kept = Ledger(race.ledger(writer)), list[str]()
    for op in range(race.operations):
        step = perform(graph, race.kind, race.branch, ledger, writer, op, kept)
        gone = step.removes.get("node:Person", [])
        kept = [mark for mark in kept if mark not in gone] + ([name(writer, op)] if step.adds else [])
    return race.operations


def read_groups(graph: og.Graph, branch: str, done: Event) -> int:
    """Poll until the writers are done; every state shows whole groups and only grows in version."""
    polls, version = 0, 0
    while not done.is_set():
        snapshot = graph.snapshot(branch)
        seen = marks(snapshot)
        assert snapshot.version >= version
        assert all(sorted(seen[table]) == sorted(seen[GROUP[0]]) for table in GROUP), "part of a group"
        version = snapshot.version
        polls += 1
        done.wait(0.01)
    return polls


def run_threads(race: Race) -> list[int]:
    """Eight writers and two readers on one handle; returns how often each reader looked."""
    race.folder.mkdir()
    race_graph.init(race.uri, race.branch)
    done = Event()
    with og.open(race.uri) as graph, ThreadPoolExecutor(race.writers + READERS) as threads:
        readers = [threads.submit(read_groups, graph, race.branch, done) for _ in range(READERS)]
        writers = [threads.submit(write_mixed, graph, race, number) for number in range(race.writers)]
        try:
            assert [writer.result() for writer in writers] == [race.operations] * race.writers
        finally:
            done.set()
        return [reader.result() for reader in readers]


@pytest.mark.parametrize("branch", ["main", "review/a"])
def test_threads_that_share_a_handle_write_and_read_whole_groups(branch: str, tmp_path: Path) -> None:
    race = Race(str(tmp_path / "graph"), tmp_path / "meet", "mixed", branch, operations=6, readers=0)
    assert all(polls > 0 for polls in run_threads(race))
    assert_mirrors_are_complete(race)
    assert_sound(race)


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["mixed", "group"])
@pytest.mark.parametrize("branch", ["main", "review/a"])
def test_threads_that_share_a_handle_for_long(branch: str, kind: str, tmp_path: Path) -> None:
    race = Race(str(tmp_path / "graph"), tmp_path / "meet", kind, branch, operations=60, readers=0)
    run_threads(race)
    assert_mirrors_are_complete(race)
    assert_sound(race)


def test_of_two_handles_that_insert_the_same_id_one_is_refused(tmp_path: Path) -> None:
    race_graph.init(str(tmp_path / "graph"))
    handles = [og.open(tmp_path / "graph") for _ in range(4)]

    def insert(graph: og.Graph) -> str:
        try:
            graph.write([Change("node:Person", race_graph.rows("same"))])
            return "done"
        except og.OmniGraphError as error:
            return error.code

    with ThreadPoolExecutor(len(handles)) as threads:
        assert sorted(threads.map(insert, handles)) == ["conflict.key"] * 3 + ["done"]


def test_an_edge_never_outlives_a_node_that_another_thread_removes(tmp_path: Path) -> None:
    race_graph.init(str(tmp_path / "graph"))
    graph = og.open(tmp_path / "graph")
    names = [f"n{number}" for number in range(6)]
    graph.write([Change("node:Person", race_graph.rows(*names)), Change("node:City", race_graph.rows("oslo"))])

    def remove(person: str) -> str:
        return attempt(Change("node:Person", remove=pa.array([person])))

    def connect(person: str) -> str:
        edge = pa.table({"id": [person], "src": [person], "dst": ["oslo"], "mark": [person]})
        return attempt(Change("edge:LivesIn", edge, Mode.MERGE))

    def attempt(change: Change) -> str:
        while True:
            try:
                graph.write([change])
                return "done"
            except og.OmniGraphError as error:
                if error.code != "conflict.expected_version":
                    return error.code

    with ThreadPoolExecutor(4) as threads:
        removed = threads.map(remove, names)
        connected = threads.map(connect, names)
        outcomes = [sorted(pair) for pair in zip(removed, connected, strict=True)]
    snapshot = graph.snapshot()
    people = set(snapshot.arrow("Person").column("id").to_pylist())
    edges = set(snapshot.arrow("LivesIn").column("src").to_pylist())
    assert edges <= people, f"dangling edges {edges - people}"
    assert len(outcomes) == len(names) and all(outcome[0] == "done" != outcome[1] for outcome in outcomes), outcomes


def test_readers_are_not_disturbed_by_forks_and_index_builds_of_other_threads(tmp_path: Path) -> None:
    race_graph.init(str(tmp_path / "graph"))
    done = Event()
    with og.open(tmp_path / "graph") as graph, ThreadPoolExecutor(4) as threads:
        graph.write([Change("node:Person", race_graph.rows(*(f"n{number}" for number in range(20_000))))])

        def read() -> int:
            looks = 0
            while not done.is_set():
                assert graph.snapshot().arrow("Person", ["id"]).num_rows == 20_001
                looks += 1
            return looks

        readers = [threads.submit(read) for _ in range(3)]
        try:
            for number in range(6):
                graph.branches.create(f"b{number}")
                graph.write([Change("node:Person", race_graph.rows("own"))], branch=f"b{number}")
            assert graph.ensure_indices().commit is not None
        finally:
            done.set()
        assert all(reader.result() > 0 for reader in readers)
