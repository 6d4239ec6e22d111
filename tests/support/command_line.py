"""Runs the real `omnigraph` executable: piped, on a terminal, interrupted."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

EXECUTABLE = Path(sys.executable).with_name("omnigraph")
_SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit code and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """A shell in one directory, with an operator's home of its own."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *words: str, given: str | None = None, **environment: str) -> Ended:
        """Run a command with pipes on all sides."""
        ended = subprocess.run(
            [EXECUTABLE, *words],
            cwd=self.folder,
            env={**self.environment, **environment},
            input=given.encode() if given is not None else None,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout.decode("utf-8"), ended.stderr.decode("utf-8"))

    def run_all(self, lines: Sequence[Sequence[str]]) -> list[Ended]:
        """Run many command lines in one process, which starts once; for cases that differ in words only."""
        batch = self.folder / "batch.json"
        batch.write_text(json.dumps([list(words) for words in lines]), "utf-8")
        ended = subprocess.run(
            [sys.executable, "-m", "tests.support.command_batch", batch],
            cwd=self.folder,
            env={**self.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr.decode("utf-8")
        return [Ended(**each) for each in json.loads(ended.stdout)]

    def ok(self, *words: str, **environment: str) -> Ended:
        """Run a command that is meant to succeed."""
        ended = self.run(*words, **environment)
        assert ended.code == 0, ended.err
        return ended

    def on_terminal(self, *words: str, typed: str = "", after: str = "", **environment: str) -> Ended:
        """Run a command on a terminal, where stdout and stderr are one.

        Args:
            typed: what the person types.
            after: the person waits until this is shown.
        """
        main, side = pty.openpty()
        process = subprocess.Popen(
            [EXECUTABLE, *words],
            cwd=self.folder,
            env={**self.environment, "TERM": "xterm", "COLUMNS": "100", **environment},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        shown = _read_all(main, after.encode()) if after else b""
        if typed:
            os.write(main, typed.encode())
        shown += _read_all(main)
        os.close(main)
        return Ended(process.wait(_SECONDS), shown.decode("utf-8").replace("\r\n", "\n"), "")

    def interrupted_at(self, failpoint: str, mark: Path, *words: str) -> Ended:
        """Send Ctrl-C to a command that stands at a failpoint, then let it go on."""
        process = subprocess.Popen(
            [EXECUTABLE, *words],
            cwd=self.folder,
            env={**self.environment, "OMNIGRAPH_FAILPOINTS": f"{failpoint}=pause:{mark}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        reached = mark.with_name(f"{mark.name}.reached")
        wait_until(lambda: reached.exists() or process.poll() is not None, timeout=60, what=failpoint)
        process.send_signal(signal.SIGINT)
        mark.with_name(f"{mark.name}.release").touch()
        out, err = process.communicate(timeout=_SECONDS)
        return Ended(process.returncode, out.decode(), err.decode())


def _read_all(terminal: int, until: bytes | None = None) -> bytes:
    """What is shown until the program ends, or shows something."""
    parts: list[bytes] = []
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if not ready:
            continue
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # the last process on the other side is gone
            break
        if not part:
            break
        parts.append(part)
        if until is not None and until in b"".join(parts):
            break
    return b"".join(parts)
