"""One racing process: ``python -m tests.support.race_child <role> <uri> <branch> <folder> <number> <operations>``.

The folder holds the ledgers and is the meeting place: a process says that it is ready by a file and starts when the
file ``go`` is there. A writer goes on after the last operation in its ledger, so it can be killed and started again. A
reader polls until the file ``stop`` is there and leaves what it saw in ``reader-<number>.json``. A writer leaves in
``effort-<number>.json`` how often it computed each of its operations.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import omnigraph as og
from omnigraph import failpoints
from tests.support import ledger as ledgers
from tests.support.ledger import Ledger
from tests.support.race_graph import GROUP, marks, perform
from tests.support.waiting import wait_until

READER_SECONDS = 0.03


def main(role: str, uri: str, branch: str, folder: str, number: str, operations: str) -> None:
    if role == "reader":
        _read(uri, branch, Path(folder), int(number))
    else:
        _write(role, uri, branch, Path(folder), int(number), int(operations))


def _meet(folder: Path, who: str) -> None:
    (folder / f"{who}.ready").touch()
    wait_until((folder / "go").exists, timeout=120, what="the start of the race", pause=0.002)


def _write(kind: str, uri: str, branch: str, folder: Path, writer: int, operations: int) -> None:
    path = folder / f"writer-{writer}.jsonl"
    done = ledgers.read(path)
    gone = {value for operation in done for value in operation.removes.get("node:Person", ())}
    # A mark of an operation that nobody heard of may not be there; it is not used again.
    kept = [op.name for op in done if op.state == "acknowledged" and op.adds and op.name not in gone]
    with og.open(uri, actor=f"act-{writer}") as graph:
        _meet(folder, f"writer-{writer}")
        efforts = []
        for op in range(len(done), operations):
            with counted_effort() as effort:
                step = perform(graph, kind, branch, Ledger(path), writer, op, kept)
            efforts.append(len(effort))
            removed = step.removes.get("node:Person", [])
            kept = [mark for mark in kept if mark not in removed]
            if step.adds:
                kept.append(ledgers.name(writer, op))
    (folder / f"effort-{writer}.json").write_text(json.dumps(efforts))


@contextmanager
def counted_effort() -> Iterator[list[str]]:
    """Grows by one each time this process has staged a write and asks for its turn."""
    staged: list[str] = []
    real = failpoints.reach

    def reach(name: str, kind: str = "") -> None:
        real(name, kind)
        if name == "write.after_stage":
            staged.append(name)

    failpoints.reach = reach
    try:
        yield staged
    finally:
        failpoints.reach = real


def _read(uri: str, branch: str, folder: Path, number: int) -> None:
    graph = og.open(uri, mode="ro")
    _meet(folder, f"reader-{number}")
    polls, version = 0, 0
    faults: list[str] = []
    stop = folder / "stop"
    while not stop.exists() and not faults:
        pause_until(time.monotonic() + READER_SECONDS, stop)
        try:
            snapshot = graph.snapshot(branch)
            seen = marks(snapshot)
        except Exception as error:  # whatever it is, a reader must not see it
            faults.append(repr(error))
            break
        polls += 1
        if snapshot.version < version:
            faults.append(f"version {snapshot.version} after {version}")
        version = snapshot.version
        counts = {table: snapshot.count(table) for table in seen}
        rows = {table: snapshot.arrow(table, ["id"]).num_rows for table in seen}
        if counts != rows:
            faults.append(f"version {version} counts {counts} and holds {rows}")
        if seen["edge:LivesIn"] and any(sorted(seen[table]) != sorted(seen["edge:LivesIn"]) for table in GROUP):
            faults.append(f"version {version} shows part of a group: { {t: sorted(seen[t])[-5:] for t in GROUP} }")
    (folder / f"reader-{number}.json").write_text(json.dumps({"polls": polls, "faults": faults, "version": version}))


def pause_until(moment: float, stop: Path) -> None:
    """Readers look often but leave the processor to the writers in between."""
    wait_until(lambda: stop.exists() or time.monotonic() >= moment, timeout=10, what="the next look", pause=0.005)


if __name__ == "__main__":
    main(*sys.argv[1:])
