"""A server is killed while clients write, and started again: what was acknowledged is there once, and anything else is
whole or not there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import OmniGraphError, OutcomeUnknown, ServerUnavailable
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

SCHEMA = """
node Person { handle: String @key  name: String }
edge Follows: Person -> Person
"""
#: Two people and what leads from one to the other: half of it would be seen.
PAIR = """query pair($a: String, $b: String) {
    insert Person { handle: $a, name: $a }
    insert Person { handle: $b, name: $b }
    insert Follows { from: $a, to: $b }
}"""
KNOWN = "query q() { match { $p: Person } return { $p.handle as handle } }"


@dataclass(slots=True)
class Told:
    """What the writers were told, by the name of what they wrote."""

    done: dict[str, str] = field(default_factory=dict)  # with the commit
    unknown: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    wrong: list[BaseException] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)


def write(uri: str, writer: int, told: Told, stop: Event) -> None:
    """One client: writes pairs, each known by the id of its commit, until it is told to stop."""
    with og.open(uri) as graph:
        number = 0
        while not stop.is_set():
            number += 1
            name = f"w{writer}-{number}"
            try:
                if number % 5 == 0:
                    rows = [{"handle": f"{name}-a", "name": name}, {"handle": f"{name}-b", "name": name}]
                    edges = [{"from": f"{name}-a", "to": f"{name}-b"}]
                    done = graph.load({"Person": rows, "Follows": edges}, "append").commit
                else:
                    done = graph.mutate(PAIR, {"a": f"{name}-a", "b": f"{name}-b"}).commit
            except OutcomeUnknown as error:
                with told.lock:
                    told.unknown[name] = error.details["commit_id"]
            except ServerUnavailable:
                with told.lock:
                    told.refused.add(name)
            except BaseException as error:
                told.wrong.append(error)
                return
            else:
                assert done is not None
                with told.lock:
                    told.done[name] = done.id


def kill_and_start_again(place: Path, kills: int, writers: int) -> Told:
    told, stop, port = Told(), Event(), 0
    threads: list[Thread] = []
    try:
        for life in range(kills + 1):
            with server_process(place, port=port) as server:
                port = server.port
                if not threads:
                    threads = [
                        Thread(target=write, args=(server.graph_url(), each, told, stop)) for each in range(writers)
                    ]
                    for thread in threads:
                        thread.start()
                seen = len(told.done)
                wait_until(
                    lambda seen=seen: len(told.done) >= seen + 4 * writers or bool(told.wrong),  # type: ignore[misc]
                    timeout=60,
                    what="writes of every writer",
                )
                if life < kills:
                    server.kill()
                else:
                    stop.set()
                    for thread in threads:
                        thread.join(60)
                    server.stop()
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    return told


def check(place: Path, told: Told) -> None:
    assert told.wrong == []
    with og.open(place) as graph:
        made = Counter(commit.id for commit in graph.commits.list())
        assert all(made[commit] == 1 for commit in told.done.values())
        rows = Counter(row["handle"].rpartition("-")[0] for row in graph.query(KNOWN))
        edges = graph.snapshot().count("Follows")
        assert set(rows.values()) <= {2} and edges == len(rows)
        assert told.done.keys() <= rows.keys()
        assert {name for name, commit in told.unknown.items() if made[commit]} <= rows.keys()
        assert rows.keys() <= told.done.keys() | {name for name, commit in told.unknown.items() if made[commit]}
        assert not told.refused & rows.keys()
        assert graph.verify().ok


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "CLIENT_LONGEST_BACKOFF_SECONDS", 1.0)
    monkeypatch.setattr(limits, "CLIENT_ATTEMPTS", 40)
    og.init(tmp_path / "people.omni", SCHEMA).close()
    return tmp_path / "people.omni"


def test_writes_survive_a_server_that_is_killed(place: Path) -> None:
    told = kill_and_start_again(place, kills=1, writers=4)
    check(place, told)
    assert told.unknown == {} and told.refused == set()  # the server was back in time


@pytest.mark.torture
def test_writes_survive_a_server_that_is_killed_again_and_again(place: Path) -> None:
    check(place, kill_and_start_again(place, kills=25, writers=8))


def test_a_server_that_stays_away_leaves_writes_unknown_and_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_ATTEMPTS", 3)
    told, stop = Told(), Event()
    with server_process(place) as server:
        threads = [Thread(target=write, args=(server.graph_url(), each, told, stop)) for each in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(told.done) >= 6 or bool(told.wrong), timeout=60, what="some writes")
        server.kill()
        wait_until(lambda: len(told.refused | told.unknown.keys()) >= 3, timeout=60, what="every writer noticed")
        stop.set()
        for thread in threads:
            thread.join(60)
    check(place, told)
    with server_process(place) as server, og.open(server.graph_url()) as graph:
        for commit in told.unknown.values():
            try:
                assert graph.commits.get(commit).kind in ("mutation", "load")
            except OmniGraphError as error:
                assert error.code == "not_found.commit"
