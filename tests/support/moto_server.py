"""A real S3 server on loopback, as its own process, for the length of a ``with`` block.

It knows nothing of pytest, so crash runners and benchmarks can use it too. Inside the block the environment points
Lance, obstore and boto3 at the server; afterwards the environment is what it was.
"""

from __future__ import annotations

import selectors
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.s3_server import S3Server, environment
from tests.support.waiting import wait_until

BUCKET = "omnigraph-test"
START_SECONDS = 60.0
STOP_SECONDS = 5.0

_CHILD = Path(__file__).with_name("moto_child.py")


@dataclass(frozen=True, slots=True)
class MotoServer(S3Server):
    """A server of our own, with one empty bucket."""

    pid: int = 0

    def reset(self) -> None:
        """Drop everything the server holds and make the empty bucket again."""
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST")
        with _loopback_opener().open(request, timeout=10) as answer:
            answer.read()
        self.client().create_bucket(Bucket=self.bucket)

    @property
    def is_slow_when_full(self) -> bool:
        return True

    @property
    def checks_signatures(self) -> bool:
        return False


@contextmanager
def moto_server(bucket: str = BUCKET) -> Iterator[MotoServer]:
    """Start the server, wait until it answers, make the bucket, set the environment; undo all of it at the end."""
    with tempfile.TemporaryFile() as log, _process(log) as child:
        server = MotoServer(endpoint=f"http://127.0.0.1:{_port(child, log)}", bucket=bucket, pid=child.pid)
        wait_until(lambda: _answers(server.endpoint), timeout=START_SECONDS, what="an answer from the S3 server")
        with environment(server.env()):
            server.client().create_bucket(Bucket=bucket)
            yield server


@contextmanager
def _process(log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, close_fds=True
    )
    # Popen's own block closes the pipes and waits; the kill makes the wait short.
    with child:
        try:
            yield child
        finally:
            child.kill()
            child.wait(STOP_SECONDS)


def _port(child: subprocess.Popen[bytes], log: IO[bytes]) -> int:
    """The port the child chose. It binds before it speaks, so no other process can take the port in between."""
    assert child.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        line = child.stdout.readline() if selector.select(START_SECONDS) else b""
    if not line.strip().isdigit():
        log.seek(0)
        raise RuntimeError(f"the S3 server did not start: {log.read()[-2000:].decode(errors='replace')}")
    return int(line)


def _answers(endpoint: str) -> bool:
    try:
        with _loopback_opener().open(f"{endpoint}/moto-api/data.json", timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def _loopback_opener() -> urllib.request.OpenerDirector:
    """An opener that ignores any proxy of the machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
