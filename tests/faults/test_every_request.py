"""Whatever a single request of a writer meets, the write is done, refused or resolved later, and the next one works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.operations import OPERATIONS
from tests.faults.rig import fault_rig
from tests.support.fault_proxy import READS
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.s3

#: More requests than the operation makes, however often the libraries try again.
FOR_GOOD = 10_000


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_lost_answer_to_any_request_is_no_lost_write(
    operation: str, s3: S3Server, s3_root: str, tmp_path: Path
) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        place.sweep(operation, "reset_after")
    assert set(place.ended) == {"done"}, "a lost answer was not looked up"


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["late", "reset_before", "500", "503", "429", "409", "412"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_bad_answer_at_any_request(operation: str, kind: str, s3: S3Server, s3_root: str, tmp_path: Path) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        place.sweep(operation, kind)


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["503", "reset_after"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_store_that_stays_down_from_any_request_on(
    operation: str, kind: str, s3: S3Server, s3_root: str, tmp_path: Path
) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        place.sweep(operation, kind, times=FOR_GOOD)
    assert set(place.ended) > {"done"}


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS)
def test_half_an_answer_at_any_read(operation: str, s3: S3Server, s3_root: str, tmp_path: Path) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        place.sweep(operation, "cut", step=3, methods=READS)
