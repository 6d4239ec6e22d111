"""Which provider embeds texts, with which model, and how long it is tried: from the environment.

Values are trimmed, and a blank one counts as not set. Nothing here asks a provider.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.errors import EmbeddingSettingsError
from omnigraph.logs import EMBEDDING

OPENAI, GEMINI, MOCK, LOCAL = "openai", "gemini", "mock", "local"

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class _Alias:
    """What a provider's name stands for: its protocol and what holds unless a variable says otherwise."""

    protocol: str
    base_url: str = ""
    model: str = ""
    keys: tuple[str, ...] = ()


#: The local model: the part before the slash is the package that carries it.
LOCAL_MODEL = "wordllama/l2_supercat_256"

DEFAULT_PROVIDER = "openai-compatible"
_ALIASES = {
    DEFAULT_PROVIDER: _Alias(
        OPENAI,
        "https://openrouter.ai/api/v1",
        "openai/text-embedding-3-large",
        ("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
    ),
    "openai": _Alias(OPENAI, "https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)),
    "gemini": _Alias(
        GEMINI, "https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2", ("GEMINI_API_KEY",)
    ),
    "mock": _Alias(MOCK),
    "local": _Alias(LOCAL, model=LOCAL_MODEL),
}


@dataclass(frozen=True, slots=True)
class ProviderPatience:
    """How a provider is asked.

    Attributes:
        timeout: seconds for one request.
        attempts: requests for one call, all together.
        backoff: seconds before the second attempt; each further one waits twice as long.
        deadline: seconds for one call with all its attempts; None for no limit.
        batch: texts in one request.
        rate: requests that may begin in a minute; None for no limit.
    """

    timeout: float = 30.0
    attempts: int = 4
    backoff: float = 0.2
    deadline: float | None = 60.0
    batch: int = 64
    rate: int | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """One provider as the environment describes it.

    Attributes:
        provider: the name that the user gave.
        protocol: ``openai``, ``gemini``, ``mock`` or ``local``.
        model: compared with the model of stored vectors, letter by letter.
        api_key: never shown.
    """

    provider: str
    protocol: str
    model: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    patience: ProviderPatience = ProviderPatience()


def settings_from(environ: Mapping[str, str] | None = None) -> EmbeddingSettings:
    """The provider that the environment asks for.

    Raises:
        EmbeddingSettingsError: the provider is unknown, or its key is not set.
    """
    environ = os.environ if environ is None else environ
    wanted = _text(environ, "OMNIGRAPH_EMBED_PROVIDER")
    if _text(environ, "OMNIGRAPH_EMBEDDINGS_MOCK").lower() in _TRUE:
        if wanted not in ("", "mock"):
            EMBEDDING.warning("OMNIGRAPH_EMBEDDINGS_MOCK is set: texts are embedded by mock, not by %s", wanted[:40])
        wanted = "mock"
    name = wanted or DEFAULT_PROVIDER
    alias = _ALIASES.get(name)
    if alias is None:
        raise EmbeddingSettingsError(
            f"'{name[:40]}' is no embedding provider",
            hint=f"set OMNIGRAPH_EMBED_PROVIDER to {', '.join(_ALIASES)}",
        )
    model = _text(environ, "OMNIGRAPH_EMBED_MODEL") or alias.model
    if alias.protocol == LOCAL and model != LOCAL_MODEL:
        raise EmbeddingSettingsError(
            f"the local provider has no model '{model[:80]}'", hint=f"leave it out, or set it to {LOCAL_MODEL}"
        )
    base_url = (_text(environ, "OMNIGRAPH_EMBED_BASE_URL") or alias.base_url).rstrip("/") if alias.base_url else ""
    keys = {name: _text(environ, name) for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")}
    key = next(filter(None, map(keys.get, alias.keys)), "")
    if alias.keys and not key:
        raise EmbeddingSettingsError(
            f"the embedding provider '{name}' needs a key", hint=f"set {' or '.join(alias.keys)}"
        )
    if not (key.isascii() and key.isprintable()):
        raise EmbeddingSettingsError(f"the key of '{name}' holds characters that no key has", hint="copy it again")
    return EmbeddingSettings(name, alias.protocol, model, base_url, key, _patience(environ))


def _patience(environ: Mapping[str, str]) -> ProviderPatience:
    deadline = _number(environ, "OMNIGRAPH_EMBED_DEADLINE_MS", 60_000, least=0)
    return ProviderPatience(
        timeout=_number(environ, "OMNIGRAPH_EMBED_TIMEOUT_MS", 30_000) / 1_000,
        attempts=_number(environ, "OMNIGRAPH_EMBED_RETRY_ATTEMPTS", 4),
        backoff=_number(environ, "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", 200) / 1_000,
        deadline=deadline / 1_000 if deadline else None,
        batch=_number(environ, "OMNIGRAPH_EMBED_BATCH", 64),
        rate=_number(environ, "OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE", 0, least=0) or None,
    )


def _text(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _number(environ: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """A whole number; what is none, or too small, counts as not set."""
    text = _text(environ, name)
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1
    return number if number >= least else default
