"""A graph to serve, and a server of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.probes import Probes
from tests.support.served import Served, served
from tests.support.small_graphs import people


@pytest.fixture(scope="session")
def people_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of two people, shared by tests that change nothing in it."""
    path = tmp_path_factory.mktemp("served") / "people.omni"
    people(path, "ana", "bo").close()
    return path


@pytest.fixture
def probes() -> Iterator[Probes]:
    found = Probes()
    yield found
    found.gate.set()


@pytest.fixture
def serve_probes(people_path: Path, probes: Probes) -> Iterator[Callable[..., Served]]:
    """Starts servers of probes that stop at the end of the test."""
    with ExitStack() as running:

        def start(**settings: Any) -> Served:
            return running.enter_context(served({"people": people_path}, operations=probes.operations(), **settings))

        yield start
        probes.gate.set()
