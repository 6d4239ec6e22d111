"""A process that cleans a graph up, writes to it or makes a branch of it, so that a test can kill it or hold it."""

from __future__ import annotations

import sys

import omnigraph as og
from omnigraph.errors import OmniGraphError
from tests.support.small_graphs import ids_of, persons

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
                said = f"{_write_until_told(graph, *given)}"
            case _:
                said = f"{_read_until_told(graph)}"
    sys.stdout.write(f"{said}\n")


def _branch(graph: og.Graph, name: str, at: str) -> str:
    try:
        graph.branches.create(name, at=at or None)
        return ",".join(sorted(ids_of(graph, "Person", name)))
    except OmniGraphError as error:
        return type(error).__name__


def _write_until_told(graph: og.Graph, name: str) -> int:
    """Insert people until a line comes in; returns how many."""
    done = 0
    with _Told() as told:
        while not told.is_set():
            graph.write([persons(f"{name}-{done}")])
            done += 1
    return done


def _read_until_told(graph: og.Graph) -> int:
    """Read the newest state in several ways until a line comes in; returns how often. No read may fail."""
    done = 0
    with _Told() as told:
        while not told.is_set():
            asked = len(graph.query(_EVERYTHING).rows())
            exported = (graph.export(types=["Person"]).text or "").count("\n")
            if exported < asked:
                raise AssertionError(f"{exported} rows after {asked}")
            done += 1
    return done


class _Told:
    """Set as soon as a line was read."""

    def __enter__(self) -> _Told:
        import threading

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
