"""A process that publishes writes together and dies on the way: ``group_child URI LEDGER FAILPOINTS``.

Prints nothing. What was acknowledged stands in the ledger, one id a line, written before the next write begins.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.write import group_commit
from tests.support.waiting import wait_until

NOTE = "query note($t: String) { insert Note { text: $t } }"
AGE = "query age($h: String, $a: I32) { update Person set { age: $a } where handle = $h }"
WRITERS = 6


def main(uri: str, ledger: str, armed: str) -> None:
    limits.LINE_SECONDS = 60  # type: ignore[misc]
    graph = og.open(uri)
    store = graph.internals.store
    line = group_commit._line_of(store, "main")
    lock = threading.Lock()

    def run(number: int) -> None:
        if number % 2:
            done = graph.mutate(AGE, {"h": f"s{number}", "a": number}, message=f"w{number}")
        else:
            done = graph.mutate(NOTE, {"t": f"w{number}"}, message=f"w{number}")
        assert done.commit is not None
        with lock:
            acknowledge(Path(ledger), done.commit.id)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(WRITERS)]
    with store.sections.hold("main"):
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(
                lambda number=number: line.leader is not None and len(line._waiting) == number,  # type: ignore[misc]
                timeout=20,
                what="a write to stand in line",
                pause=0.001,
            )
        failpoints.arm(armed)
    for thread in threads:
        thread.join(20)


def acknowledge(ledger: Path, commit_id: str) -> None:
    number = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(number, f"{commit_id}\n".encode())
    os.fsync(number)
    os.close(number)


if __name__ == "__main__":
    main(*sys.argv[1:])
