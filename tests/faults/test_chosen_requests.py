"""The requests that decide how a write ends, each under the fault that tells most about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rig import fault_rig
from tests.support.fault_proxy import READS, WRITES, Fault
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.s3

#: More requests than any operation makes.
FOR_GOOD = 10_000

CASES = {
    "insert": [
        (Fault("reset_after", part=".lease"), "done"),  # its turn was granted and nobody said so
        (Fault("503", first=2, times=FOR_GOOD, part=".lease"), "done"),  # the turn cannot be given back
        (Fault("503", times=FOR_GOOD, part="__recovery/01"), "StoreUnavailable"),  # no record, nothing moved
        (Fault("reset_after", part="/nodes/"), "done"),
        (Fault("412", part="/_versions/"), "done"),  # somebody seems to have been faster: the whole again
        (Fault("late", part="__manifest/_versions/"), "done"),  # the repeated publish is overtaken by the first
        (Fault("503", times=FOR_GOOD, part="__manifest/_versions/"), "RecoveryRequired"),
        (Fault("reset_after", times=FOR_GOOD, part="__manifest/_versions/"), "done"),
    ],
    "branches": [
        (Fault("reset_after", part="_refs/branches"), "done"),
        (Fault("503", times=FOR_GOOD, part="_refs/branches"), "StoreUnavailable"),
        (Fault("reset_after", 2, FOR_GOOD, READS | WRITES, "_refs/branches/m"), "OutcomeUnknown"),
    ],
}


def test_a_write_ends_as_its_deciding_requests_do(s3: S3Server, s3_root: str, tmp_path: Path) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        for fault, end in CASES["insert"]:
            assert place.attempt("insert", fault) == end, str(fault)


def test_a_new_branch_is_there_although_nobody_said_so(s3: S3Server, s3_root: str, tmp_path: Path) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        for fault, end in CASES["branches"]:
            assert place.attempt("branch_create", fault) == end, str(fault)


def test_a_branch_is_gone_although_its_ref_cannot_be_removed(s3: S3Server, s3_root: str, tmp_path: Path) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        assert place.attempt("branch_delete", Fault("503", times=FOR_GOOD, part="_refs/branches/")) == "done"
