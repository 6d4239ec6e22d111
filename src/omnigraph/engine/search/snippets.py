"""The part of a text that shows why a search found it, with the places of what matched.

Only for the few texts that are shown. Places are counted in characters of the snippet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.storage.tables.text_tokens import SEPARATOR, folded, tokens_of, tokens_of_words
from omnigraph.tokenizer import NGrams, Tokenizer

#: Characters of a snippet, and how many of them stand before the first that matched.
_SIZE = 160
_BEFORE = 40

#: Characters of a text that are looked at.
_LOOKED_AT = 100_000

#: What stands between words in most texts. What lies between may be several words to the tokenizer.
_BETWEEN = "\\s!-/:-@\\[-`{-~\u00a1\u00ab\u00bb\u00bf\u2000-\u206f\u3000-\u303f\uff01-\uff0f"
_PIECE = re.compile(f"[^{_BETWEEN}]+")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_Spans: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a text on one line; ``marks`` are the begins and ends of what matched."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippet_of(text: str, query: str, tokenizer: Tokenizer) -> Snippet:
    """The part of a text that has most of a query; its beginning when nothing of it is found there."""
    text = _CONTROL.sub(" ", text[:_LOOKED_AT])
    wanted = {token for token, _ in tokens_of(query, tokenizer)}
    ngrams = tokenizer.ngrams
    found = list(_words(text, wanted, tokenizer) if ngrams is None else _parts(text, wanted, tokenizer, ngrams))
    begin, end = _window(text, found)
    before, after = ("…" if begin else ""), ("…" if end < len(text) else "")
    moved = len(before) - begin
    marks = tuple((first + moved, last + moved) for first, last in found if begin <= first and last <= end)
    return Snippet(f"{before}{text[begin:end]}{after}", marks)


def _words(text: str, wanted: set[str], tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Where words of the query are."""
    different = list(dict.fromkeys(piece.group() for piece in _PIECE.finditer(text)))
    meanings = zip(different, tokens_of_words(different, tokenizer), strict=True)
    hits = {piece for piece, meaning in meanings if any(token in wanted for token, _ in meaning.tokens)}
    yield from (piece.span() for piece in _PIECE.finditer(text) if piece.group() in hits)


def _parts(text: str, wanted: set[str], tokenizer: Tokenizer, ngrams: NGrams) -> Iterator[tuple[int, int]]:
    """Where n-grams of the query are; those that touch are one place."""
    different = [character for character in dict.fromkeys(text) if character != SEPARATOR]
    meaning = dict(zip(different, folded(SEPARATOR.join(different), tokenizer).split(SEPARATOR), strict=False))
    characters = [meaning.get(character, character) for character in text]
    begin = end = 0
    for first in range(len(characters)):
        for last in range(min(first + ngrams.high, len(characters)), first + ngrams.low - 1, -1):
            if last > end and "".join(characters[first:last]) in wanted:
                if first > end:
                    if end:
                        yield begin, end
                    begin = first
                end = last
    if end:
        yield begin, end


def _window(text: str, found: _Spans) -> tuple[int, int]:
    """The part of a text in which most places lie, between blanks where there are some near."""
    best, most, last = 0, 0, 0
    for first, (begin, _) in enumerate(found):
        while last < len(found) and found[last][1] <= begin + _SIZE - _BEFORE:
            last += 1
        if last - first > most:
            best, most = first, last - first
    begin = max(0, found[best][0] - _BEFORE) if found else 0
    end = min(len(text), begin + _SIZE)
    begin = max(0, end - _SIZE)
    if begin and (blank := text.find(" ", begin, begin + _BEFORE // 2)) >= 0:
        begin = blank + 1
    if end < len(text) and (blank := text.rfind(" ", end - _BEFORE // 2, end)) > begin:
        end = blank
    return begin, end
