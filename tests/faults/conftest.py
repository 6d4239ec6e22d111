"""Settings of every test with a faulty store."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that could not be given back ends by itself; no test wants to wait for that."""
    monkeypatch.setenv("OMNIGRAPH_LEASE_SECONDS", "6")
