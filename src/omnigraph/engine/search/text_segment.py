"""An inverted index over some texts of a column: for each token the texts that hold it, and how often.

Immutable. Texts are numbered as they were given; `text_index.py` knows which rows they are and which are still valid.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.pieces import finished
from omnigraph.engine.search.words import Codes, TextTokens, Vocabulary, blocks, token_stream
from omnigraph.tokenizer import ENGLISH, Tokenizer

#: The length of a text that is null.
MISSING = -1

#: More tokens than this are looked up by going through the vocabulary once.
_FEW_TOKENS = 64


@dataclass(frozen=True, slots=True)
class TextSegment:
    """Postings in the order of their tokens.

    Attributes:
        tokens: the vocabulary, ascending.
        starts: where the postings of each token begin, and one more.
        texts: the texts of the postings, ascending for each token.
        counts: how often the token is in the text.
        lengths: number of tokens of each text; `MISSING` for a null.
    """

    tokens: pa.Array
    starts: npt.NDArray[np.int64]
    texts: Codes
    counts: npt.NDArray[np.unsignedinteger]
    lengths: Codes

    @staticmethod
    def of(column: pa.Array, tokenizer: Tokenizer = ENGLISH) -> TextSegment:
        return finished(TextSegment.made(column, tokenizer))

    @staticmethod
    def made(column: pa.Array, tokenizer: Tokenizer = ENGLISH) -> Generator[None, None, TextSegment]:
        """The segment of a column, with a pause after every block."""
        vocabulary = Vocabulary()
        parts = []
        for first, block in blocks(column, tokenizer):
            parts.append(_grouped(token_stream(block, vocabulary, tokenizer), first))
            yield
        codes, texts, counts = (
            np.concatenate([part[n] for part in parts] or [np.zeros(0, np.int32)]) for n in range(3)
        )
        tokens = pa.array(vocabulary.numbers, pa.string())
        alphabetic = pc.sort_indices(tokens)
        rank = np.empty(len(tokens), np.int32)
        rank[np.asarray(alphabetic)] = np.arange(len(tokens), dtype=np.int32)
        codes = rank[codes]
        yield
        order = by_code(codes)
        yield
        lengths = np.bincount(texts, weights=counts, minlength=len(column)).astype(np.int32)
        if column.null_count:
            lengths[np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)] = MISSING
        starts = np.searchsorted(codes[order], np.arange(len(tokens) + 1))
        narrow = np.uint16 if len(counts) == 0 or counts.max() < 1 << 16 else np.uint32
        return TextSegment(tokens.take(alphabetic), starts, texts[order], counts[order].astype(narrow), lengths)

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.lengths)

    def parts(self) -> Iterator[tuple[object, int]]:
        arrays = (self.tokens, self.starts, self.texts, self.counts, self.lengths)
        return ((each, each.nbytes) for each in arrays)

    def find(self, tokens: Sequence[str]) -> list[int]:
        """Number of each token in the vocabulary, -1 where it is not in it."""
        if len(tokens) > _FEW_TOKENS:
            found = pc.index_in(self.tokens, value_set=pa.array(tokens, pa.string()))
            there = np.flatnonzero(np.asarray(found.is_valid()))
            number = dict(zip(found.take(pa.array(there)).to_pylist(), there.tolist(), strict=True))
            return [number.get(place, -1) for place in range(len(tokens))]
        return [self._number(token) for token in tokens]

    def _number(self, token: str) -> int:
        place = bisect_left(range(len(self.tokens)), token, key=lambda number: self.tokens[number].as_py())
        return place if place < len(self.tokens) and self.tokens[place].as_py() == token else -1

    def postings(self, number: int) -> tuple[Codes, npt.NDArray[np.unsignedinteger]]:
        """Texts that hold a token, ascending, and how often."""
        if number < 0:
            return self.texts[:0], self.counts[:0]
        here = slice(int(self.starts[number]), int(self.starts[number + 1]))
        return self.texts[here], self.counts[here]


def by_code(codes: Codes) -> npt.NDArray[np.int64]:
    """A stable order by code, by radix: low halves, then high halves."""
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    if len(codes) and int(codes.max()) > 0xFFFF:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def _grouped(stream: TextTokens, first: int) -> tuple[Codes, Codes, Codes]:
    """Different tokens of each text, and how often each is in it; by token, texts ascending."""
    order = by_code(stream.codes)
    codes, texts = stream.codes[order], stream.texts[order]
    is_new = np.ones(len(codes), np.bool_)
    is_new[1:] = (codes[1:] != codes[:-1]) | (texts[1:] != texts[:-1])
    begin = np.flatnonzero(is_new)
    counts = np.diff(np.append(begin, len(codes))).astype(np.int32)
    return codes[begin], texts[begin] + np.int32(first), counts
