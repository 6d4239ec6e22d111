"""Every writer held at every request, against every other one: the long version. Each test prints how many it held."""

from __future__ import annotations

import pytest

from tests.support.holding_proxy import ANY
from tests.takeover.case import Mode
from tests.takeover.rig import TakeoverRig
from tests.takeover.writers import HELD, WRITERS

pytestmark = [pytest.mark.s3, pytest.mark.torture]

#: Whom each writer has most to fear from; itself, where nothing else is said.
RIVALS = {
    "company": "insert",
    "branch_create": "create_write",
    "branch_delete": "recreate",
    "branch_merge": "branch_write",
    "branch_rename": "branch_write",
    "branch_restore": "branch_write",
    "branch_write": "recreate",
    "drop_type": "insert_spare",
    "insert_spare": "drop_type",
    "recover": "insert",
    "reopen": "insert",
    "indices": "insert",
    "optimize": "merge_load",
    "cleanup": "tag",
    "tag": "cleanup",
    "revert": "insert",
}

#: A branch without rows of its own has nothing to restore.
PAIRS = [
    (held, other)
    for held in HELD
    for other in WRITERS
    if held != "branch_restore" or "branch" not in WRITERS[other].needs
]


def _sweep(
    place: TakeoverRig, capsys: pytest.CaptureFixture[str], held: str, other: str, mode: Mode, reads: bool
) -> None:
    count = place.sweep(held, other, mode, **({"methods": ANY} if reads else {}))
    try:
        place.finish()
    finally:
        with capsys.disabled():
            wrong = sum(bool(case.wrong) for case in place.played)
            print(f"\n{held} held at {count} requests, {mode}, overtaken by {other}: {wrong} wrong")


@pytest.mark.parametrize(("held", "other"), PAIRS)
def test_every_writer_against_every_other(
    thorough_place: TakeoverRig, capsys: pytest.CaptureFixture[str], held: str, other: str
) -> None:
    _sweep(thorough_place, capsys, held, other, "late", reads=False)


@pytest.mark.parametrize("mode", ["lost", "unheard", "stopped", "killed", "dead"])
@pytest.mark.parametrize("held", HELD)
def test_every_end_of_the_held_request(
    thorough_place: TakeoverRig, capsys: pytest.CaptureFixture[str], held: str, mode: Mode
) -> None:
    _sweep(thorough_place, capsys, held, RIVALS.get(held, held), mode, reads=False)


@pytest.mark.parametrize("mode", ["late", "killed"])
@pytest.mark.parametrize("held", HELD)
def test_every_request_that_reads(
    thorough_place: TakeoverRig, capsys: pytest.CaptureFixture[str], held: str, mode: Mode
) -> None:
    _sweep(thorough_place, capsys, held, RIVALS.get(held, held), mode, reads=True)
