"""Calls to providers: what is sent, what is taken, what is tried again, and what never leaks."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from omnigraph.embed.embedder import Embedder, in_requests
from omnigraph.embed.embedding_settings import settings_from
from omnigraph.embed.mock_vectors import mock_vectors
from omnigraph.errors import (
    EmbeddingError,
    EmbeddingSettingsError,
    InputError,
    InvalidEmbedding,
    MissingExtra,
    ProviderRefused,
    ProviderUnavailable,
)
from tests.support.embedding_server import KEY, EmbeddingServer, Misbehaviour, error_body

SECRET_TEXT = "the patient of room eleven"
TEXTS = [SECRET_TEXT, "two", "three ✓"]


def embedder(server: EmbeddingServer, provider: str = "openai-compatible", **more: str) -> Embedder:
    return Embedder(settings_from(server.environment(provider, **more)))


# --- what is sent and taken


def test_the_openai_request_has_the_documented_shape(provider: EmbeddingServer) -> None:
    found = embedder(provider, "openai").documents(TEXTS, 8)
    assert np.allclose(found, mock_vectors(TEXTS, 8), atol=1e-6)
    assert provider.paths == ["/v1/embeddings"]
    assert provider.requests == [{"model": "m1", "input": TEXTS, "dimensions": 8}]
    assert provider.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_the_gemini_request_for_a_query_has_the_documented_shape(provider: EmbeddingServer) -> None:
    found = embedder(provider, "gemini").query("where", 4)
    assert np.allclose(found, mock_vectors(["where"], 4), atol=1e-6)
    assert provider.paths == ["/v1/models/m1:embedContent"]
    assert provider.requests == [
        {
            "model": "models/m1",
            "content": {"parts": [{"text": "where"}]},
            "taskType": "RETRIEVAL_QUERY",
            "outputDimensionality": 4,
        }
    ]
    assert provider.headers[0]["x-goog-api-key"] == KEY


def test_documents_go_to_gemini_in_batches_of_requests(provider: EmbeddingServer) -> None:
    found = embedder(provider, "gemini", OMNIGRAPH_EMBED_BATCH="2").documents(TEXTS, 4)
    assert np.allclose(found, mock_vectors(TEXTS, 4), atol=1e-6)
    assert provider.paths == ["/v1/models/m1:batchEmbedContents", "/v1/models/m1:embedContent"]
    assert {part["taskType"] for part in provider.requests[0]["requests"]} == {"RETRIEVAL_DOCUMENT"}


@pytest.mark.parametrize("protocol", ["openai", "gemini"])
def test_many_texts_are_cut_into_requests_and_keep_their_order(provider: EmbeddingServer, protocol: str) -> None:
    texts = [f"text {number}" for number in range(7)]
    found = embedder(provider, protocol, OMNIGRAPH_EMBED_BATCH="3").documents(texts, 4)
    assert np.allclose(found, mock_vectors(texts, 4), atol=1e-6)
    assert len(provider.requests) == 3
    assert provider.texts == texts


def test_requests_are_also_cut_by_the_length_of_their_texts() -> None:
    long = "x" * 300_000
    assert [len(part) for part in in_requests([long, long, "a", "b"], 64)] == [1, 3]
    assert list(in_requests(["x" * 900_000, "y"], 64)) == [["x" * 900_000], ["y"]]
    assert list(in_requests([], 64)) == []


def test_no_text_needs_no_request(provider: EmbeddingServer) -> None:
    assert embedder(provider).documents([], 4).shape == (0, 4)
    assert provider.requests == []


# --- what is tried again


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_status_that_may_pass_is_tried_again(provider: EmbeddingServer, status: int) -> None:
    provider.script = [Misbehaviour(status, body=b"busy"), Misbehaviour(status, body=b"busy")]
    assert embedder(provider).query("x", 4).shape == (1, 4)
    assert len(provider.requests) == 3


def test_attempts_end_and_the_error_says_how_many_there_were(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(500, body=error_body(f"{SECRET_TEXT} {KEY}")) for _ in range(9)]
    with pytest.raises(ProviderUnavailable, match="failed 3 times, the last time with status 500") as failed:
        embedder(provider, OMNIGRAPH_EMBED_RETRY_ATTEMPTS="3").query(SECRET_TEXT, 4)
    assert len(provider.requests) == 3
    assert_silent(str(failed.value), repr(failed.value.details))


def test_retry_after_is_waited_for(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(429, {"Retry-After": "1"})]
    began = time.monotonic()
    embedder(provider).query("x", 4)
    assert time.monotonic() - began >= 1.0


def test_retry_after_as_a_date_that_has_passed_costs_nothing(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})]
    assert embedder(provider).query("x", 4).shape == (1, 4)


def test_retry_after_beyond_the_deadline_fails_at_once(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(429, {"Retry-After": "3600"})]
    began = time.monotonic()
    with pytest.raises(ProviderUnavailable, match="deadline of 60 s, and the next attempt may begin in 3600 s"):
        embedder(provider).query("x", 4)
    assert time.monotonic() - began < 5
    assert len(provider.requests) == 1


@pytest.mark.parametrize("fault", [Misbehaviour(hangs=True), Misbehaviour(drips=True)], ids=["hangs", "drips"])
def test_a_slow_answer_is_cut_and_asked_for_again(provider: EmbeddingServer, fault: Misbehaviour) -> None:
    provider.script = [fault]
    began = time.monotonic()
    assert embedder(provider, OMNIGRAPH_EMBED_TIMEOUT_MS="200").query("x", 4).shape == (1, 4)
    assert time.monotonic() - began < 4
    assert len(provider.requests) == 2


def test_the_deadline_ends_everything_and_names_provider_and_model(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(hangs=True) for _ in range(4)]
    began = time.monotonic()
    with pytest.raises(ProviderUnavailable, match=r"'openai-compatible' \(model 'm1'\) exceeded the deadline of 0.3 s"):
        embedder(provider, OMNIGRAPH_EMBED_DEADLINE_MS="300").query("x", 4)
    assert time.monotonic() - began < 4


def test_a_cut_connection_is_asked_again(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(cuts=True)]
    assert embedder(provider).query("x", 4).shape == (1, 4)
    assert len(provider.requests) == 2


def test_nobody_at_the_address_is_unavailable() -> None:
    environ = {"OPENAI_API_KEY": KEY, "OMNIGRAPH_EMBED_BASE_URL": "http://127.0.0.1:9", "OMNIGRAPH_EMBED_MODEL": "m"}
    with pytest.raises(ProviderUnavailable, match="failed 2 times, the last time with a broken connection") as failed:
        more = {"OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "2", "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "1"}
        Embedder(settings_from({**environ, **more})).query(SECRET_TEXT, 4)
    assert_silent(str(failed.value))


def test_requests_begin_no_faster_than_the_rate_allows(provider: EmbeddingServer) -> None:
    asked = embedder(provider, OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE="600", OMNIGRAPH_EMBED_BATCH="1")
    began = time.monotonic()
    asked.documents(["a", "b", "c", "d"], 4)
    assert time.monotonic() - began >= 0.3


# --- what is refused at once


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_another_status_is_refused_without_a_second_request(provider: EmbeddingServer, status: int) -> None:
    body = error_body(f"no: {SECRET_TEXT} with {KEY}", "invalid_api_key")
    provider.script = [Misbehaviour(status, {"Location": f"{provider.url}/elsewhere"}, body)]
    with pytest.raises(ProviderRefused, match=rf"status {status} \(invalid_api_key\)") as refused:
        embedder(provider).query(SECRET_TEXT, 4)
    assert refused.value.details["status"] == status
    assert len(provider.requests) == 1
    assert_silent(str(refused.value), repr(refused.value.details))


@pytest.mark.parametrize("code", [KEY[:12], "patient", "with spaces", "x" * 80, 7, None])
def test_a_word_of_the_provider_that_may_be_a_secret_is_not_shown(provider: EmbeddingServer, code: Any) -> None:
    provider.script = [Misbehaviour(400, body=json.dumps({"error": {"code": code, "message": "m"}}).encode())]
    with pytest.raises(ProviderRefused) as refused:
        embedder(provider).query(SECRET_TEXT, 4)
    assert str(refused.value).partition(" (check")[0].endswith("with status 400")


def changed(act: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    """An answer whose list of vectors is another one."""

    def change(answer: Any) -> Any:
        name = "data" if "data" in answer else "embeddings"
        return {name: act(answer[name])}

    return change


def component(value: Any) -> Callable[[Any], Any]:
    """An answer in which one component is another one."""

    def change(answer: Any) -> Any:
        item = answer["data"][0]
        item["embedding"][2] = value
        return answer

    return change


WRONG_ANSWERS: dict[str, tuple[Misbehaviour, str]] = {
    "wrong dimension": (
        Misbehaviour(change=changed(lambda data: [{**each, "embedding": each["embedding"][1:]} for each in data])),
        "3 components, 4 are wanted",
    ),
    "not a number": (Misbehaviour(change=component(math.nan)), "component 2 .* not a finite number"),
    "infinite": (Misbehaviour(change=component(math.inf)), "component 2 .* not a finite number"),
    "too large for 32 bits": (Misbehaviour(change=component(1e300)), "component 2 .* not a finite number"),
    "an integer without end": (Misbehaviour(change=component(10**400)), "not finite"),
    "a text": (Misbehaviour(change=component("0.1")), "something else than numbers"),
    "a truth value": (Misbehaviour(change=component(True)), "something else than numbers"),
    "zero": (
        Misbehaviour(change=changed(lambda data: [{**each, "embedding": [0.0] * 4} for each in data])),
        "zero vector",
    ),
    "one too few": (Misbehaviour(change=changed(lambda data: data[1:])), "not one for each of 3 texts; there are 2"),
    "one too many": (
        Misbehaviour(change=changed(lambda data: [*data, {**data[0], "index": 3}])),
        "not one for each of 3 texts; there are 4",
    ),
    "an index twice": (
        Misbehaviour(change=changed(lambda data: [{**each, "index": 0} for each in data])),
        "not one for each of 3 texts",
    ),
    "no index": (
        Misbehaviour(change=changed(lambda data: [{"embedding": each["embedding"]} for each in data])),
        "not one for each of 3 texts",
    ),
    "no vector": (Misbehaviour(change=changed(lambda data: [{"index": each["index"]} for each in data])), "a vector"),
    "no list": (Misbehaviour(body=b'{"data": 1}'), "without vectors"),
    "no object": (Misbehaviour(body=b"[]"), "without vectors"),
    "no JSON": (Misbehaviour(body=b"<html>"), "not JSON"),
    "deep": (Misbehaviour(body=b"[" * 100_000), "not JSON"),
    "nothing": (Misbehaviour(body=b""), "not JSON"),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_wrong_answer_is_refused_and_not_asked_for_again(provider: EmbeddingServer, name: str) -> None:
    fault, said = WRONG_ANSWERS[name]
    provider.script = [fault]
    with pytest.raises(InvalidEmbedding, match=said) as refused:
        embedder(provider).documents(TEXTS, 4)
    assert len(provider.requests) == 1
    assert_silent(str(refused.value), repr(refused.value.details))


@pytest.mark.parametrize("name", ["one too few", "no list", "no JSON"])
def test_the_same_holds_for_gemini(provider: EmbeddingServer, name: str) -> None:
    fault = Misbehaviour(change=changed(lambda data: data[1:])) if name == "one too few" else WRONG_ANSWERS[name][0]
    provider.script = [fault]
    with pytest.raises(InvalidEmbedding):
        embedder(provider, "gemini").documents(TEXTS, 4)


def test_the_order_of_the_answers_does_not_count(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(change=changed(lambda data: [data[1], data[2], data[0]]))]
    assert np.allclose(embedder(provider).documents(TEXTS, 4), mock_vectors(TEXTS, 4), atol=1e-6)


def test_an_answer_without_end_is_cut(provider: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.limits.EMBEDDING_ANSWER_BYTES", 1_000)
    provider.script = [Misbehaviour(body=b" " * 2_000_000)]
    with pytest.raises(InvalidEmbedding, match="longer than 1000 bytes"):
        embedder(provider).query("x", 4)


def test_dimension_zero_is_an_error_before_any_call(provider: EmbeddingServer) -> None:
    with pytest.raises(EmbeddingSettingsError, match="0 components"):
        embedder(provider).query("x", 0)
    assert provider.requests == []


def test_a_lone_surrogate_is_refused_before_any_call(provider: EmbeddingServer) -> None:
    with pytest.raises(InputError, match="lone surrogate"):
        embedder(provider).query("a\ud800", 4)
    assert provider.requests == []


# --- what never leaks


def assert_silent(*said: str) -> None:
    for text in said:
        assert KEY not in text
        assert KEY[:12] not in text
        assert SECRET_TEXT not in text
        assert "patient" not in text


def test_neither_a_key_nor_a_text_gets_into_a_log(provider: EmbeddingServer, caplog: pytest.LogCaptureFixture) -> None:
    body = error_body(f"bad: {SECRET_TEXT}, key {KEY}", "patient")
    provider.script = [Misbehaviour(429, body=body), Misbehaviour(cuts=True), Misbehaviour(400, body=body)]
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(EmbeddingError):
            embedder(provider).query(SECRET_TEXT, 4)
        embedder(provider).query(SECRET_TEXT, 4)
    assert "attempt 1 failed with status 429" in caplog.text
    assert "embedding.refused" in caplog.text
    assert "openai-compatible, model 'm1', dimension 4, 1 texts" in caplog.text
    assert_silent(caplog.text)


def test_an_error_has_no_cause_that_quotes_the_request(provider: EmbeddingServer) -> None:
    provider.script = [Misbehaviour(cuts=True) for _ in range(4)]
    with pytest.raises(ProviderUnavailable) as failed:
        embedder(provider).query(SECRET_TEXT, 4)
    assert failed.value.__cause__ is None


# --- the providers without a network


def test_mock_vectors_are_the_same_bits_everywhere() -> None:
    """The seed of the empty text is the FNV offset; its first numbers, worked out by hand from the definition."""
    word, values = 14695981039346656037, []
    for _ in range(4):
        word ^= (word << 13) & (2**64 - 1)
        word ^= word >> 7
        word ^= (word << 17) & (2**64 - 1)
        values.append(np.float32(np.float32(word / 2**64) * np.float32(2)) - np.float32(1))
    norm = np.float32(math.sqrt(sum(float(each) ** 2 for each in values)))
    expected = np.array([each / norm for each in values], np.float32)
    assert mock_vectors([""], 4).tobytes() == expected.tobytes()


def test_mock_vectors_of_known_texts_never_change() -> None:
    found = mock_vectors(["alpha", "naïve ✓"], 3)
    assert [[each.hex() for each in row] for row in found.tolist()] == KNOWN


KNOWN = [
    ["-0x1.78dde00000000p-1", "-0x1.48065c0000000p-1", "0x1.bf7c520000000p-3"],
    ["0x1.49f7c00000000p-1", "0x1.27eacc0000000p-1", "-0x1.0051180000000p-1"],
]


def test_the_local_model_is_refused_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.embed import local_model

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="embed-local"):
        local_model.LocalModel()


local = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None or importlib.util.find_spec("tokenizers") is None,
    reason="the extra embed-local is not installed: pip install 'omnigraph[embed-local]'",
)


@local
def test_the_local_model_puts_like_texts_near_each_other() -> None:
    model = Embedder(settings_from({"OMNIGRAPH_EMBED_PROVIDER": "local"}))
    for dimension in (64, 256):
        cat, kitten, tax = model.documents(["The cat sat.", "A kitten is sitting.", "Quarterly tax law"], dimension)
        assert cat @ kitten > cat @ tax
        assert np.allclose([cat @ cat, tax @ tax], 1.0, atol=1e-5)


@local
def test_the_local_model_refuses_what_it_cannot_make() -> None:
    model = Embedder(settings_from({"OMNIGRAPH_EMBED_PROVIDER": "local"}))
    with pytest.raises(EmbeddingSettingsError, match="256 components, 3072 are wanted"):
        model.query("x", 3072)
    with pytest.raises(InvalidEmbedding, match="without a word"):
        model.query("", 8)
