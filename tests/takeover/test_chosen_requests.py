"""A writer is held at a request and overtaken; what it does afterwards loses nothing and blocks nobody.

All requests with an effect of the writers that are most at risk, and the deciding ones of all others.
"""

from __future__ import annotations

import pytest

from tests.support.holding_proxy import Hold
from tests.takeover.requests import NO_COPY, PUBLISH, RECORD, SCHEMA
from tests.takeover.rig import TakeoverRig

pytestmark = [pytest.mark.s3, pytest.mark.slow]

#: Who is held at each of its requests, and who overtakes it.
SWEPT = [
    ("insert", "insert"),
    ("first_write", "first_write"),
    ("branch_create", "create_write"),
    ("branch_delete", "recreate"),
    ("branch_rename", "branch_write"),
]

#: Who is held, who overtakes it, and where.
DECIDING = [
    ("update", "insert", RECORD),
    ("delete", "company", PUBLISH),
    ("append", "append", RECORD),
    ("merge_load", "insert", PUBLISH),
    ("overwrite", "insert", RECORD),
    ("overwrite", "overwrite", PUBLISH),
    ("transaction", "insert", RECORD),
    ("revert", "transaction", PUBLISH),
    ("add_type", "insert", RECORD),
    ("add_type", "add_property", PUBLISH),
    ("add_property", "insert", SCHEMA),
    ("drop_type", "insert_spare", RECORD),
    ("insert_spare", "drop_type", RECORD),
    ("branch_merge", "insert", RECORD),
    ("branch_merge", "branch_write", PUBLISH),
    ("branch_restore", "branch_write", RECORD),
    ("indices", "insert", RECORD),
    ("recover", "insert", PUBLISH),
    ("reopen", "insert", PUBLISH),
]


@pytest.mark.timeout(900)  # about a second a request on a quiet machine
@pytest.mark.parametrize(("held", "other"), SWEPT)
def test_a_writer_that_is_overtaken_at_any_of_its_requests(place: TakeoverRig, held: str, other: str) -> None:
    place.sweep(held, other, part=NO_COPY)
    place.finish()


@pytest.mark.parametrize(("held", "other", "part"), DECIDING)
def test_a_writer_that_is_overtaken_at_its_deciding_request(
    place: TakeoverRig, held: str, other: str, part: str
) -> None:
    place.play_at(held, other, Hold(part=part))
    place.finish()


def test_a_process_that_stands_still_is_overtaken(place: TakeoverRig) -> None:
    place.play_at("insert", "insert", Hold(part=RECORD), "stopped")
    place.play_at("insert", "insert", Hold(part=PUBLISH), "stopped")
    place.play_at("first_write", "first_write", Hold(part=RECORD), "stopped")
    place.finish()
