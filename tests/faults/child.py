"""The process that dies on the wire: ``python -m tests.faults.child <uri> <operation> <mark> <ledger>``.

It notes in the ledger what it was told; the note of the start is its parent's.
"""

from __future__ import annotations

import sys

import omnigraph as og
from tests.faults.operations import OPERATIONS
from tests.support.crash_graph import ACTOR
from tests.support.ledger import Ledger


def main(uri: str, operation: str, mark: str, ledger: str) -> None:
    with og.open(uri, actor=ACTOR) as graph:
        OPERATIONS[operation].run(graph, mark)
        Ledger(ledger).acknowledge(mark)


if __name__ == "__main__":
    main(*sys.argv[1:])
