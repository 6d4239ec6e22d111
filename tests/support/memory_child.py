"""A process that writes to a graph, or polls it, a step at a time, and says how much memory it has.

Each line on its input is a word: ``step`` commits one row or looks for the newest one, ``memory`` prints the resident
kilobytes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import omnigraph as og

ADD = "query add($name: String, $age: I32) { insert Person { handle: $name, age: $age } }"
FIND = "query find($name: String) { match { $p: Person { handle: $name } } return { $p.age as age } }"


def _resident_kilobytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def _main(role: str, root: str) -> None:
    with og.open(root, mode="rw" if role == "writer" else "ro") as graph:
        number = 0
        for word in map(str.strip, sys.stdin):
            if word == "memory":
                print(_resident_kilobytes(), flush=True)
                continue
            number += 1
            if role == "writer":
                graph.mutate(ADD, params={"name": f"p{number}", "age": number})
            else:
                assert graph.query(FIND, params={"name": f"p{number}"}).rows() == [{"age": number}]
            print(number, flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
