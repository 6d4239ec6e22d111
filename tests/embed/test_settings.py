"""Which provider the environment asks for."""

from __future__ import annotations

import logging

import pytest

from omnigraph.embed.embedder import Embedder
from omnigraph.embed.embedding_settings import settings_from
from omnigraph.errors import EmbeddingSettingsError


@pytest.mark.parametrize(
    ("environ", "provider", "model", "base_url"),
    [
        (
            {"OPENROUTER_API_KEY": "k"},
            "openai-compatible",
            "openai/text-embedding-3-large",
            "https://openrouter.ai/api/v1",
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": " openai ", "OPENAI_API_KEY": "k"},
            "openai",
            "text-embedding-3-large",
            "https://api.openai.com/v1",
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "gemini", "GEMINI_API_KEY": "k"},
            "gemini",
            "gemini-embedding-2",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, "mock", "", ""),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_MODEL": "m"}, "mock", "m", ""),
        ({"OMNIGRAPH_EMBED_PROVIDER": "local"}, "local", "wordllama/l2_supercat_256", ""),
        (
            {"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_BASE_URL": "http://here/v1/", "OMNIGRAPH_EMBED_MODEL": "x"},
            "openai-compatible",
            "x",
            "http://here/v1",
        ),
    ],
)
def test_each_name_stands_for_its_defaults(environ: dict[str, str], provider: str, model: str, base_url: str) -> None:
    found = settings_from(environ)
    assert (found.provider, found.model, found.base_url) == (provider, model, base_url)


def test_the_first_key_that_is_set_counts_and_is_never_shown() -> None:
    found = settings_from({"OPENROUTER_API_KEY": "  ", "OPENAI_API_KEY": " second "})
    assert found.api_key == "second"
    assert "second" not in repr(found)


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(EmbeddingSettingsError, match="openai-compatible, openai, gemini, mock, local") as refused:
        settings_from({"OMNIGRAPH_EMBED_PROVIDER": "cohere"})
    assert refused.value.code == "embedding.settings"


def test_a_missing_key_is_refused_with_the_variables_that_hold_it() -> None:
    with pytest.raises(EmbeddingSettingsError, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
        settings_from({})


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    with pytest.raises(EmbeddingSettingsError) as refused:
        settings_from({"OPENAI_API_KEY": "sk-secret\nX-Other: 1"})
    assert "secret" not in str(refused.value)


def test_mock_wins_over_every_other_provider_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omnigraph.embedding"):
        found = settings_from({"OMNIGRAPH_EMBEDDINGS_MOCK": "Yes", "OMNIGRAPH_EMBED_PROVIDER": "gemini"})
    assert found.protocol == "mock"
    assert "gemini" in caplog.text


def test_junk_and_zero_are_the_defaults_except_for_the_deadline() -> None:
    junk = {"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_TIMEOUT_MS": "0", "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "many"}
    found = settings_from({**junk, "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "-1", "OMNIGRAPH_EMBED_DEADLINE_MS": "0"})
    assert (found.patience.timeout, found.patience.attempts, found.patience.backoff) == (30.0, 4, 0.2)
    assert found.patience.deadline is None
    assert settings_from({"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_DEADLINE_MS": "x"}).patience.deadline == 60.0


@pytest.mark.parametrize("address", ["ftp://x/v1", "no address", "http://", "http://x:port/"])
def test_an_address_that_is_none_is_refused_before_any_call(address: str) -> None:
    settings = settings_from({"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_BASE_URL": address})
    with pytest.raises(EmbeddingSettingsError, match="OMNIGRAPH_EMBED_BASE_URL"):
        Embedder(settings)


def test_the_local_provider_has_one_model() -> None:
    with pytest.raises(EmbeddingSettingsError, match="no model 'bert'"):
        settings_from({"OMNIGRAPH_EMBED_PROVIDER": "local", "OMNIGRAPH_EMBED_MODEL": "bert"})
