"""Opening a graph in a fresh process, after many commits and after few."""

from __future__ import annotations

from typing import Literal

from benchmarks import child
from benchmarks.measure import Samples
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.commits import OLD_HISTORY
from benchmarks.storage.graphs import fsync, graph_with_history

FEW_COMMITS = 10
ROUNDS = 9


def old_against_young(options: Options) -> list[Row]:
    """Open and take a snapshot; imports are not part of the time."""
    commits = options.size(OLD_HISTORY, 20)
    rounds = options.size(ROUNDS, 1)
    rows = []
    with fsync(False):
        addresses = {name: graph_with_history(options, depth).uri for name, depth in _depths(commits).items()}
        for mode in ("rw", "ro"):
            taken = _take_turns(addresses, mode, rounds)
            measure = f"cold open ({mode}) and snapshot after {commits:,} commits"
            rows.append(
                Row(measure, taken["old"].median, taken["young"].median, f"after {FEW_COMMITS}", goal=Goal(1.5))
            )
    return rows


def _depths(commits: int) -> dict[str, int]:
    return {"old": commits, "young": FEW_COMMITS}


def _take_turns(addresses: dict[str, str], mode: str, rounds: int) -> dict[str, Samples]:
    taken: dict[str, list[float]] = {name: [] for name in addresses}
    for _ in range(rounds):
        for name, address in addresses.items():
            taken[name].append(child.run("benchmarks.storage.opening:open_once", uri=address, mode=mode))
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


def open_once(uri: str, mode: Literal["rw", "ro"]) -> float:
    """Runs in the child: seconds for one open and one snapshot."""
    import omnigraph as og
    from benchmarks.measure import no_garbage_collection, seconds_of

    def first_look() -> int:
        return og.open(uri, mode=mode).snapshot().count("Person")

    child.import_rooms()

    with no_garbage_collection():
        return seconds_of(first_look)
