"""What the text functions of the language find: `search`, `fuzzy`, `match_text` and `bm25` on one column.

A query is taken apart by the tokenizer of the documents. A phrase is first looked for as a set of tokens; the texts
that hold them all are then read for the places, or for the phrase itself where tokens are n-grams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import limits
from omnigraph.engine.position_deltas import Positions
from omnigraph.engine.search.bm25 import Scores
from omnigraph.engine.search.edit_distance import within
from omnigraph.engine.search.ngrams import contains
from omnigraph.engine.search.text_index import TextHits, TextIndex
from omnigraph.engine.search.words import Vocabulary, blocks, token_stream
from omnigraph.errors import ResourceLimitExceeded
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.storage.tables.text_tokens import Places, tokens_of
from omnigraph.tokenizer import ENGLISH, Tokenizer

#: Edits that `fuzzy` allows for each token when the query does not say.
DEFAULT_EDITS = 2

#: Rows are looked up one by one among those found, up to one row in this many; for more, all rows are marked.
_LOOKUP_SHARE = 16

Flags: TypeAlias = npt.NDArray[np.bool_]


class TextSearch:
    """The texts of one column for the time of one query; the same search is made once.

    Args:
        texts: the texts at some positions.
        size: number of positions.
    """

    def __init__(
        self,
        index: TextIndex,
        texts: Callable[[Positions], pa.Array],
        size: int,
        budget: ReadBudget = UNBOUNDED,
    ) -> None:
        self.index = index
        self._check = budget.check
        self._texts = texts
        self._size = size
        self._found: dict[tuple[str, str, int], TextHits] = {}

    @staticmethod
    def of(column: pa.Array, tokenizer: Tokenizer = ENGLISH) -> TextSearch:
        """A search among texts at hand, in the order of the column."""
        index = TextIndex.of(column, tokenizer=tokenizer)
        return TextSearch(index, lambda positions: column.take(pa.array(positions)), len(column))

    def matching(self, function: str, query: str, edits: int | None = None) -> TextHits:
        """Rows that a text condition is true for."""
        return self._once(function, query, DEFAULT_EDITS if edits is None else edits)

    def ranked(self, query: str, wanted: int | None = None) -> TextHits:
        """Rows that hold at least one token of a query, with their BM25 scores; the best of them if that is enough."""
        if wanted is not None:
            return self.index.ranked(query_tokens(query, self.index.tokenizer), wanted)
        return self._once("bm25", query, 0)

    def flags(self, hits: TextHits, positions: Positions | None) -> Flags:
        """Which rows were found: all rows, or those at some positions."""
        if positions is not None and len(positions) * _LOOKUP_SHARE < self._size:
            return _places(hits, positions) >= 0
        found = np.zeros(self._size, np.bool_)
        found[hits.positions] = True
        return found if positions is None else found[positions] & (positions >= 0)

    def scores(self, query: str, positions: Positions | None) -> Scores:
        """The BM25 scores of rows, not-a-number for those without a token of the query."""
        wanted = np.arange(self._size) if positions is None else positions
        if len(wanted) * _LOOKUP_SHARE < self._size:
            return self.index.scores_at(query_tokens(query, self.index.tokenizer), wanted)
        hits = self.ranked(query)
        assert hits.scores is not None
        place = _places(hits, wanted)
        found = np.full(len(wanted), np.nan)
        found[place >= 0] = hits.scores[place[place >= 0]]
        return found

    def is_null(self, positions: Positions | None) -> Flags:
        return self.index.is_null(np.arange(self._size) if positions is None else positions)

    def _once(self, function: str, query: str, edits: int) -> TextHits:
        key = (function, query, edits)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(function, query, edits)
        return found

    def _find(self, function: str, query: str, edits: int) -> TextHits:
        places = tokens_of(query, self.index.tokenizer)
        tokens = _counted(places)
        match function:
            case "bm25":
                return self.index.ranked(tokens)
            case "fuzzy":
                if len(tokens) > limits.FUZZY_TOKENS:
                    hint = "search takes any number of them"
                    raise ResourceLimitExceeded("tokens of a fuzzy text", len(tokens), limits.FUZZY_TOKENS, hint=hint)
                return self.index.with_chosen(lambda words: within(words, list(tokens), edits, self._check))
            case "match_text" if self.index.tokenizer.ngrams is not None and query:
                among = self.index.with_all(tokens) if tokens else self.index.with_text()
                return self._containing(query, among.positions)
            case "match_text" if len(places) > 1:
                return self._phrase(places, self.index.with_all(tokens).positions)
        return self.index.with_any(tokens)

    def _containing(self, query: str, among: Positions) -> TextHits:
        """Rows whose text holds the query itself, in the characters that n-grams are made of."""
        found = [among[:0]]
        for first, block in blocks(self._texts(among)):
            self._check()
            held = contains(block, query, self.index.tokenizer)
            found.append(among[first : first + len(block)][held])
        return TextHits(np.concatenate(found))

    def _phrase(self, query: Places, among: Positions) -> TextHits:
        """Rows whose text holds the tokens of a query with the same distances between them."""
        found = [among[:0]]
        texts = self._texts(among)
        for first, block in blocks(texts):
            self._check()
            vocabulary = Vocabulary()
            stream = token_stream(block, vocabulary, self.index.tokenizer)
            reach = query[-1][1]
            width = int(stream.places.max(initial=0)) + reach + 1
            begins: Positions | None = None
            for token, distance in query:
                here = stream.codes == vocabulary.numbers.get(token, -1)
                # Where in which text the phrase would have begun; moved so that it is never negative.
                starts = stream.texts[here].astype(np.int64) * width + stream.places[here] - distance + reach
                begins = starts if begins is None else np.intersect1d(begins, starts, assume_unique=True)
            assert begins is not None
            found.append(among[first + np.unique(begins // width)])
        return TextHits(np.concatenate(found))


def query_tokens(query: str, tokenizer: Tokenizer) -> Counter[str]:
    """How often each token is in a query, in its order. At one place it counts once, and so does an n-gram."""
    return _counted(tokens_of(query, tokenizer))


def _counted(query: Places) -> Counter[str]:
    return Counter(token for token, _ in dict.fromkeys(query))


def _places(hits: TextHits, positions: Positions) -> Positions:
    """Where among the found rows some positions are, -1 where they are not."""
    if len(hits.positions) == 0:
        return np.full(len(positions), -1, np.int64)
    where = np.minimum(np.searchsorted(hits.positions, positions), len(hits.positions) - 1)
    return np.where(hits.positions[where] == positions, where, -1)
