"""BM25: the sum, over the tokens of a query, of how much a token says times how much of it is in a text.

Where only the best texts are wanted, frequent tokens are looked at last: a text that has nothing else cannot be among
the best any more, so their long lists are not gone through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.engine.search.words import Codes

Scores = npt.NDArray[np.float64]
Texts = npt.NDArray[np.integer]

#: The parameters of BM25.
K1 = 1.2
B = 0.75

#: Scores are added up in an array over all texts when postings are more than one for this many texts.
DENSE_SHARE = 16

#: Queries of more tokens are added up as a whole.
_FEW_TOKENS = 16

#: A threshold is met up to this share, because sums in another order differ in their last bits.
_SLACK = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Posting:
    """A token of the query: the texts that hold it, ascending, how often, and what it weighs in this query."""

    texts: Codes
    counts: npt.NDArray[np.unsignedinteger]
    weight: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """What scores need to know about all texts.

    Attributes:
        documents: texts that have a token. ``words``: their tokens.
        frequencies: texts that hold each token of the query, in its order.
    """

    documents: int
    words: int
    frequencies: Sequence[int]

    @property
    def average(self) -> float:
        """The mean length of the texts that have a token."""
        return self.words / max(self.documents, 1)

    def weights(self, times: Iterable[int]) -> list[float]:
        """What each token of a query weighs that holds it so many times."""
        return [
            often * math.log(1 + (self.documents - holding + 0.5) / (holding + 0.5))
            for often, holding in zip(times, self.frequencies, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Holding:
    """What some texts hold of a query, token by token in its order.

    Attributes:
        lengths: number of tokens of each text.
        average: the mean length of all texts that have a token.
    """

    lengths: Codes
    postings: list[Posting]
    average: float

    def added_up(self, postings: list[Posting] | None = None) -> tuple[Texts, Scores]:
        """The texts with a token of the query, ascending, and their scores; some tokens only if given."""
        parts = self.postings if postings is None else postings
        if not parts:
            return np.zeros(0, np.int32), np.zeros(0)
        if len(parts) == 1:
            return parts[0].texts, self._scores(parts[0].texts, parts[0].counts, parts[0].weight)
        if sum(len(part.texts) for part in parts) * DENSE_SHARE > len(self.lengths):
            sums = np.zeros(len(self.lengths))
            for part in parts:
                sums[part.texts] += self._scores(part.texts, part.counts, part.weight)
            texts = np.flatnonzero(sums)  # every token of a text adds something
            return texts, sums[texts]
        every, place = np.unique(np.concatenate([part.texts for part in parts]), return_inverse=True)
        added = np.concatenate([self._scores(part.texts, part.counts, part.weight) for part in parts])
        return every, np.bincount(place, weights=added, minlength=len(every)).astype(np.float64, copy=False)

    def best(self, wanted: int) -> tuple[Texts, Scores]:
        """At least the best texts, with all that are as good as the last of them, and their scores."""
        rare_first = sorted(self.postings, key=lambda part: len(part.texts))
        for number in range(1, len(rare_first) if len(rare_first) <= _FEW_TOKENS else 0):
            texts, scores = self.added_up(rare_first[:number])
            if len(texts) < wanted:
                continue
            threshold = float(np.partition(scores, len(scores) - wanted)[len(scores) - wanted]) * _SLACK
            others = sum(self._most(part) for part in rare_first[number:])
            if others < threshold:  # a text without any of these tokens cannot be among the best
                chosen = texts[scores >= threshold - others]
                return chosen, self.scores_of(chosen)
        return self.added_up()

    def scores_of(self, texts: Texts) -> Scores:
        """The scores of some texts; zero for those without a token of the query."""
        scores = np.zeros(len(texts))
        for part in self.postings:
            where = np.minimum(np.searchsorted(part.texts, texts), len(part.texts) - 1)
            hit = np.flatnonzero(part.texts[where] == texts)
            scores[hit] += self._scores(texts[hit], part.counts[where[hit]], part.weight)
        return scores

    def _scores(self, texts: Texts, counts: npt.NDArray[np.unsignedinteger], weight: float) -> Scores:
        often = counts.astype(np.float64)
        rest = self.lengths[texts] * (K1 * B / self.average)
        rest += K1 * (1 - B)
        rest += often
        often *= weight * (K1 + 1)
        often /= rest
        return often

    def _most(self, part: Posting) -> float:
        """The most that a token can add to a score: a text of nothing but this token."""
        often = int(part.counts.max())
        return part.weight * (K1 + 1) * often / (often + K1 * (1 - B + B * often / self.average))
