"""The process that changes a schema and dies: ``python -m tests.support.schema_child <uri> <schema> <armed> <loss>``.

Failpoints are armed once the graph is open. Ends with 0 when nothing stopped it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import AbstractContextManager

import omnigraph as og
from omnigraph import failpoints
from tests.support.children import running
from tests.support.light_python import run_module

ACTOR = "act-schema"
CHILD_SECONDS = 90.0


def main(uri: str, schema: str, armed: str, loss: str) -> None:
    with og.open(uri, actor=ACTOR) as graph:
        failpoints.arm(armed)
        graph.schema.apply(schema, allow_data_loss=loss == "loss")


def kill_apply(uri: str, schema: str, failpoint: str, *, nth: int = 1, loss: bool = False) -> None:
    """Change a schema in another process that dies at a failpoint. It must come that far."""
    with start_apply(uri, schema, f"{failpoint}=kill@{nth}", loss=loss) as child:
        _, complaint = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == -signal.SIGKILL, f"{failpoint} was not reached: {child.returncode} {complaint[-2000:]}"


def start_apply(
    uri: str, schema: str, armed: str = "", *, loss: bool = False
) -> AbstractContextManager[subprocess.Popen[str]]:
    """The same without waiting; whatever happens in the block, the child is gone afterwards."""
    command = run_module("tests.support.schema_child", uri, schema, armed, "loss" if loss else "keep")
    return running(command, {"OMNIGRAPH_FAILPOINTS": ""})


if __name__ == "__main__":
    main(*sys.argv[1:])
