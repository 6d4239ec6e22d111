"""Small tables have vector indexes here, so that upkeep of them is tried without 10,000 rows."""

from __future__ import annotations

import pytest

from omnigraph import limits


@pytest.fixture(autouse=True)
def vector_indexes_of_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VECTOR_INDEX_ROWS", 1)
