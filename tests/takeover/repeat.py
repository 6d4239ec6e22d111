"""Plays one case again: ``python -m tests.takeover.repeat <held> <other> <request> <mode>``.

The line that a failed test prints. Needs no pytest; ends with 1 when something is wrong.
"""

from __future__ import annotations

import sys
from typing import cast
from uuid import uuid4

from tests.support.holding_proxy import ANY, WRITES, Hold
from tests.support.s3_server import s3_server
from tests.takeover.case import MODES, Mode
from tests.takeover.scene import scene


def main(held: str, other: str, number: str, mode: str, requests: str = "writes") -> int:
    assert mode in MODES, mode
    hold = Hold(int(number), ANY if requests == "all" else WRITES)
    with s3_server() as server, scene(server, f"{server.url}/{uuid4().hex}") as place:
        case = place.play(held, other, hold, cast(Mode, mode))
        print(case, "" if case.wrong else "all is well", sep="\n    ")
        place.played.clear()
    return 1 if case.wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
