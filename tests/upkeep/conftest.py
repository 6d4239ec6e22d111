"""Small tables have vector indexes here, so that upkeep of them is tried without 10,000 rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph import limits


@pytest.fixture(autouse=True, scope="package")
def vector_indexes_of_small_tables() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "VECTOR_INDEX_ROWS", 1)
        yield
