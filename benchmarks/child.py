"""Measures in a fresh process: `run("benchmarks.storage.opening:open_once", uri=…)` gives what that function returns.

The child is spawned, never forked. Functions that run in one import what they measure before they take the time.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_SECONDS = 1800


def run(function: str, **arguments: Any) -> Any:
    """Call ``module:function`` in a new process. Arguments and result travel as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", function, json.dumps(arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{function} failed in its process:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def import_rooms() -> None:
    """Import what `omnigraph.open` would import on its first call, where imports are not part of the time."""
    for room in ("graph.opening", "history.schema_apply", "storage.recovery.sweep"):
        importlib.import_module(f"omnigraph.{room}")


def peak_memory() -> int:
    """The most bytes of memory this process has held.

    The kernel's `ru_maxrss` is not used on Linux: a child starts with the value of its parent there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def call(function: str, **arguments: Any) -> Any:
    """The same in this process: what the child does."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(**arguments)


def main() -> None:
    print(json.dumps(call(sys.argv[1], **json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
