"""The forms in which a graph is used. A test is written once, against the verbs of `Graph`."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

import omnigraph as og
from tests.support.served import served

SCHEMA = """
node Person {
    handle: String @key
    name: String @index
    age: I32?
    born: Date?
    seen: DateTime?
    score: F64?
    tags: [String]?
    mood: enum(calm, wild)?
    photo: Blob?
}
node Place { name: String @key  size: U64? }
edge Follows: Person -> Person { since: Date? }
edge LivesIn: Person -> Place @card(0..1)
"""
RECORDS = """
{"type":"Person","data":{"handle":"ana","name":"Ana","age":31,"born":"1990-02-03","photo":"base64:cGl4ZWxz"}}
{"type":"Person","data":{"handle":"bo","name":"Bo","seen":"2026-01-02T03:04:05Z","score":0.5,"tags":["x","ÿ"]}}
{"type":"Person","data":{"handle":"cy","name":"Cy the calm","mood":"calm"}}
{"type":"Place","data":{"name":"Rome","size":18446744073709551615}}
{"edge":"Follows","from":"ana","to":"bo","data":{"id":"f1","since":"2020-02-02"}}
{"edge":"Follows","from":"bo","to":"cy","data":{"id":"f2"}}
{"edge":"LivesIn","from":"ana","to":"Rome","data":{"id":"l1"}}
"""

FORMS = ("embedded", "one server", "two servers")


class InTurns:
    """Handles of one graph, used in turns: each verb goes to the next one."""

    def __init__(self, graphs: list[og.Graph]) -> None:
        self._turns = itertools.cycle(graphs)

    def __getattr__(self, name: str) -> Any:
        return getattr(next(self._turns), name)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with rows, to be copied."""
    folder = tmp_path_factory.mktemp("behaviour")
    (folder / "records.jsonl").write_text(RECORDS, "utf-8")
    with og.init(folder / "people.omni", SCHEMA, actor="act-first") as graph:
        graph.load(folder / "records.jsonl", "append", message="the first rows")
    return folder / "people.omni"


@pytest.fixture(params=["disk", pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.torture])])
def uri(request: pytest.FixtureRequest, filled: Path, tmp_path: Path) -> str:
    """Where the graph of a test is stored."""
    if request.param == "disk":
        return str(shutil.copytree(filled, tmp_path / "people.omni"))
    address = str(request.getfixturevalue("s3_root")) + "/people.omni"
    with og.init(address, SCHEMA, actor="act-first") as graph:
        graph.load(filled.parent / "records.jsonl", "append", message="the first rows")
    return address


@pytest.fixture
def opened(uri: str) -> Iterator[Callable[[str], og.Graph]]:
    """Opens the graph in a form."""
    with ExitStack() as stack:

        def handle(form: str) -> og.Graph:
            if form == "embedded":
                return stack.enter_context(og.open(uri))
            return stack.enter_context(og.open(_server(stack, uri)))

        def handles(form: str) -> og.Graph:
            if form != "two servers":
                return handle(form)
            return cast(og.Graph, InTurns([handle("one server") for _ in range(2)]))

        yield handles


def _server(stack: ExitStack, uri: str) -> str:
    return stack.enter_context(served({"people": uri})).graph_url()


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def graph(opened: Callable[[str], og.Graph], form: str) -> og.Graph:
    """The graph in the form under test."""
    return opened(form)


@pytest.fixture
def embedded(opened: Callable[[str], og.Graph]) -> og.Graph:
    """The same graph in this process, to compare with."""
    return opened("embedded")


@pytest.fixture(scope="module", params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def read_uri(request: pytest.FixtureRequest, filled: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph that the tests of one file only read."""
    if request.param == "disk":
        return str(shutil.copytree(filled, tmp_path_factory.mktemp("read") / "people.omni"))
    server = request.getfixturevalue("s3")
    address = f"{server.url}/{uuid4().hex}/people.omni"
    with og.init(address, SCHEMA, actor="act-first") as graph:
        graph.load(filled.parent / "records.jsonl", "append", message="the first rows")
    return address


@pytest.fixture(scope="module")
def both(read_uri: str) -> Iterator[tuple[og.Graph, og.Graph]]:
    """A graph behind two servers in turns, and the same graph in this process."""
    with ExitStack() as stack:
        urls = [_server(stack, read_uri) for _ in range(2)]
        remote = [stack.enter_context(og.open(url)) for url in urls]
        yield cast(og.Graph, InTurns(remote)), stack.enter_context(og.open(read_uri))


@pytest.fixture(scope="module", params=FORMS)
def loaded_into(request: pytest.FixtureRequest, filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A graph on disk whose tests each write to a branch of their own."""
    place = str(shutil.copytree(filled, tmp_path_factory.mktemp("loaded") / "people.omni"))
    with ExitStack() as stack:
        if request.param == "embedded":
            yield stack.enter_context(og.open(place))
            return
        number = FORMS.index(request.param)
        yield InTurns([stack.enter_context(og.open(_server(stack, place))) for _ in range(number)])
