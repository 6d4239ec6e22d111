"""The server processes that are measured: one of graphs, and one that only gives the same bytes back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.child import ROOT
from benchmarks.server.load_client import Target

#: A client is one actor here, and an actor may have 16 running writes; the measures have 32 clients.
WRITES = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "64"}
_STOP_SECONDS = 30
_PORT = re.compile(r"OMNIGRAPH_LISTEN_ADDR=127\.0\.0\.1:(\d+)")


@contextmanager
def graph_server(place: Path) -> Iterator[tuple[Target, int]]:
    """A server of one graph, and the number of its process."""
    words = [sys.executable, "-m", "omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with _started(words, WRITES) as (child, line):
        found = _PORT.search(line)
        if found is None:
            raise RuntimeError(f"the server did not say where it listens: {line}")
        yield Target(int(found[1])), child.pid


@contextmanager
def bare_server(body: bytes, place: Path) -> Iterator[Target]:
    """A server that answers everything with these bytes."""
    file = place / "same.json"
    file.write_bytes(body)
    with _started([sys.executable, "-m", "benchmarks.server.bare_route", str(file)], {}) as (_, line):
        yield Target(int(line))


@contextmanager
def _started(words: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A child and its first line; it is asked to stop when the block ends."""
    child = subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert child.stdout is not None
        yield child, child.stdout.readline()
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()


def resident(process: int) -> int:
    """Bytes of memory that a process holds now."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
