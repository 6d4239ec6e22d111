"""A graph for agents."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.mcp.agents import make_graph


@pytest.fixture(scope="session")
def graph_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody changes."""
    return make_graph(tmp_path_factory.mktemp("agents"))


@pytest.fixture
def place(tmp_path: Path, graph_once: Path) -> Path:
    """A graph of one's own, with ``stored.gq`` beside it."""
    shutil.copytree(graph_once.parent, tmp_path / "work")
    return tmp_path / "work" / graph_once.name


@pytest.fixture
def graph(place: Path) -> Iterator[og.Graph]:
    with og.open(place, actor="act-ana") as opened:
        yield opened
