"""Servers of a graph that tests read from, or that each test may change as it likes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.operations.api import Api, api

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """For tests that change nothing but branches of their own."""
    with api(tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Api]:
    """For tests that change main."""
    with api(tmp_path) as found:
        yield found


@pytest.fixture
def branch(shared: Api) -> str:
    """A new branch of the shared graph."""
    return str(shared.done("/branches", name=f"b-{next(_NUMBERS)}")["name"])
