"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph import failpoints


@pytest.fixture(autouse=True)
def nothing_stays_armed() -> Iterator[None]:
    """Failpoints are global to the process; a test that fails must not arm those of the next."""
    yield
    failpoints.arm("")
