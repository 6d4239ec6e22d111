"""Processor time of whole processes, from start to end."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path


def processes(words: Sequence[str], times: int, cwd: Path | None = None) -> float:
    """Seconds of processor time that a command takes, the best of several runs."""
    return min(_once(words, cwd) for _ in range(times))


def _once(words: Sequence[str], cwd: Path | None) -> float:
    before = _spent()
    subprocess.run(words, cwd=cwd, stdout=subprocess.DEVNULL, check=True, timeout=120)
    return _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
