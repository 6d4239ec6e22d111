"""The process that writes when it is told: ``python -m tests.takeover.child``, one command a line, one answer each.

``open <uri>``, ``arm <failpoints>``, ``run <kind> <number of the case> <mark> <patient>``, ``init <uri> <schema>``,
``flush``, which waits for what the handle does in the background, and ``close``. A run answers with how each of its
steps ended: ``done``, or the name of the error and what it said.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import BranchNotFound, InternalError, LockTimeout, OutcomeUnknown, RecoveryRequired
from tests.takeover.writers import ACTOR, WRITERS, Ground

#: How long a patient writer tries again when it did not get its turn, or lost it because this machine is slow.
_PATIENT_SECONDS = 20.0


def main() -> None:
    graph: og.Graph | None = None
    for line in sys.stdin:
        command, *given = json.loads(line)
        answer: object = "done"
        if command in ("open", "init"):
            if graph is not None:
                graph.close()
            graph, answer = _opened(command, *given)
        elif command == "arm":
            failpoints.arm(given[0])
        elif graph is None:
            answer = "no graph is open"
        elif command == "run":
            answer = _run(graph, *given)
        elif command == "flush":
            graph._store.mirror.flush()
        else:
            graph.close()
            graph = None
        print(json.dumps(answer), flush=True)


def _opened(command: str, uri: str, schema: str = "") -> tuple[og.Graph | None, dict[str, str]]:
    made: list[og.Graph] = []
    end = _end(
        lambda: made.append(og.init(uri, schema, actor=ACTOR) if command == "init" else og.open(uri, actor=ACTOR))
    )
    return (made[0] if made else None), end


def _run(graph: og.Graph, kind: str, number: int, mark: str, patient: bool) -> list[dict[str, str]]:
    """Steps one after another; the first that is not done is the last, unless it deletes what is gone already."""
    ends: list[dict[str, str]] = []
    for step in WRITERS[kind].steps:
        end = _end(lambda step=step: step.run(graph, Ground(number), mark), patient)  # type: ignore[misc]
        ends.append(end)
        if end["state"] != "acknowledged" and not (step.makes == "delete" and end["name"] == BranchNotFound.__name__):
            break
    return ends


def _end(write: Callable[[], object], patient: bool = False) -> dict[str, str]:
    deadline = time.monotonic() + (_PATIENT_SECONDS if patient else 0)
    while True:
        try:
            write()
        except LockTimeout as error:
            if time.monotonic() < deadline:
                continue
            return _said(error, "refused")
        except (RecoveryRequired, OutcomeUnknown) as error:
            return _said(error, "unknown")
        except InternalError as error:
            return _said(error, "broken")
        except og.OmniGraphError as error:
            return _said(error, "refused")
        except Exception as error:
            return {"state": "broken", "name": type(error).__name__, "text": traceback.format_exc()[-1500:]}
        return {"state": "acknowledged", "name": "done", "text": ""}


def _said(error: Exception, state: str) -> dict[str, str]:
    return {"state": state, "name": type(error).__name__, "text": str(error)}


if __name__ == "__main__":
    main()
