"""One process of a storm around a branch that comes and goes.

Started with ``python -m tests.support.branch_storm <role> <uri> <folder> <number>``.
The ``maker`` makes the branch, writes the row ``generation-<k>`` to it and deletes it, n times. A ``writer`` inserts
rows whenever the branch is there, a ``reader`` reads all of it. The branch may be gone at any moment, so these two
live with errors, but only with ours, and what they see must be of one generation, and never of an earlier one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import omnigraph as og
from tests.support import ledger as ledgers
from tests.support.race_graph import group_changes, marks
from tests.support.waiting import wait_until

BRANCH = "storm"


def main(role: str, uri: str, folder: str, number: str) -> None:
    stop = Path(folder) / "stop"
    if role == "maker":
        graph = og.open(uri)
        for generation in range(int(number)):
            make_and_delete(graph, generation)
        graph.close()
        stop.touch()
        return
    graph = og.open(uri, mode="ro" if role == "reader" else "rw")
    turns, newest, met = 0, -1, set[str]()
    while not stop.exists():
        try:
            if role == "reader":
                newest = look(graph, newest)
            else:
                graph.write(group_changes(ledgers.name(number, turns)), branch=BRANCH)
        except og.OmniGraphError as error:
            met.add(type(error).__name__)
        turns += 1
    graph.close()
    print(*met)  # once, at the end: nobody reads what a process says while the branch is still coming and going


def make_and_delete(graph: og.Graph, generation: int) -> None:
    """One life of the branch: it is deleted when somebody else has written to it."""
    graph.branches.create(BRANCH)
    own = graph.write(group_changes(f"generation-{generation}"), branch=BRANCH).commit
    assert own is not None
    version = own.version
    wait_until(
        lambda: graph.snapshot(BRANCH).version >= version + 2, timeout=60, what="two foreign commits", pause=0.005
    )
    graph.branches.delete(BRANCH)


def look(graph: og.Graph, newest: int) -> int:
    """Read the branch by two roads; returns the newest generation seen so far."""
    snapshot = graph.snapshot(BRANCH)
    for seen in (marks(snapshot), marks(graph.snapshot(BRANCH, at=snapshot.version))):
        generations = [int(mark.partition("-")[2]) for mark in seen["node:City"] if mark.startswith("generation-")]
        assert len(generations) <= 1, f"two generations in one state: {generations}"
        assert all(generation >= newest for generation in generations), f"{generations} after {newest}"
        newest = max([newest, *generations])
    return newest


if __name__ == "__main__":
    main(*sys.argv[1:])
