"""Texts in `nearest`: embedded when the query runs, once, with the dimension of the property."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.embed.mock_vectors import mock_vectors
from omnigraph.errors import (
    EmbeddingModelMismatch,
    EmbeddingSettingsError,
    ProviderRefused,
    QueryTypeError,
)
from tests.support.embedding_server import EmbeddingServer, Misbehaviour

SCHEMA = """
node Note { slug: String @key  body: String  vec: Vector(4)? @embed("body")  small: Vector(2)? @embed("body") }
node Fixed { slug: String @key  body: String  vec: Vector(4)? @embed("body", model="m1") }
"""
NEAR = "query q($t: String) { match { $n: Note } return { $n.slug as s } order { nearest($n.vec, $t) } limit 2 }"
TEXTS = {"a": "alpha", "b": "beta", "c": "gamma"}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "notes.omni", SCHEMA)
    rows = [
        {
            "slug": slug,
            "body": text,
            "vec": mock_vectors([text], 4)[0].tolist(),
            "small": mock_vectors([text], 2)[0].tolist(),
        }
        for slug, text in TEXTS.items()
    ]
    graph.load({"Note": rows}, "append")
    return graph


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")


@pytest.mark.parametrize("slug", TEXTS)
def test_a_text_finds_what_was_embedded_from_the_same_text(graph: og.Graph, mock: None, slug: str) -> None:
    assert graph.query(NEAR, {"t": TEXTS[slug]}).rows()[0] == {"s": slug}


def test_a_text_in_the_query_and_its_distance_work_like_a_vector(graph: og.Graph, mock: None) -> None:
    text = """query q() { match { $n: Note } return { $n.slug as s, nearest($n.vec, "beta") as far }
              order { nearest($n.vec, "beta") } limit 1 }"""
    (row,) = graph.query(text).rows()
    assert row["s"] == "b"
    assert row["far"] == pytest.approx(0.0, abs=1e-6)


def test_one_text_against_two_properties_has_a_vector_of_each_dimension(graph: og.Graph, mock: None) -> None:
    text = """query q($t: String) { match { $n: Note } return { $n.slug as s }
              order { rrf(nearest($n.vec, $t), nearest($n.small, $t)) } limit 1 }"""
    assert graph.query(text, {"t": "gamma"}).rows() == [{"s": "c"}]


def test_a_null_text_finds_nothing(graph: og.Graph, mock: None) -> None:
    assert graph.query(NEAR.replace("$t: String", "$t: String?"), {"t": None}).rows() == []


def test_the_text_goes_to_the_provider_once_and_with_the_role_of_a_query(
    graph: og.Graph, provider: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in provider.environment("gemini").items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        assert graph.query(NEAR, {"t": "beta"}).rows()[0] == {"s": "b"}
    assert [request["taskType"] for request in provider.requests] == ["RETRIEVAL_QUERY"]
    assert provider.requests[0]["outputDimensionality"] == 4


def test_a_vector_never_asks_a_provider(graph: og.Graph) -> None:
    text = NEAR.replace("$t: String", "$t: Vector(4)")
    assert graph.query(text, {"t": mock_vectors(["beta"], 4)[0].tolist()}).rows()[0] == {"s": "b"}


def test_a_text_without_a_provider_names_the_variables(graph: og.Graph) -> None:
    with pytest.raises(EmbeddingSettingsError, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
        graph.query(NEAR, {"t": "beta"})


def test_a_provider_that_is_set_later_is_found(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddingSettingsError):
        graph.query(NEAR, {"t": "beta"})
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert graph.query(NEAR, {"t": "beta"}).rows()[0] == {"s": "b"}


def test_another_model_than_the_declared_one_is_refused_and_both_are_named(
    graph: og.Graph, mock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = NEAR.replace("Note", "Fixed")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "openai/m1")
    with pytest.raises(EmbeddingModelMismatch, match=r"Fixed.vec .* 'm1', and the configured model is 'openai/m1'"):
        graph.query(text, {"t": "beta"})
    graph.close()
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m1")
    with og.open(graph.uri) as again:
        assert again.query(text, {"t": "beta"}).rows() == []


def test_a_refusal_of_the_provider_shows_no_text(
    graph: og.Graph, provider: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in provider.environment().items():
        monkeypatch.setenv(name, value)
    provider.script = [Misbehaviour(401, body=b"who asks for room eleven?")]
    with pytest.raises(ProviderRefused, match="status 401") as refused:
        graph.query(NEAR, {"t": "room eleven"})
    assert "eleven" not in str(refused.value)


def test_explain_asks_the_provider_only_when_it_runs(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nearest($n.vec, $t)" in str(graph.explain(NEAR, {"t": "beta"}))
    with pytest.raises(EmbeddingSettingsError):
        graph.explain(NEAR, {"t": "beta"}, run=True)
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert graph.explain(NEAR, {"t": "beta"}, run=True).rows == 2


def test_a_transaction_searches_its_own_rows_by_text(graph: og.Graph, mock: None) -> None:
    with graph.transaction() as tx:
        tx.insert("Note", {"slug": "d", "body": "delta", "vec": mock_vectors(["delta"], 4)[0].tolist()})
        assert tx.query(NEAR, params={"t": "delta"}).rows()[0] == {"s": "d"}


def test_a_text_of_a_property_is_no_text_to_embed(graph: og.Graph) -> None:
    with pytest.raises(QueryTypeError, match="T15"):
        graph.query(NEAR.replace("$t)", "$n.body)"), {"t": "x"})


def test_a_query_without_a_text_never_imports_this_room(graph: og.Graph) -> None:
    code = (
        "import sys, omnigraph as og\n"
        f"og.open({graph.uri!r}).query('query q() {{ match {{ $n: Note }} return {{ $n.slug }} }}')\n"
        "print([name for name in sys.modules if name.startswith('omnigraph.embed') or name == 'http.client'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
