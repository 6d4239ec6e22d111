"""Text search as its definition reads: a tokenizer of its own, BM25, phrases and edit distance, one text at a time.

Stems are a list, so that nothing here shares code with the engine's tokenizer: the words of generated texts are in it,
and any other word is its own stem. The same holds for stop words. Of languages only English is known.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from omnigraph.tokenizer import ENGLISH, Tokenizer

STEMS = {"trees": "tree", "running": "run", "runs": "run", "foxes": "fox", "states": "state", "stated": "state",
         "quickly": "quick", "dogs": "dog"}  # fmt: skip
STOP_WORDS = {"the", "of", "and", "a", "is", "it", "can"}


def folded(text: str, how: Tokenizer) -> str:
    """A text in lower case and without accents, as far as that is wanted."""
    lower = text.lower() if how.lower_case else text
    if not how.ascii_folding:
        return lower
    return "".join(c for c in unicodedata.normalize("NFD", lower) if not unicodedata.combining(c))


def tokens(text: str, how: Tokenizer = ENGLISH) -> list[tuple[str, int]]:
    """The tokens of a text with their places; dropped words take a place, n-grams have none."""
    if how.ngrams is not None:
        sizes = range(how.ngrams.low, how.ngrams.high + 1)
        parts = (text[at : at + size] for at in range(len(text)) for size in sizes if at + size <= len(text))
        return [(folded(part, how), 0) for part in parts]
    words, word = [], ""
    for character in [*text, " "]:
        if character.isalnum():
            word += character
        elif word:
            words.append(word)
            word = ""
    found = []
    for place, each in enumerate(words):
        spelt = each.lower() if how.lower_case else each
        if len(each.encode()) < how.max_token_length and not (how.stop_words and spelt in STOP_WORDS):
            found.append((folded(STEMS.get(spelt, spelt) if how.stem else spelt, how), place))
    return found


def matches(function: str, text: str, query: str, edits: int, how: Tokenizer = ENGLISH) -> bool:
    held, wanted = tokens(text, how), tokens(query, how)
    if function == "match_text" and how.ngrams is not None:
        return query != "" and folded(query, how) in folded(text, how)
    if function == "fuzzy":
        return any(distance(have, want) <= edits for have, _ in held for want, _ in wanted)
    if function == "match_text" and wanted:
        first = wanted[0][1]
        return any(all((w, at + p - first) in held for w, p in wanted) for _, at in held)
    return bool({have for have, _ in held} & {want for want, _ in wanted})


def bm25(texts: Sequence[str | None], query: str, how: Tokenizer = ENGLISH) -> list[float | None]:
    """The score of each text among all texts; None where no token of the query is."""
    held = [[token for token, _ in tokens(text or "", how)] for text in texts]
    filled = [each for each in held if each]
    average = sum(map(len, filled)) / max(len(filled), 1)
    wanted = [token for token, _ in dict.fromkeys(tokens(query, how))]
    scores: list[float | None] = []
    for own in held:
        total = None
        for token in dict.fromkeys(wanted):
            often = own.count(token)
            if often == 0:
                continue
            holding = sum(token in each for each in filled)
            idf = math.log(1 + (len(filled) - holding + 0.5) / (holding + 0.5))
            weight = 2.2 * often / (often + 1.2 * (0.25 + 0.75 * len(own) / average))
            total = (total or 0.0) + wanted.count(token) * idf * weight
        scores.append(total)
    return scores


def distance(one: str, other: str) -> int:
    """Insertions, omissions and replacements that lead from one word to another."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
