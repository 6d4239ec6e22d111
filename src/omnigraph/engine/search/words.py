"""Columns of texts as streams of tokens, without a Python object per row.

A text is cut at ASCII characters that are no letter and no digit, which separate words in every language; the different
words that are left go through Lance's tokenizer once each. What a word becomes is therefore exactly what a stored index
holds. Where the schema asks for n-grams, they are made in `ngrams.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.search.ngrams import ngrams_of
from omnigraph.storage.tables.text_tokens import tokens_of_plain_words, tokens_of_words
from omnigraph.tokenizer import ENGLISH, Tokenizer

Codes = npt.NDArray[np.int32]

#: Bytes of text that are cut at once; the arrays that this takes are many times as large.
_BLOCK_BYTES = 4 << 20

_BYTES = np.arange(256)
_LETTERS = ((ord("a") <= _BYTES) & (ord("z") >= _BYTES)) | ((ord("A") <= _BYTES) & (ord("Z") >= _BYTES))
_IS_WORD = _LETTERS | ((ord("0") <= _BYTES) & (ord("9") >= _BYTES)) | (_BYTES >= 0x80)
_LOWER = np.where(_LETTERS, _BYTES | 0x20, _BYTES).astype(np.uint8)

#: A block of n-grams is this much smaller for each of their lengths: there is one for each character.
_NGRAM_SHARE = 8


@dataclass(frozen=True, slots=True)
class TextTokens:
    """Tokens of some texts, in order.

    Attributes:
        codes: the token of each occurrence, a number in the vocabulary.
        texts: which text it is in, ascending.
        places: where in its text it is; dropped tokens take places too.
    """

    codes: Codes
    texts: Codes
    places: Codes


@dataclass(slots=True)
class Vocabulary:
    """Numbers of tokens, given when a token is first seen."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, token: str) -> int:
        return self.numbers.setdefault(token, len(self.numbers))


def blocks(texts: pa.Array, tokenizer: Tokenizer = ENGLISH) -> Iterator[tuple[int, pa.Array]]:
    """A column in parts of bounded size, each with the number of its first text."""
    if len(texts) == 0:
        return
    ngrams = tokenizer.ngrams
    size = _BLOCK_BYTES if ngrams is None else _BLOCK_BYTES // (_NGRAM_SHARE * (ngrams.high - ngrams.low + 1))
    offsets = _offsets(texts)
    begin = 0
    while begin < len(texts):
        end = int(np.searchsorted(offsets, offsets[begin] + size, side="right")) - 1
        end = min(max(end, begin + 1), len(texts))
        yield begin, texts.slice(begin, end - begin)
        begin = end


def token_stream(texts: pa.Array, vocabulary: Vocabulary, tokenizer: Tokenizer = ENGLISH) -> TextTokens:
    """The tokens of a part of a column; new ones are added to the vocabulary. Nulls have none."""
    filled = texts.fill_null("") if texts.null_count else texts
    if tokenizer.ngrams is not None:
        codes, text = ngrams_of(filled, vocabulary.number, tokenizer)
        return TextTokens(codes, text, np.zeros(len(codes), np.int32))  # Lance gives them all the same place
    words, counts = _cut(filled, tokenizer.lower_case)
    encoded = words.dictionary_encode()
    meaning = _Meaning.of(encoded.dictionary, vocabulary, tokenizer)
    word = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    text = np.repeat(np.arange(len(texts), dtype=np.int32), counts)
    if meaning.is_simple:
        before = np.cumsum(counts) - counts
        place = (np.arange(len(word)) - np.repeat(before, counts)).astype(np.int32)
        codes = meaning.codes[word]
        kept = np.flatnonzero(codes >= 0)
        return TextTokens(codes[kept], text[kept], place[kept])
    return meaning.expanded(word, text, len(texts))


def _cut(texts: pa.Array, lower_case: bool) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The words of all texts, ASCII letters in lower case if case does not matter, and how many each text has."""
    offsets = _offsets(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    bounds = offsets - offsets[0]
    is_word = _IS_WORD[data]
    is_start, is_end = is_word.copy(), is_word.copy()
    is_start[1:] &= ~is_word[:-1]
    is_end[:-1] &= ~is_word[1:]
    filled = bounds[:-1] < bounds[1:]  # a word does not go on in the next text
    is_start[bounds[:-1][filled]] = is_word[bounds[:-1][filled]]
    is_end[bounds[1:][filled] - 1] = is_word[bounds[1:][filled] - 1]
    starts = np.flatnonzero(is_start)
    letters = _LOWER[data[is_word]] if lower_case else data[is_word]
    ends = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(np.flatnonzero(is_end) + 1 - starts, out=ends[1:])
    words = pa.StringArray.from_buffers(len(starts), pa.py_buffer(ends), pa.py_buffer(letters))
    return words, np.diff(np.searchsorted(starts, bounds))


def _offsets(texts: pa.Array) -> npt.NDArray[np.int64]:
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    every = np.frombuffer(texts.buffers()[1], kind)
    return every[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What different words become: one token or none each, or several.

    Attributes:
        codes: the tokens of all words; with one for each word, -1 stands for a dropped one.
        starts: where the tokens of each word begin, if a word can have another number of them.
        inner: the place of each token inside its word.
        widths: how many places each word takes.
    """

    codes: Codes
    starts: npt.NDArray[np.int64] | None = None
    inner: Codes | None = None
    widths: npt.NDArray[np.int64] | None = None

    @property
    def is_simple(self) -> bool:
        return self.starts is None

    @staticmethod
    def of(words: pa.Array, vocabulary: Vocabulary, tokenizer: Tokenizer) -> _Meaning:
        plain = np.asarray(pc.string_is_ascii(words).to_numpy(zero_copy_only=False), np.bool_)
        codes = np.full(len(words), -1, np.int32)
        tokens = tokens_of_plain_words(words.filter(pa.array(plain)).to_pylist(), tokenizer)
        codes[plain] = [-1 if token is None else vocabulary.number(token) for token in tokens]
        if plain.all():
            return _Meaning(codes)
        widths = np.ones(len(words), np.int64)
        counts = (codes >= 0).astype(np.int64)
        others = np.flatnonzero(~plain)
        found = tokens_of_words(words.take(pa.array(others)).to_pylist(), tokenizer)
        widths[others] = [each.width for each in found]
        counts[others] = [len(each.tokens) for each in found]
        starts = np.concatenate([[0], np.cumsum(counts)])
        every = np.zeros(int(starts[-1]), np.int32)
        inner = np.zeros(len(every), np.int32)
        every[starts[:-1][codes >= 0]] = codes[codes >= 0]
        where = np.repeat(starts[others] - (np.cumsum(counts[others]) - counts[others]), counts[others])
        where += np.arange(len(where))
        every[where] = [vocabulary.number(token) for each in found for token, _ in each.tokens]
        inner[where] = [place for each in found for _, place in each.tokens]
        return _Meaning(every, starts, inner, widths)

    def expanded(self, word: npt.NDArray[np.int64], text: Codes, texts: int) -> TextTokens:
        """The stream of words as a stream of tokens."""
        assert self.starts is not None and self.inner is not None and self.widths is not None
        width = self.widths[word]
        place = np.cumsum(width) - width
        per_text = np.bincount(text, minlength=texts)
        first = np.append(place, 0)[np.cumsum(per_text) - per_text]
        place -= np.repeat(first, per_text)
        counts = np.diff(self.starts)[word]
        source = np.repeat(self.starts[word] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        places = np.repeat(place, counts) + self.inner[source]
        return TextTokens(self.codes[source], np.repeat(text, counts), places.astype(np.int32))
