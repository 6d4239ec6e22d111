"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from omnigraph import failpoints
from tests.support.s3_server import S3Server


@pytest.fixture(autouse=True)
def nothing_stays_armed() -> Iterator[None]:
    """Failpoints are global to the process; a test that fails must not arm those of the next."""
    yield
    failpoints.arm("")


@pytest.fixture
def s3_root(s3: S3Server) -> str:
    """An empty place. Our own server looks through all it holds for each listing, and these tests list often."""
    if s3.is_slow_when_full:
        s3.reset()
    return f"{s3.url}/{uuid4().hex}"
