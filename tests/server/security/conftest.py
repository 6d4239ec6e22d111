"""One server for each state, started by the first test that asks, and looked over when the tests of a file are done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.security.leaks import leaks_of
from tests.server.security.places import Place, place


@pytest.fixture(scope="session")
def open_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Everybody is served."""
    yield from _watched(tmp_path_factory.mktemp("open"), tokens=False, policy=False)


@pytest.fixture(scope="session")
def deny_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Tokens and no policy: everybody with a token may read."""
    yield from _watched(tmp_path_factory.mktemp("deny"), tokens=True, policy=False)


@pytest.fixture(scope="session")
def policy_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Tokens and a policy."""
    yield from _watched(tmp_path_factory.mktemp("policy"), tokens=True, policy=True)


def _watched(folder: Path, *, tokens: bool, policy: bool) -> Iterator[Place]:
    with place(folder, tokens=tokens, policy=policy) as found:
        yield found
        assert leaks_of(found) == []
