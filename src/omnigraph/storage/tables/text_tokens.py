"""Lance's own tokenizer: what the stored full-text index holds, and so what a search without an index must find.

By default words, lower case, English stems, no stop words, ASCII folding, tokens below 40 bytes. A vocabulary is
tokenized in one call, because a call costs as much as twenty words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import lance

from omnigraph.tokenizer import ENGLISH, Tokenizer

#: A word of no language that the tokenizer leaves as it is; it stands between words of a vocabulary.
_MARK = "7391046528173"

#: Words of one call.
_BATCH = 50_000

#: A character that no filter changes; it stands between texts that are folded together.
SEPARATOR = "\x1f"

#: Tokens of a text or a word, each with its place. Places of dropped tokens stay empty.
Places: TypeAlias = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class WordTokens:
    """What becomes of one word: its tokens, and how many places it takes in a text."""

    tokens: Places
    width: int


@lru_cache(maxsize=256)
def lance_parameters(tokenizer: Tokenizer) -> dict[str, Any]:
    """A tokenizer in the words of Lance, as a stored index records them."""
    ngrams = tokenizer.ngrams
    return {
        "base_tokenizer": "simple" if ngrams is None else "ngram",
        "language": tokenizer.language.capitalize(),
        "max_token_length": tokenizer.max_token_length if ngrams is None else None,
        "lower_case": tokenizer.lower_case,
        "stem": tokenizer.stem,
        "remove_stop_words": tokenizer.stop_words,
        "ascii_folding": tokenizer.ascii_folding,
        **({} if ngrams is None else {"min_ngram_length": ngrams.low, "max_ngram_length": ngrams.high}),
    }


def tokens_of(text: str, tokenizer: Tokenizer = ENGLISH) -> Places:
    """The tokens of a text in order. The first one is at place 0, and so are all n-grams."""
    return [(token.text, token.position) for token in lance.tokenize(text, **lance_parameters(tokenizer))]


def folded(text: str, tokenizer: Tokenizer) -> str:
    """A whole text as its n-grams have it: in lower case and without accents, character by character."""
    found = lance.tokenize(
        text,
        base_tokenizer="raw",
        max_token_length=None,
        lower_case=tokenizer.lower_case,
        stem=False,
        remove_stop_words=False,
        ascii_folding=tokenizer.ascii_folding,
    )
    return found[0].text if found else ""


def tokens_of_plain_words(words: Sequence[str], tokenizer: Tokenizer = ENGLISH) -> list[str | None]:
    """The token of each word of ASCII letters and digits; None for one that is dropped."""
    found: list[str | None] = [None] * len(words)
    mark = _mark(tokenizer)
    for begin in range(0, len(words), _BATCH):
        for text, place in tokens_of(f"{mark} {' '.join(words[begin : begin + _BATCH])}", tokenizer)[1:]:
            found[begin + place - 1] = text
    return found


def tokens_of_words(words: Sequence[str], tokenizer: Tokenizer = ENGLISH) -> list[WordTokens]:
    """The tokens of words that may hold anything but ASCII separators, and may be several words to the tokenizer."""
    found: list[WordTokens] = []
    mark = _mark(tokenizer)
    for begin in range(0, len(words), _BATCH):
        batch = words[begin : begin + _BATCH]
        tokens = tokens_of(f" {mark} ".join(["", *batch, ""]), tokenizer)
        marks = [number for number, (text, _) in enumerate(tokens) if text == mark]
        if len(marks) != len(batch) + 1:  # a text that holds the mark itself
            found += [_word_tokens(tokens_of(f"{mark} {word} {mark}", tokenizer)) for word in batch]
            continue
        found += [_word_tokens(tokens[first : last + 1]) for first, last in pairwise(marks)]
    return found


def _mark(tokenizer: Tokenizer) -> str:
    """The mark as it is not too long for a token."""
    return _MARK[: tokenizer.max_token_length - 1]


def _word_tokens(between: Places) -> WordTokens:
    """From the tokens of a word between two marks."""
    start = between[0][1] + 1
    return WordTokens([(text, place - start) for text, place in between[1:-1]], between[-1][1] - start)
