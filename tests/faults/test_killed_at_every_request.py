"""A writer that dies before any of its durable requests leaves all of its work or none, and the next one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.operations import OPERATIONS
from tests.faults.rig import MOST, fault_rig
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.s3


def test_a_writer_killed_between_its_tables_leaves_all_or_nothing(s3: S3Server, s3_root: str, tmp_path: Path) -> None:
    """The requests after its data, its turn and its record: the two tables, the publish."""
    with fault_rig(s3, s3_root, tmp_path) as place:
        assert [place.kill_before("insert", request) for request in (6, 8)] == [True, True]


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_writer_killed_before_any_request_leaves_all_or_nothing(
    operation: str, s3: S3Server, s3_root: str, tmp_path: Path
) -> None:
    with fault_rig(s3, s3_root, tmp_path) as place:
        kills = 0
        while place.kill_before(operation, kills + 1):
            kills += 1
            assert kills < MOST
        assert kills > 0
