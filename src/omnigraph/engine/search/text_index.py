"""The texts of one column of one version of a table, ready to be searched.

A large segment holds most rows; what commits changed lies in small segments behind it, and rows that a segment holds in
an older form, or that are gone, are struck out there. Small segments of similar size become one. Statistics are those
of the live rows, so that scores do not depend on how the index came about.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.pieces import finished
from omnigraph.engine.position_deltas import PositionDelta, Positions
from omnigraph.engine.search.bm25 import DENSE_SHARE, Corpus, Holding, Posting, Scores
from omnigraph.engine.search.text_segment import MISSING, TextSegment
from omnigraph.engine.search.words import Codes
from omnigraph.tokenizer import ENGLISH, Tokenizer

#: A small segment is merged with a new one while it is at most this many times larger.
_MERGE_RATIO = 4

#: Changed rows lie beside the large segment up to one row in this many, and whatever the size up to so many.
_TAIL_SHARE = 8
_FEW_CHANGES = 4_096

_NO_POSITIONS = np.zeros(0, np.int64)

#: Texts that hold a token, ascending, and how often each of them does.
_Postings: TypeAlias = tuple[Codes, npt.NDArray[np.unsignedinteger]]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A segment and what is left of it.

    Attributes:
        positions: rows of its texts, ascending; None when they are the positions 0, 1, ….
        struck: numbers of the texts that are not valid any more, ascending.
        texts: what a small segment was made from.
        documents: valid texts with a token. ``words``: their tokens.
    """

    segment: TextSegment
    positions: Positions | None
    struck: Positions
    texts: pa.Array | None
    documents: int
    words: int

    @staticmethod
    def of(
        segment: TextSegment,
        positions: Positions | None,
        texts: pa.Array | None = None,
        struck: Positions = _NO_POSITIONS,
    ) -> _Layer:
        every, gone = segment.lengths, segment.lengths[struck]
        documents = int((every > 0).sum()) - int((gone > 0).sum())
        words = int(every[every > 0].sum(dtype=np.int64)) - int(gone[gone > 0].sum(dtype=np.int64))
        return _Layer(segment, positions, struck, texts, documents, words)

    def without(self, changed: Positions) -> _Layer:
        """With the texts of changed rows struck out."""
        local = self.local(changed)
        local = np.setdiff1d(local[local >= 0], self.struck, assume_unique=True)
        if len(local) == 0:
            return self
        lengths = self.segment.lengths[local]
        held = lengths[lengths > 0]
        struck = np.union1d(self.struck, local)
        documents, words = self.documents - len(held), self.words - int(held.sum(dtype=np.int64))
        return _Layer(self.segment, self.positions, struck, self.texts, documents, words)

    def local(self, positions: Positions) -> Positions:
        """Numbers of the texts of some rows, -1 for rows that are not here."""
        if self.positions is None:
            return np.where(positions < len(self.segment), positions, -1)
        if len(self.positions) == 0:
            return np.full(len(positions), -1, np.int64)
        where = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
        return np.where(self.positions[where] == positions, where, -1)

    def rows(self, texts: npt.NDArray[np.integer]) -> Positions:
        return texts.astype(np.int64) if self.positions is None else self.positions[texts]

    def postings(self, number: int) -> _Postings:
        """Valid texts that hold a token, and how often."""
        texts, counts = self.segment.postings(number)
        if len(self.struck) == 0 or len(texts) == 0:
            return texts, counts
        where = np.searchsorted(texts, self.struck)
        inside = where < len(texts)
        gone = where[inside][texts[where[inside]] == self.struck[inside]]
        return (np.delete(texts, gone), np.delete(counts, gone)) if len(gone) else (texts, counts)

    def valid(self) -> tuple[Positions, pa.Array]:
        """Rows and texts that are left of a small segment."""
        assert self.positions is not None and self.texts is not None
        keep = np.ones(len(self.positions), np.bool_)
        keep[self.struck] = False
        return self.positions[keep], self.texts.filter(pa.array(keep))


@dataclass(frozen=True, slots=True)
class TextHits:
    """Rows that a search found, ascending, with their scores if these were asked for."""

    positions: Positions
    scores: Scores | None = None


class TextIndex:
    """One column of texts by row position."""

    def __init__(self, layers: tuple[_Layer, ...], tokenizer: Tokenizer = ENGLISH) -> None:
        self._layers = layers
        self.tokenizer = tokenizer
        self.documents = sum(layer.documents for layer in layers)
        self._words = sum(layer.words for layer in layers)

    @staticmethod
    def of(column: pa.Array, alive: npt.NDArray[np.bool_] | None = None, tokenizer: Tokenizer = ENGLISH) -> TextIndex:
        """An index of a whole column; texts of rows that are not alive are left out."""
        return finished(TextIndex.made(column, alive, tokenizer))

    @staticmethod
    def made(
        column: pa.Array, alive: npt.NDArray[np.bool_] | None = None, tokenizer: Tokenizer = ENGLISH
    ) -> Generator[None, None, TextIndex]:
        """The same, with pauses."""
        segment = yield from TextSegment.made(column, tokenizer)
        struck = _NO_POSITIONS if alive is None else np.flatnonzero(~alive)
        return TextIndex((_Layer.of(segment, None, struck=struck),), tokenizer)

    def parts(self) -> Iterator[tuple[object, int]]:
        for layer in self._layers:
            yield from layer.segment.parts()
            yield layer.struck, layer.struck.nbytes
            if layer.texts is not None and layer.positions is not None:
                yield layer.texts, layer.texts.nbytes
                yield layer.positions, layer.positions.nbytes

    def carried(self, deltas: Iterable[PositionDelta], name: str) -> TextIndex | None:
        """The index after some changes; None when building it anew is cheaper."""
        layers = self._layers
        for delta in deltas:
            layers = _changed(layers, delta, name, self.tokenizer)
        tail = sum(len(layer.segment) for layer in layers[1:]) + len(layers[0].struck)
        if tail > max(_FEW_CHANGES, len(layers[0].segment) // _TAIL_SHARE):
            return None
        return TextIndex(layers, self.tokenizer)

    def with_any(self, tokens: Iterable[str]) -> TextHits:
        """Rows that hold at least one of some tokens."""
        found = []
        wanted = list(tokens)
        for layer in self._layers:
            lists = [layer.postings(number)[0] for number in layer.segment.find(wanted) if number >= 0]
            texts = lists[0] if len(lists) == 1 else _union(lists, len(layer.segment))
            found.append(layer.rows(texts))
        return TextHits(_ascending(found))

    def with_all(self, tokens: Iterable[str]) -> TextHits:
        """Rows that hold every one of some tokens."""
        found = []
        wanted = list(tokens)
        for layer in self._layers:
            lists = sorted((layer.postings(number)[0] for number in layer.segment.find(wanted)), key=len)
            texts = lists[0] if lists else np.zeros(0, np.int32)
            for other in lists[1:]:
                texts = np.intersect1d(texts, other, assume_unique=True)
            found.append(layer.rows(texts))
        return TextHits(_ascending(found))

    def with_text(self) -> TextHits:
        """Rows that have a text, be it without a token."""
        found = [
            layer.rows(np.setdiff1d(np.flatnonzero(layer.segment.lengths != MISSING), layer.struck))
            for layer in self._layers
        ]
        return TextHits(_ascending(found))

    def with_chosen(self, choose: Callable[[pa.Array], npt.NDArray[np.bool_]]) -> TextHits:
        """Rows that hold a token of a choice, which is made from the vocabulary."""
        found = []
        for layer in self._layers:
            inside = np.repeat(choose(layer.segment.tokens), np.diff(layer.segment.starts))
            there = np.zeros(len(layer.segment), np.bool_)
            there[layer.segment.texts[inside]] = True
            there[layer.struck] = False
            found.append(layer.rows(np.flatnonzero(there)))
        return TextHits(_ascending(found))

    def ranked(self, tokens: Mapping[str, int], wanted: int | None = None, corpus: Corpus | None = None) -> TextHits:
        """Rows that hold at least one of some tokens, with their BM25 scores.

        Args:
            tokens: how often each is in the query, in the order of the query.
            wanted: so many of the best rows are enough, with all that are as good as the last of them.
            corpus: all texts, if those of this index are a part of them.
        """
        found, scores = [], []
        for layer, holding in zip(self._layers, self._holding(tokens, corpus), strict=True):
            texts, score = holding.best(wanted) if wanted else holding.added_up()
            found.append(layer.rows(texts))
            scores.append(score)
        if len(found) == 1:
            return TextHits(found[0], scores[0])
        positions, score = np.concatenate(found), np.concatenate(scores)
        order = np.argsort(positions, kind="stable")
        return TextHits(positions[order], score[order])

    def scores_at(self, tokens: Mapping[str, int], positions: Positions) -> Scores:
        """The BM25 scores of some rows; not-a-number for those without a token of the query."""
        scores = np.full(len(positions), np.nan)
        for layer, holding in zip(self._layers, self._holding(tokens), strict=True):
            local = layer.local(positions)
            here = np.flatnonzero(local >= 0)
            found = holding.scores_of(local[here])
            held = found > 0
            scores[here[held]] = found[held]
        return scores

    def corpus(self, tokens: Iterable[str]) -> Corpus:
        """What the texts of this index are to a query of some tokens."""
        return self._corpus(self._postings(tokens))

    def _postings(self, tokens: Iterable[str]) -> list[list[_Postings]]:
        """The valid postings of each token, layer by layer."""
        wanted = list(tokens)
        return [[layer.postings(number) for number in layer.segment.find(wanted)] for layer in self._layers]

    def _corpus(self, held: list[list[_Postings]]) -> Corpus:
        frequencies = [sum(len(texts) for texts, _ in lists) for lists in zip(*held, strict=True)]
        return Corpus(self.documents, self._words, frequencies)

    def _holding(self, tokens: Mapping[str, int], corpus: Corpus | None = None) -> list[Holding]:
        """The postings of a query in each layer, with the weights of its tokens among all rows."""
        held = self._postings(tokens)
        among = corpus or self._corpus(held)
        weights = among.weights(tokens.values())
        return [
            Holding(
                layer.segment.lengths,
                [Posting(*each, weight) for each, weight in zip(lists, weights, strict=True) if len(each[0])],
                among.average,
            )
            for layer, lists in zip(self._layers, held, strict=True)
        ]

    def is_null(self, positions: Positions) -> npt.NDArray[np.bool_]:
        """Which rows have no text."""
        missing = np.ones(len(positions), np.bool_)
        for layer in self._layers:
            local = layer.local(positions)
            here = local >= 0
            if len(layer.struck):
                here &= ~np.isin(local, layer.struck)
            missing[here] = layer.segment.lengths[local[here]] == MISSING
        return missing


def _changed(layers: tuple[_Layer, ...], delta: PositionDelta, name: str, tokenizer: Tokenizer) -> tuple[_Layer, ...]:
    """The layers after one change."""
    written = delta.written
    changed = np.unique(np.concatenate([written, delta.removed])) if len(delta.removed) else np.unique(written)
    kept = [layer.without(changed) for layer in layers]
    if len(written) == 0:
        return tuple(kept)
    positions, texts = [written], [delta.written_column(name)]
    size = len(written)
    while len(kept) > 1 and len(kept[-1].segment) <= _MERGE_RATIO * size:
        rows, older = kept.pop().valid()
        positions.append(rows)
        texts.append(older)
        size += len(rows)
    every = np.concatenate(positions)
    order = np.argsort(every, kind="stable")
    column = pa.concat_arrays(texts).take(pa.array(order)) if size > 1 else texts[0]
    return (*kept, _Layer.of(TextSegment.of(column, tokenizer), every[order], column))


def _union(lists: list[Codes], texts: int) -> npt.NDArray[np.integer]:
    if not lists:
        return np.zeros(0, np.int32)
    if sum(len(each) for each in lists) * DENSE_SHARE > texts:
        there = np.zeros(texts, np.bool_)
        for each in lists:
            there[each] = True
        return np.flatnonzero(there)
    return np.unique(np.concatenate(lists))


def _ascending(found: list[Positions]) -> Positions:
    """Rows of several layers, which have none in common."""
    return found[0] if len(found) == 1 else np.sort(np.concatenate(found))
