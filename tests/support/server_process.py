"""A server as a process of its own, on a free port, that a test can stop or kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.source_tree import ROOT

START_SECONDS = 60
STOP_SECONDS = 60

#: Variables of a developer's own server that must not leak into a test.
_FOREIGN = ("OMNIGRAPH_SERVER_", "OMNIGRAPH_UNAUTHENTICATED", "OMNIGRAPH_BIND", "OTEL_")


@dataclass(slots=True)
class ServerProcess:
    """One running server.

    Attributes:
        port: on 127.0.0.1.
        log: what it writes to the standard error, so far.
        tokens: token by actor.
    """

    child: subprocess.Popen[bytes]
    port: int
    log: Path
    tokens: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def graph_url(self, graph_id: str = "people") -> str:
        return f"{self.url}/graphs/{graph_id}"

    def log_text(self) -> str:
        return self.log.read_text("utf-8")

    def signal(self, number: signal.Signals) -> None:
        self.child.send_signal(number)

    def kill(self) -> None:
        """As if the machine had lost its power."""
        self.child.kill()
        self.child.wait(STOP_SECONDS)

    def stop(self) -> int:
        """Stop it as an operator does; gives its exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(STOP_SECONDS)


@contextmanager
def server_process(
    *words: str | Path,
    tokens: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    port: int = 0,
) -> Iterator[ServerProcess]:
    """Run ``omnigraph serve`` with these words; whatever happens in the block, it is gone afterwards.

    Args:
        words: graphs and flags. ``--unauthenticated`` is added when there are no tokens.
        tokens: token by actor.
        port: 0 lets the system choose.
    """
    with tempfile.TemporaryDirectory() as home:
        log = Path(home) / "log"
        flags: list[str] = ["--bind", f"127.0.0.1:{port}"]
        if tokens is None:
            flags.append("--unauthenticated")
        else:
            (Path(home) / "tokens.json").write_text(json.dumps(dict(tokens)), "utf-8")
            flags += ["--tokens", str(Path(home) / "tokens.json")]
        with log.open("wb") as errors, _started([*map(str, words), *flags], env or {}, errors.fileno()) as child:
            yield ServerProcess(child, _port(child, log), log, dict(tokens or {}))


@contextmanager
def _started(words: Sequence[str], env: Mapping[str, str], errors: int) -> Iterator[subprocess.Popen[bytes]]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    command = [sys.executable, "-m", "omnigraph", "serve", *words]
    child = subprocess.Popen(command, cwd=ROOT, env={**own, **env}, stdout=subprocess.PIPE, stderr=errors)
    with child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def _port(child: subprocess.Popen[bytes], log: Path) -> int:
    """The port that the server tells on its first line."""
    assert child.stdout is not None
    late = threading.Timer(START_SECONDS, child.kill)
    late.start()
    try:
        line = child.stdout.readline().decode()
    finally:
        late.cancel()
    if not line.startswith("OMNIGRAPH_LISTEN_ADDR="):
        child.wait(STOP_SECONDS)
        raise AssertionError(f"the server did not start: {log.read_text('utf-8')}")
    return int(line.rstrip().rpartition(":")[2])
