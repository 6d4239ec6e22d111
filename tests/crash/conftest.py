"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph import failpoints
from tests.support.moto_server import MotoServer


@pytest.fixture(autouse=True)
def nothing_stays_armed() -> Iterator[None]:
    """Failpoints are global to the process; a test that fails must not arm those of the next."""
    yield
    failpoints.arm("")


@pytest.fixture
def s3_root(s3: MotoServer) -> str:
    """An empty server: it looks through everything it holds for each listing, and these tests list often."""
    s3.reset()
    return f"{s3.url}/graph"
