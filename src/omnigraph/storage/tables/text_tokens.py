"""Lance's own tokenizer: what the stored full-text index holds, and so what a search without an index must find.

Words, lower case, English stems, no stop words, ASCII folding, tokens below 40 bytes. A vocabulary is tokenized in one
call, because a call costs as much as twenty words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import lance

#: A word of no language that the tokenizer leaves as it is; it stands between words of a vocabulary.
_MARK = "7391046528173"

#: Words of one call.
_BATCH = 50_000

#: Tokens of a text or a word, each with its place. Places of dropped tokens stay empty.
Places: TypeAlias = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class WordTokens:
    """What becomes of one word: its tokens, and how many places it takes in a text."""

    tokens: Places
    width: int


def tokens_of(text: str) -> Places:
    """The tokens of a text in order. The first one is at place 0."""
    return [(token.text, token.position) for token in lance.tokenize(text)]


def tokens_of_plain_words(words: Sequence[str]) -> list[str | None]:
    """The token of each word of ASCII letters and digits; None for one that is dropped."""
    found: list[str | None] = [None] * len(words)
    for begin in range(0, len(words), _BATCH):
        for text, place in tokens_of(f"{_MARK} {' '.join(words[begin : begin + _BATCH])}")[1:]:
            found[begin + place - 1] = text
    return found


def tokens_of_words(words: Sequence[str]) -> list[WordTokens]:
    """The tokens of words that may hold anything but ASCII separators, and may be several words to the tokenizer."""
    found: list[WordTokens] = []
    for begin in range(0, len(words), _BATCH):
        batch = words[begin : begin + _BATCH]
        tokens = tokens_of(f" {_MARK} ".join(["", *batch, ""]))
        marks = [number for number, (text, _) in enumerate(tokens) if text == _MARK]
        if len(marks) != len(batch) + 1:  # a text that holds the mark itself
            found += [_word_tokens(tokens_of(f"{_MARK} {word} {_MARK}")) for word in batch]
            continue
        found += [_word_tokens(tokens[first : last + 1]) for first, last in pairwise(marks)]
    return found


def _word_tokens(between: Places) -> WordTokens:
    """From the tokens of a word between two marks."""
    start = between[0][1] + 1
    return WordTokens([(text, place - start) for text, place in between[1:-1]], between[-1][1] - start)
