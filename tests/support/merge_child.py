"""The process that dies while it merges: ``python -m tests.support.merge_child <uri> <source> <target> <failpoints>``.

Failpoints are armed once the graph is open. Ends with 0 when nothing stopped it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import omnigraph as og
from omnigraph import failpoints
from tests.support.light_python import run_module
from tests.support.source_tree import ROOT

ACTOR = "act-merge"
CHILD_SECONDS = 90.0


def main(uri: str, source: str, target: str, armed: str, delete: str) -> None:
    with og.open(uri, actor=ACTOR) as graph:
        failpoints.arm(armed)
        graph.branches.merge(source, target, delete_branch=delete == "delete")


def kill_merge(uri: str, source: str, target: str, failpoint: str, *, nth: int = 1, delete: bool = False) -> None:
    """Run a merge in another process that dies at a failpoint. It must come that far."""
    done = start_merge(uri, source, target, f"{failpoint}=kill@{nth}", delete=delete)
    _, complaint = done.communicate(timeout=CHILD_SECONDS)
    assert done.returncode == -signal.SIGKILL, f"{failpoint} was not reached: {done.returncode} {complaint[-2000:]}"


def start_merge(uri: str, source: str, target: str, armed: str = "", *, delete: bool = False) -> subprocess.Popen[str]:
    """The same without waiting; the caller ends it."""
    command = run_module("tests.support.merge_child", uri, source, target, armed, "delete" if delete else "keep")
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "OMNIGRAPH_FAILPOINTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
