"""The requests and answers of the two protocols that providers speak. Nothing here is sent.

An answer belongs to its texts by the index that it names (OpenAI) or by its place (Gemini); a text without a vector, or
a vector without a text, is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np

from omnigraph.embed.embedding_settings import GEMINI, EmbeddingSettings
from omnigraph.embed.vector_rules import Vectors, vector_of
from omnigraph.errors import InvalidEmbedding

#: Whether texts are what is searched for, or what is searched in.
QUERY, DOCUMENT = "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"

#: Words by which providers name a fault. Sentences may quote the request, so they are never shown.
_FAULT = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{2,47}")


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What is sent: the path below the base address, headers and body."""

    path: str
    headers: dict[str, str]
    body: bytes


class WireFormat(Protocol):
    """One protocol."""

    def request(self, texts: Sequence[str], dimension: int, role: str) -> WireRequest: ...

    def vectors(self, answer: Any, count: int, dimension: int) -> Vectors: ...


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """``POST /embeddings``; documents and queries look the same."""

    settings: EmbeddingSettings

    def request(self, texts: Sequence[str], dimension: int, role: str) -> WireRequest:
        body = {"model": self.settings.model, "input": list(texts), "dimensions": dimension}
        return WireRequest("/embeddings", {"Authorization": f"Bearer {self.settings.api_key}"}, _json(body))

    def vectors(self, answer: Any, count: int, dimension: int) -> Vectors:
        items = _list(answer, "data")
        found = np.empty((count, dimension), np.float32)
        missing = set(range(count))
        for item in items:
            index = item.get("index") if isinstance(item, dict) else None
            if type(index) is not int or index not in missing:
                raise _wrong_count(len(items), count)
            missing.remove(index)
            found[index] = vector_of(item.get("embedding"), dimension)
        if missing:
            raise _wrong_count(len(items), count)
        return found


@dataclass(frozen=True, slots=True)
class GeminiFormat:
    """``:embedContent`` for one text, ``:batchEmbedContents`` for several."""

    settings: EmbeddingSettings

    def request(self, texts: Sequence[str], dimension: int, role: str) -> WireRequest:
        model = f"models/{self.settings.model}"
        requests = [
            {
                "model": model,
                "content": {"parts": [{"text": text}]},
                "taskType": role,
                "outputDimensionality": dimension,
            }
            for text in texts
        ]
        verb = "embedContent" if len(requests) == 1 else "batchEmbedContents"
        body = requests[0] if len(requests) == 1 else {"requests": requests}
        path = f"/models/{quote(self.settings.model, safe='')}:{verb}"
        return WireRequest(path, {"x-goog-api-key": self.settings.api_key}, _json(body))

    def vectors(self, answer: Any, count: int, dimension: int) -> Vectors:
        items = [answer.get("embedding")] if count == 1 and isinstance(answer, dict) else _list(answer, "embeddings")
        if len(items) != count:
            raise _wrong_count(len(items), count)
        values = [item.get("values") if isinstance(item, dict) else None for item in items]
        return np.stack([vector_of(each, dimension) for each in values])


def wire_format(settings: EmbeddingSettings) -> WireFormat:
    """The protocol of a provider."""
    return GeminiFormat(settings) if settings.protocol == GEMINI else OpenAIFormat(settings)


def parsed(body: bytes) -> Any:
    """An answer as JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidEmbedding("the embedding provider answered with something that is not JSON") from None


def fault_of(body: bytes) -> str | None:
    """The word by which the body of an error names its fault, such as ``invalid_api_key``."""
    try:
        said = json.loads(body)["error"]
        words = [said.get(name) for name in ("code", "status", "type")]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    return next((word for word in words if isinstance(word, str) and _FAULT.fullmatch(word)), None)


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _list(answer: Any, name: str) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise InvalidEmbedding("the embedding provider answered without vectors")
    return found


def _wrong_count(found: int, count: int) -> InvalidEmbedding:
    return InvalidEmbedding(
        f"the vectors of the embedding provider are not one for each of {count} texts; there are {found}",
        expected=count,
        actual=found,
    )
