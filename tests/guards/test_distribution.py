"""The spread of the tests over workers: files stay whole, Spark stays on one worker, the long come first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.distribution import SPARK, handed_out_with, place, uses_session


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("tests/cli/test_a.py::test_b[x::y]", "tests/cli/test_a.py"),
        ("tests/cli/test_a.py::test_b", "tests/cli/test_a.py"),
        ("tests/spark/test_read.py::test_b", SPARK),
        ("tests/parity/test_loads.py::test_b[1]", SPARK),
        ("tests/spark/test_cluster.py::test_b", "tests/spark/test_cluster.py"),
    ],
)
def test_a_file_is_handed_out_whole_and_so_is_spark(nodeid: str, expected: str) -> None:
    assert handed_out_with(nodeid) == expected


def test_spark_and_the_long_come_before_the_short() -> None:
    files = ["tests/parity/test_loads.py", "tests/crash/test_a.py", "tests/write/test_a.py", "tests/query/test_a.py"]
    assert [place(file) for file in files] == [0, 1, 2, 3]


def test_every_test_that_takes_the_session_goes_to_the_worker_that_has_it(request: pytest.FixtureRequest) -> None:
    elsewhere = [item.nodeid for item in request.session.items if uses_session(item) and place(item.nodeid) != 0]
    assert elsewhere == []


def test_a_test_that_takes_the_session_is_known(request: pytest.FixtureRequest) -> None:
    with_session: Any = SimpleNamespace(fixturenames=["tmp_path", SPARK])
    assert uses_session(with_session)
    assert not uses_session(request.node)
