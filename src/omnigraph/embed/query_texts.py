"""The texts that queries compare with vectors, embedded when a query is run; those of the last queries are kept."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

from omnigraph.embed.embedder import Embedder, require_model
from omnigraph.embed.embedding_settings import settings_from
from omnigraph.lru import LruCache
from omnigraph.query.typed import TextVector

_Vector: TypeAlias = tuple[float, ...]

#: Vectors that one open graph keeps.
_MAX_KEPT = 256


class QueryTexts:
    """Embeds the texts of the queries of one open graph. The provider is looked up when the first text comes."""

    def __init__(self) -> None:
        self._kept: LruCache[tuple[int, str], _Vector] = LruCache(max_entries=_MAX_KEPT)

    @cached_property
    def _embedder(self) -> Embedder:
        return Embedder(settings_from())

    def vectors(self, asked: list[tuple[TextVector, str]]) -> list[_Vector]:
        """The vectors of some texts, in their order.

        Raises:
            EmbeddingSettingsError: no provider is configured.
            EmbeddingModelMismatch: it has another model than a property declares.
            EmbeddingError: it could not embed a text.
        """
        for wanted, _ in asked:
            require_model(wanted.model, self._embedder, wanted.key.partition("#")[0])
        return [self._vector(text, wanted.type.dimension or 0) for wanted, text in asked]

    def _vector(self, text: str, dimension: int) -> _Vector:
        def make() -> _Vector:
            return tuple(self._embedder.query(text, dimension)[0].tolist())

        return self._kept.get_or_make((dimension, text), make)
