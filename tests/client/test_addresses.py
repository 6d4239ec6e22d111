"""Which graph an address means, who asks, and what is refused before anything is sent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import aio
from omnigraph.client.address import ServerAddress, server_address, token_of
from omnigraph.client.served_graphs import served_graphs
from omnigraph.errors import (
    DeniedError,
    GraphClosed,
    GraphNotFound,
    InputError,
    InvalidUri,
    NotOffered,
    PolicyDenied,
    ReadOnly,
    ServerUnavailable,
    Unauthenticated,
)
from tests.client.conftest import SCHEMA
from tests.support.served import Served, served

RULES = """version: 1
groups:
  all: [act-ana]
rules:
  - id: list
    allow: { actors: { group: all }, actions: [graph_list] }
"""


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://host:8080/graphs/people", ServerAddress("http://host:8080", "people")),
        ("HTTPS://host/graphs/people/", ServerAddress("https://host", "people")),
        ("http://host/og/graphs/people", ServerAddress("http://host/og", "people")),
        ("http://[::1]:80/graphs/a%20b", ServerAddress("http://[::1]:80", "a b")),
        ("http://host:8080", ServerAddress("http://host:8080", None)),
        ("http://host:8080/graphs/", ServerAddress("http://host:8080", None)),
        ("http://host/one/graph", ServerAddress("http://host/one/graph", None)),
    ],
)
def test_an_address_names_a_server_and_a_graph(uri: str, expected: ServerAddress) -> None:
    assert server_address(uri) == expected


@pytest.mark.parametrize(
    "uri",
    [
        "http://ana:secret@host/graphs/people",
        "http://host/graphs/people?token=secret",
        "http://",
        "http://h:x/",
        "http://h /",
    ],
)
def test_what_is_no_address_is_refused_without_its_secrets(uri: str) -> None:
    with pytest.raises(InvalidUri) as caught:
        server_address(uri)
    assert "secret" not in str(caught.value)


def test_the_token_of_the_environment_counts_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", " t1 ")
    assert (token_of(None), token_of("t2")) == ("t1", "t2")
    monkeypatch.delenv("OMNIGRAPH_BEARER_TOKEN")
    assert token_of(None) is None
    with pytest.raises(InvalidUri) as caught:
        token_of("Bearer s3cret")
    assert "s3cret" not in str(caught.value)


def test_a_storage_takes_no_token_and_a_server_nothing_of_the_storage(place: Path, server: Served) -> None:
    with pytest.raises(InputError, match="a token is for a graph behind a server"):
        og.open(place, token="t")  # type: ignore[call-overload]
    for given in ({"actor": "act-ana"}, {"policy": "version: 1"}, {"audit": "-"}):
        with pytest.raises(NotOffered, match="belongs to the storage"):
            og.open(server.graph_url(), **given)  # type: ignore[call-overload]
    with pytest.raises(NotOffered, match="coroutines are for a graph behind a server"):
        asyncio.run(aio.open(str(place)))


def test_an_unknown_graph_and_a_server_that_is_not_there_are_told_at_once(server: Served) -> None:
    with pytest.raises(GraphNotFound):
        og.open(server.graph_url("nobody"))
    nowhere = "http://127.0.0.1:9/graphs/people"
    with pytest.raises(ServerUnavailable, match="gave no answer in 2 attempts"):
        og.open(nowhere)
    with pytest.raises(ServerUnavailable, match="gave no answer in 2 attempts"):
        asyncio.run(aio.open(nowhere))
    with pytest.raises(InvalidUri, match="does not tell which graph"):
        og.open(server.url)  # without a policy of the server its graphs are not listed


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two graphs behind tokens; one actor may list them."""
    folder = tmp_path_factory.mktemp("guarded")
    for name in ("people", "places"):
        og.init(folder / f"{name}.omni", SCHEMA).close()
    (folder / "server.yaml").write_text(RULES, "utf-8")
    graphs = {name: folder / f"{name}.omni" for name in ("people", "places")}
    tokens = {"act-ana": "token-of-ana", "act-bo": "token-of-bo"}
    with served(graphs, tokens=tokens, server_policy=folder / "server.yaml") as found:
        yield found


def test_a_server_with_several_graphs_lists_them(guarded: Served) -> None:
    assert [name for name, _ in served_graphs(guarded.url, token="token-of-ana")] == ["people", "places"]
    with pytest.raises(InvalidUri, match="serves 2 graphs: people, places"):
        og.open(guarded.url, token="token-of-ana")
    with pytest.raises(PolicyDenied):
        served_graphs(guarded.url, token="token-of-bo")
    with og.open(guarded.graph_url("places"), token="token-of-bo") as graph:
        assert graph.uri == guarded.graph_url("places")


@pytest.mark.parametrize("token", [None, "token-of-nobody"])
def test_a_wrong_token_is_told_at_once_and_never_shown(token: str | None, guarded: Served) -> None:
    with pytest.raises(Unauthenticated) as caught:
        og.open(guarded.graph_url(), token=token)
    assert isinstance(caught.value, DeniedError)
    assert "token-of" not in str(caught.value) + repr(caught.value.details)


def test_nothing_shows_the_token(guarded: Served) -> None:
    with og.open(guarded.graph_url(), token="token-of-ana") as graph:
        shown = repr(graph) + repr(graph._connection.settings) + repr(vars(graph))
    assert "token-of-ana" not in shown


def test_default_deny_refuses_a_write_with_the_error_of_the_policy(guarded: Served) -> None:
    with og.open(guarded.graph_url(), token="token-of-bo") as graph:
        assert graph.snapshot().count("Person") == 0
        with pytest.raises(PolicyDenied) as caught:
            graph.mutate('query q() { insert Person { handle: "x", name: "x" } }')
    assert (caught.value.details["action"], caught.value.details["actor"]) == ("change", "act-bo")


def test_a_handle_that_only_reads_writes_nothing(server: Served) -> None:
    with og.open(server.graph_url(), mode="ro") as graph:
        before = graph.commits.head().id
        for write in (
            lambda: graph.mutate('query q() { insert Person { handle: "x", name: "x" } }'),
            lambda: graph.branches.create("x"),
            lambda: graph.tags.create("x"),
        ):
            with pytest.raises(ReadOnly, match="open read-only"):
                write()
        assert graph.commits.head().id == before


def test_a_closed_handle_refuses_everything(server: Served) -> None:
    graph = og.open(server.graph_url())
    graph.close()
    graph.close()
    with pytest.raises(GraphClosed):
        graph.commits.head()
    with pytest.raises(GraphClosed), graph:
        pass
    assert repr(graph).endswith(", closed)")


# --- the same surface


def parameters(function: object) -> list[tuple[str, object, object]]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return [(each.name, each.kind, each.default) for each in signature.parameters.values() if each.name != "self"]


PAIRS = [
    (og.Graph, og.RemoteGraph, aio.AsyncRemoteGraph),
    (og.Branches, og.RemoteBranches, aio.AsyncRemoteBranches),
    (og.Commits, og.RemoteCommits, aio.AsyncRemoteCommits),
    (og.Tags, og.RemoteTags, aio.AsyncRemoteTags),
    (og.SchemaControl, og.RemoteSchema, aio.AsyncRemoteSchema),
    (og.Snapshot, og.RemoteSnapshot, aio.AsyncRemoteSnapshot),
]


@pytest.mark.parametrize(("embedded", "remote", "coroutines"), PAIRS, ids=[each[0].__name__ for each in PAIRS])
def test_every_verb_is_there_with_the_same_arguments(embedded: type, remote: type, coroutines: type) -> None:
    for name, member in inspect.getmembers(embedded):
        if name.startswith("_"):
            continue
        assert hasattr(remote, name), f"{remote.__name__} has no {name}"
        if not inspect.isfunction(member):
            continue
        for kind in (remote, coroutines):
            twin = getattr(kind, name)
            assert inspect.getdoc(twin), f"{kind.__name__}.{name} has no docstring"
            if "Not offered" not in (inspect.getdoc(twin) or ""):
                assert parameters(twin) == parameters(member), f"{kind.__name__}.{name}"


def test_what_a_server_does_not_offer_says_what_to_do(server: Served) -> None:
    with og.open(server.graph_url()) as graph:
        verbs = (graph.transaction, graph.optimize, graph.verify, graph.recover, lambda: graph.retention)
        for verb in verbs:
            with pytest.raises(NotOffered) as caught:
                verb()
            assert "not on one behind a server" in caught.value.message and caught.value.hint
        with pytest.raises(NotOffered):
            graph.query("query q() { match { $p: Person } return { $p.name } }", is_cancelled=lambda: True)
        with pytest.raises(NotOffered):
            graph.export(format="parquet")
        with pytest.raises(NotOffered):
            graph.load({"Person": [{"handle": "x", "name": "x"}]}, "append", engine="spark")
        with pytest.raises(NotOffered):
            graph.snapshot().dataset("Person")
