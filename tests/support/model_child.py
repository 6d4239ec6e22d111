"""Runs one operation of the model test in a process of its own, which a failpoint may kill on the way.

Started with ``python -m tests.support.model_child <json>``; the text holds uri, actor, branch and the operation.
"""

from __future__ import annotations

import json
import sys

import omnigraph as og
from tests.model.oracle import Put


def main(text: str) -> None:
    order = json.loads(text)
    with og.open(order["uri"], actor=order["actor"]) as graph:
        match order["do"]:
            case "write":
                puts = [
                    Put(put["table"], put["mode"], tuple(put["rows"]), tuple(put["remove"])) for put in order["puts"]
                ]
                graph.write([put.change() for put in puts], branch=order["branch"])
            case "index":
                graph.ensure_indices(order["branch"])
            case "create":
                graph.branches.create(order["name"], order["branch"])
            case "delete":
                graph.branches.delete(order["name"])
            case "rename":
                graph.branches.rename(order["branch"], order["name"])
            case "optimize":
                graph.optimize()
            case "cleanup":
                graph.cleanup(keep=order["keep"], grace=0, confirm=True)
            case "tag":
                graph.tags.create(order["name"], order["at"])
            case "clone":
                og.clone(order["uri"], order["name"])
            case "merge":
                graph.branches.merge(order["name"], order["branch"])


if __name__ == "__main__":
    main(sys.argv[1])
