"""A process that cleans a graph up, writes to it or makes a branch of it, so that a test can kill it or hold it."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable

import omnigraph as og
from omnigraph.errors import HistoricalVersionReclaimed, OmniGraphError
from tests.support.small_graphs import ids_of, knows, persons

_EVERYTHING = "query q() { match { $p: Person } return { $p.handle as h } }"


def main(verb: str, root: str, *given: str) -> None:
    with og.open(root) as graph:
        match verb:
            case "cleanup":
                said = f"{graph.cleanup(keep=1, confirm=True, grace=0).states_removed}"
            case "write":
                made = graph.write([persons(*given)]).commit
                said = made.id if made is not None else "nothing"
            case "merge":
                merged = graph.branches.merge(*given).commit
                said = merged.id if merged is not None else "nothing"
            case "branch":
                said = _branch(graph, *given)
            case "write_on":
                said = f"{_until_told(_Writer(graph, *given))}"
            case "merge_on":
                said = f"{_until_told(_Merger(graph, *given))}"
            case "look_back":
                said = f"{_until_told(_LookBack(graph, *given))}"
            case "read_on":
                said = f"{_until_told(_Reader(graph, *given))}"
            case _:
                raise ValueError(verb)
    sys.stdout.write(f"{said}\n")


def _branch(graph: og.Graph, name: str, at: str) -> str:
    try:
        graph.branches.create(name, at=at or None)
        return ",".join(sorted(ids_of(graph, "Person", name)))
    except OmniGraphError as error:
        return type(error).__name__


def _until_told(turn: Callable[[], bool]) -> int:
    """Take turns until a line comes in; returns how many of them did something. None may fail."""
    done = 0
    with _Told() as told:
        while not told.is_set():
            done += turn()
    return done


class _Writer:
    """Inserts a person who knows himself, both in one commit."""

    def __init__(self, graph: og.Graph, name: str, branch: str) -> None:
        self._graph, self._name, self._branch = graph, name, branch
        self._numbers = itertools.count()

    def __call__(self) -> bool:
        person = f"{self._name}-{next(self._numbers)}"
        self._graph.write([persons(person), knows((person, person))], branch=self._branch)
        return True


class _Merger:
    """Merges one branch into another."""

    def __init__(self, graph: og.Graph, source: str, target: str) -> None:
        self._graph, self._source, self._target = graph, source, target

    def __call__(self) -> bool:
        return self._graph.branches.merge(self._source, self._target).commit is not None


class _Reader:
    """Reads the newest state of a branch in several ways."""

    def __init__(self, graph: og.Graph, branch: str) -> None:
        self._graph, self._branch = graph, branch

    def __call__(self) -> bool:
        asked = len(self._graph.query(_EVERYTHING, branch=self._branch).rows())
        exported = (self._graph.export(types=["Person"], branch=self._branch).text or "").count("\n")
        read = len(_whole(self._graph.snapshot(self._branch)))
        if not asked <= exported <= read:
            raise AssertionError(f"{asked} rows, then {exported}, then {read}")
        return True


class _LookBack:
    """Holds a state of the past for a while and reads it again and again, from the files."""

    def __init__(self, graph: og.Graph, branch: str) -> None:
        self._graph, self._branch = graph, branch

    def __call__(self) -> bool:
        commit = random.choice(self._graph.commits.list(self._branch, limit=20))
        try:
            snapshot = self._graph.snapshot(at=commit.id)
        except HistoricalVersionReclaimed:
            return False
        seen = _whole(snapshot)
        for _ in range(5):
            self._graph.internals.store.tables.forget_open()
            if _whole(snapshot) != seen:
                raise AssertionError(f"the state of {commit} changed")
        return True


def _whole(snapshot: og.Snapshot) -> set[str]:
    """The people of a state, all of whom but the first know themselves."""
    found = set(snapshot.arrow("Person").column("id").to_pylist())
    known = set(snapshot.arrow("Knows").column("src").to_pylist())
    if not found - known <= {"a"} or known - found:
        raise AssertionError(f"half a commit: {found ^ known}")
    return found


class _Told:
    """Set as soon as a line was read."""

    def __enter__(self) -> _Told:
        self._event = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def _listen(self) -> None:
        sys.stdin.readline()
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def __exit__(self, *_: object) -> None:
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
