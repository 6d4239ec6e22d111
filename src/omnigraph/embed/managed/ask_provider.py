"""Asks the provider for the vectors of some texts, and makes each answer durable before anything else happens.

Runs in the process of a run, or in tasks of Spark: what an answer leaves behind is a file of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnigraph import failpoints
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.managed.ledger import FIRST_REASON, MADE, FactLedger, FactRows, vector_hashes
from omnigraph.embed.vector_rules import Vectors
from omnigraph.errors import EmbeddingError, InvalidEmbedding, ProviderRefused

#: Statuses by which a provider refuses a text rather than whoever asks.
_ABOUT_THE_TEXT = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Texts that go out together.

    Attributes:
        places: where each row is in the batch that they come from.
        facts: hashes of the ids and texts.
    """

    places: list[int]
    texts: list[str]
    facts: FactRows


@dataclass(slots=True)
class Answered:
    """What requests came to.

    Attributes:
        vectors: by the place of the row in its batch.
        failed: texts that were refused.
        files: of the ledger, that keep the vectors until they are committed.
    """

    vectors: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)
    failed: int = 0
    files: list[str] = field(default_factory=list)


class EmbedEngine(Protocol):
    """Who asks the provider: this process, or tasks of Spark."""

    name: str

    def rows_at_once(self, commit_rows: int, dimension: int) -> int:
        """How many rows it wants to be given at once."""

    def answers(self, asker: Asker, requests: list[TextRequest]) -> Iterable[Answered]:
        """What the provider says, kept in the ledger.

        Raises:
            EmbeddingError: the provider failed, after what it answered before.
        """


class EmbeddedAsking:
    """One request after another, in this process."""

    name = "embedded"

    def rows_at_once(self, commit_rows: int, dimension: int) -> int:
        return commit_rows

    def answers(self, asker: Asker, requests: list[TextRequest]) -> Iterator[Answered]:
        for request in requests:
            yield asker.ask(request)


@dataclass(slots=True)
class Asker:
    """One provider, asked for one property of a table.

    Attributes:
        is_answered: whether the provider made a vector in this run already.
    """

    embedder: Embedder
    ledger: FactLedger
    dimension: int
    is_answered: bool = False
    _refusal: EmbeddingError | None = None

    def ask(self, request: TextRequest) -> Answered:
        """Ask, and make the answer durable.

        Raises:
            EmbeddingError: the provider failed, or refuses everything.
        """
        vectors, reasons = self._answers(request.texts)
        if self._refusal is not None and not vectors and len(request.texts) > 1 and not self.is_answered:
            raise self._refusal  # nothing works, so it is not about the texts
        found = self._kept(request, vectors, reasons)
        failpoints.reach("embed.after_answer")
        return found

    def _answers(self, texts: list[str]) -> tuple[dict[int, npt.NDArray[np.float32]], dict[int, str]]:
        """Vectors by the place of their text, and why others have none. A refused request is asked for in halves."""
        try:
            return dict(enumerate(self.embedder.ask(texts, self.dimension))), {}
        except EmbeddingError as error:
            if not _is_about_a_text(error):
                raise
            self._refusal = error
            if len(texts) == 1:
                return {}, {0: _reason(error)}
        half = len(texts) // 2
        vectors, reasons = self._answers(texts[:half])
        more_vectors, more_reasons = self._answers(texts[half:])
        vectors |= {half + place: vector for place, vector in more_vectors.items()}
        reasons |= {half + place: reason for place, reason in more_reasons.items()}
        return vectors, reasons

    def _kept(
        self, request: TextRequest, vectors: dict[int, npt.NDArray[np.float32]], reasons: dict[int, str]
    ) -> Answered:
        found = Answered(failed=len(reasons))
        model = self.embedder.model
        if reasons:
            refused = request.facts.take(np.array(list(reasons)))
            words = list(dict.fromkeys(reasons.values()))
            outcomes = np.array([FIRST_REASON + words.index(each) for each in reasons.values()], np.int32)
            nothing = np.zeros(len(refused), np.int64)
            self.ledger.add(model, self.dimension, FactRows(refused.ids, refused.texts, nothing, outcomes), words)
        if vectors:
            values = np.stack(list(vectors.values()))
            facts = made_of(request.facts.take(np.array(list(vectors))), values)
            found.files.append(self.ledger.add(model, self.dimension, facts, values=values))
            found.vectors |= dict(zip((request.places[place] for place in vectors), values, strict=True))
            self.is_answered = True
        return found


def made_of(rows: FactRows, values: Vectors) -> FactRows:
    """The facts that these vectors were made of the texts of these rows."""
    return FactRows(rows.ids, rows.texts, vector_hashes(values), np.full(len(rows), MADE, np.int32))


def _is_about_a_text(error: EmbeddingError) -> bool:
    if isinstance(error, ProviderRefused):
        return error.details.get("status") in _ABOUT_THE_TEXT
    return isinstance(error, InvalidEmbedding) and "row" in error.details


def _reason(error: EmbeddingError) -> str:
    status = error.details.get("status")
    return f"refused with status {status}" if status is not None else error.message
