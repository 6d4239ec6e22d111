"""Search functions about one row, computed by the task that reads it: what follows joins and orders plain columns.

Tokens, matches, scores and distances are those of the engine, by the same functions. What a score has to know about all
texts is counted by a scan of its own. Texts and vectors stay in the tasks unless the query returns them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.evaluate import distances
from omnigraph.engine.search.bm25 import Corpus
from omnigraph.engine.search.text_search import TextSearch, query_tokens
from omnigraph.tokenizer import ENGLISH, Tokenizer

#: The column that hands the counts of all texts to the tasks that score them.
COUNTS = "counts"


@dataclass(frozen=True, slots=True)
class RowSearch:
    """A search function with its values.

    Attributes:
        column: the text or vector that it is about.
        query: a text or a vector; None for one that is null, with which nothing is known.
        edits: for `fuzzy`, if the query says.
        tokenizer: of the column, if it holds texts.
    """

    function: str
    column: str
    query: Any
    edits: int | None = None
    tokenizer: Tokenizer = ENGLISH

    @property
    def is_number(self) -> bool:
        """Whether it answers with a number rather than with yes or no."""
        return self.function in ("bm25", "nearest")

    @property
    def is_scored(self) -> bool:
        """Whether it depends on other rows."""
        return self.function == "bm25" and self.query is not None

    @property
    def tokens(self) -> Counter[str]:
        return query_tokens(self.query, self.tokenizer)


class SearchedBatch:
    """Rows that are searched; the tokens of a column are found once."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._texts: dict[str, TextSearch] = {}

    def texts(self, search: RowSearch) -> TextSearch:
        """The column that a search is about."""
        column = search.column
        if column not in self._texts:
            self._texts[column] = TextSearch.of(self._rows.column(column), search.tokenizer)
        return self._texts[column]

    def answer(self, search: RowSearch, corpora: dict[RowSearch, Corpus]) -> pa.Array:
        """What a search says about each row: true or false for a condition, else a number; null for no answer."""
        if search.query is None:
            return pa.nulls(self._rows.num_rows, pa.float64() if search.is_number else pa.bool_())
        if search.function == "nearest":
            return _known(distances(self._rows.column(search.column), np.asarray(search.query, np.float32)))
        texts = self.texts(search)
        if search.function == "bm25":
            hits = texts.index.ranked(search.tokens, corpus=corpora[search])
            scores = np.full(self._rows.num_rows, np.nan)
            scores[hits.positions] = hits.scores
            return _known(scores)
        found = texts.flags(texts.matching(search.function, search.query, search.edits), None)
        return pa.array(found, mask=texts.is_null(None))


def _known(numbers: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array(numbers, mask=np.isnan(numbers))


def counted(batches: Iterator[pa.RecordBatch], scored: Sequence[RowSearch]) -> npt.NDArray[np.int64]:
    """The counts of some rows for each score, one after another; those of all rows are their sum."""
    total = np.zeros(sum(2 + len(each.tokens) for each in scored), np.int64)
    for rows in batches:
        batch = SearchedBatch(rows)
        found = [batch.texts(each).index.corpus(each.tokens) for each in scored]
        total += np.concatenate([[each.documents, each.words, *each.frequencies] for each in found])
    return total


def corpora_of(counts: Sequence[int], scored: Sequence[RowSearch]) -> dict[RowSearch, Corpus]:
    """All texts as each score has to know them, from their counts."""
    found, start = {}, 0
    for each in scored:
        end = start + 2 + len(each.tokens)
        documents, words, *frequencies = counts[start:end]
        found[each], start = Corpus(documents, words, frequencies), end
    return found
