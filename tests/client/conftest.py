"""A small graph behind a server, and a proxy between that makes requests go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import limits
from tests.support.fault_proxy import FaultProxy
from tests.support.served import Served, served

SCHEMA = "node Person { handle: String @key  name: String }\nedge Follows: Person -> Person"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long before the next attempt."""
    monkeypatch.setattr(limits, "CLIENT_BACKOFF_SECONDS", 0.005)
    monkeypatch.setattr(limits, "CLIENT_LONGEST_BACKOFF_SECONDS", 0.05)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    with og.init(folder / "people.omni", SCHEMA) as graph:
        graph.load({"Person": [{"handle": "ana", "name": "Ana"}, {"handle": "bo", "name": "Bo"}]}, "append")
    return folder / "people.omni"


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Served]:
    with served({"people": place}) as found:
        yield found


@pytest.fixture(scope="module")
def proxy(server: Served) -> FaultProxy:
    return FaultProxy(server.url)


@pytest.fixture(scope="module")
def graph(proxy: FaultProxy) -> Iterator[og.Graph]:
    """The graph behind the proxy."""
    with proxy.serve() as url, og.open(f"{url}/graphs/people") as opened:
        yield opened
