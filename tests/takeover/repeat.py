"""Plays one case again: ``python -m tests.takeover.repeat <held> <other> <mode> <number> <part> <after> <which>``.

The line that a failed test prints. ``which`` requests are counted: ``writes`` or ``all``. Needs no pytest; ends with 1
when something is wrong.
"""

from __future__ import annotations

import sys
from uuid import uuid4

from tests.support.fault_proxy import WRITES
from tests.support.holding_proxy import ANY, Hold
from tests.support.s3_server import s3_server
from tests.takeover.case import MODES, Mode
from tests.takeover.rig import takeover_rig


def main(held: str, other: str, named: str, number: str = "1", part: str = "", after: str = "", which: str = "") -> int:
    mode: Mode = next(mode for mode in MODES if mode == named)
    hold = Hold(int(number), ANY if which == "all" else WRITES, part, after)
    with s3_server() as server, takeover_rig(server, f"{server.url}/{uuid4().hex}") as place:
        case = place.play(held, other, hold, mode)
        place.prove()
        print(case, place.wrong() or "all is well", sep="\n    ")
        return 1 if place.wrong() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
