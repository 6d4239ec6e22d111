"""The process that dies: opens a graph, runs operations on one branch, notes them in a ledger.

Started with ``python -m tests.support.crash_child <uri> <branch> <ledger> <kind>=<operation> …``. Failpoints for the
open come by the environment, those for the operations after it by a step ``arm=<failpoints>``. ``init`` makes the
graph, ``create`` and ``delete`` make and remove the branch, ``tag`` and ``untag`` a tag of its newest state,
``force_delete`` the branch with its tags, ``repair`` takes the options of a repair, ``optimize`` optimizes, ``open``
only opens. An operation that ends with an error or an interrupt says so in one line on standard output, and the next
one runs.
"""

from __future__ import annotations

import signal
import sys

import omnigraph as og
from omnigraph import failpoints
from tests.support.crash_graph import ACTOR, SCHEMA, perform
from tests.support.ledger import Ledger


def main(uri: str, branch: str, ledger: str, *steps: str) -> None:
    if steps == ("init=graph",):
        og.init(uri, SCHEMA, actor=ACTOR).close()
        return
    with og.open(uri, actor=ACTOR) as graph:
        for step in steps:
            kind, _, operation = step.partition("=")
            try:
                _do(graph, branch, Ledger(ledger), kind, operation)
                if kind != "arm":
                    print(f"{step} done", flush=True)
            except (og.OmniGraphError, KeyboardInterrupt) as error:
                print(f"{step} {type(error).__name__}", flush=True)


def _do(graph: og.Graph, branch: str, ledger: Ledger, kind: str, operation: str) -> None:
    if kind == "arm":
        failpoints.arm(operation)
    elif kind == "create":
        graph.branches.create(branch)
    elif kind == "delete":
        graph.branches.delete(branch)
    elif kind == "force_delete":
        graph.branches.delete(branch, force=True)
    elif kind == "tag":
        graph.tags.create(operation, branch=branch)
    elif kind == "untag":
        graph.tags.delete(operation)
    elif kind == "repair":
        graph.repair(confirm=True, force=operation == "force", discard=operation == "discard")
    elif kind == "rename":
        graph.branches.rename(branch, operation)
    elif kind == "optimize":
        graph.optimize()
    elif kind != "open":
        perform(graph, kind, branch, ledger, operation)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
    main(*sys.argv[1:])
