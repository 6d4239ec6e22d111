"""Texts → vectors of length one, by the provider of the environment.

One place applies the rules for vectors, logs, and cuts texts into requests. What goes over the wire is in
`wire_formats.py` and `http_calls.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph import limits
from omnigraph.embed.embedding_settings import LOCAL, MOCK, EmbeddingSettings
from omnigraph.embed.vector_rules import Vectors, normalised, require_dimension
from omnigraph.embed.wire_formats import DOCUMENT, QUERY, WireFormat, parsed, wire_format
from omnigraph.errors import EmbeddingError, EmbeddingModelMismatch, InputError
from omnigraph.logs import EMBEDDING

if TYPE_CHECKING:
    from omnigraph.embed.http_calls import HttpCalls


class Embedder:
    """One provider, ready to be asked. May be shared between threads."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.settings = settings
        self._wire: _Wire | None = None
        if settings.protocol not in (MOCK, LOCAL):
            from omnigraph.embed.http_calls import HttpCalls

            self._wire = _Wire(wire_format(settings), HttpCalls(settings))

    @property
    def model(self) -> str:
        return self.settings.model

    def documents(self, texts: Sequence[str], dimension: int) -> Vectors:
        """The vectors of texts that are searched in; as many requests as their number needs."""
        require_dimension(dimension)
        parts = [self.ask(part, dimension) for part in in_requests(texts, self.settings.patience.batch)]
        return np.concatenate(parts) if parts else np.empty((0, dimension), np.float32)

    def query(self, text: str, dimension: int) -> Vectors:
        """The vector of a text that is searched for."""
        return self.ask([text], dimension, QUERY)

    def ask(self, texts: Sequence[str], dimension: int, role: str = DOCUMENT) -> Vectors:
        """The vectors of some texts, in one call.

        Raises:
            EmbeddingError: there are none, and the class says why.
        """
        require_dimension(dimension)
        _require_unicode(texts)
        began = time.monotonic()
        told = (self.settings.provider, self.settings.model, dimension, len(texts))
        try:
            vectors = self._vectors(texts, dimension, role)
        except EmbeddingError as error:
            EMBEDDING.warning(
                "%s, model '%s', dimension %d, %d texts: %s after %.2f s", *told, error.code, time.monotonic() - began
            )
            raise
        EMBEDDING.info("%s, model '%s', dimension %d, %d texts: %.2f s", *told, time.monotonic() - began)
        return vectors

    def _vectors(self, texts: Sequence[str], dimension: int, role: str) -> Vectors:
        if self._wire is not None:
            return normalised(self._wire.vectors(texts, dimension, role))
        if self.settings.protocol == LOCAL:
            from omnigraph.embed.local_model import local_model

            return local_model().embed(texts, dimension)
        from omnigraph.embed.mock_vectors import mock_vectors

        return mock_vectors(texts, dimension)


@dataclass(frozen=True, slots=True)
class _Wire:
    format: WireFormat
    calls: HttpCalls

    def vectors(self, texts: Sequence[str], dimension: int, role: str) -> Vectors:
        answer = parsed(self.calls.post(self.format.request(texts, dimension, role)))
        return self.format.vectors(answer, len(texts), dimension)


def in_requests(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Texts cut into as many as one request holds, by their number and by their length together."""
    start = characters = 0
    for at, text in enumerate(texts):
        is_full = at - start == size or characters + len(text) > limits.EMBEDDING_REQUEST_CHARACTERS
        if at > start and is_full:
            yield texts[start:at]
            start, characters = at, 0
        characters += len(text)
    if start < len(texts):
        yield texts[start:]


def _require_unicode(texts: Sequence[str]) -> None:
    for text in texts:
        if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
            raise InputError("a text to embed expects Unicode text, got a lone surrogate")


def require_model(declared: str | None, embedder: Embedder, property_name: str) -> None:
    """Refuse to compare or mix vectors of two models."""
    if declared is not None and declared != embedder.model:
        raise EmbeddingModelMismatch(
            f"{property_name} holds vectors of model '{declared}', and the configured model is '{embedder.model}'",
            hint=f"set OMNIGRAPH_EMBED_MODEL={declared}",
            property=property_name,
            declared=declared,
            configured=embedder.model,
        )
