"""How texts are taken apart for search: the choices that a schema can make, as one value.

The schema says it (``@fulltext``), the storage does it (`storage/tables/text_tokens.py`), the engine searches by it.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The languages that Lance has stems or stop words for.
LANGUAGES = (
    "arabic",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
)


@dataclass(frozen=True, slots=True)
class NGrams:
    """Every run of ``low`` to ``high`` characters is a token, blanks and punctuation included."""

    low: int = 3
    high: int = 3


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What becomes of a text.

    Attributes:
        language: of stems and stop words.
        stem: whether words of one stem are the same.
        stop_words: whether frequent words of the language are dropped.
        lower_case: whether capitals are small letters.
        ascii_folding: whether letters lose their accents.
        max_token_length: words of so many bytes and more are dropped.
        ngrams: takes the place of words, and has neither stems nor stop words nor a longest token.
    """

    language: str = "english"
    stem: bool = True
    stop_words: bool = True
    lower_case: bool = True
    ascii_folding: bool = True
    max_token_length: int = 40
    ngrams: NGrams | None = None


#: What holds where a schema says nothing.
ENGLISH = Tokenizer()
