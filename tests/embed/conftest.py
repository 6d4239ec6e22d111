"""The provider of these tests: a server on loopback, and an environment that names nobody else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.embedding_server import EmbeddingServer, embedding_server


@pytest.fixture(autouse=True)
def no_provider_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OMNIGRAPH_EMBED") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


@pytest.fixture
def provider() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server
