"""``@fulltext(…)``: how the texts of a property are taken apart for search.

``@fulltext(german, stem=false)`` names a language and changes what it implies; ``@fulltext(ngram, min=2, max=3)`` makes
runs of characters the tokens. An accepted schema may hold one that says nothing known, from software to which the
annotation meant nothing; there it changes nothing. A new schema is refused (`schema_mistakes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from omnigraph.schema.catalog import Annotation, Literal, PropertyType, Scalar
from omnigraph.schema.word_hints import nearest
from omnigraph.tokenizer import ENGLISH, LANGUAGES, NGrams, Tokenizer

NAME = "fulltext"

_NGRAM = "ngram"
_BOTH = ("lower_case", "ascii_folding")
_OF_WORDS = (*_BOTH, "stem", "stop_words", "max_token_length")
_OF_NGRAMS = (*_BOTH, "min", "max")

#: The numbers among the arguments, each with its bounds. A text has as many tokens as characters for each length of
#: n-grams.
_NUMBERS = {"max_token_length": (2, 1_000), "min": (1, 12), "max": (1, 12)}


class FulltextMistake(ValueError):
    """Says what is wrong with a ``@fulltext``, and what may have been meant."""

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem)
        self.hint = hint


def tokenizer_of(type_: PropertyType, annotations: Iterable[Annotation]) -> Tokenizer:
    """The tokenizer of a property with these annotations."""
    found = next((each for each in annotations if each.name == NAME), None)
    try:
        return ENGLISH if found is None else chosen_tokenizer(type_, found)
    except FulltextMistake:
        return ENGLISH


def chosen_tokenizer(type_: PropertyType, annotation: Annotation) -> Tokenizer:
    """The tokenizer that a ``@fulltext`` asks for.

    Raises:
        FulltextMistake: the property holds no free text, or an argument is unknown or out of bounds.

    >>> chosen_tokenizer(PropertyType(Scalar.STRING), Annotation("fulltext", "German", (("stem", False),))).language
    'german'
    """
    if type_.scalar is not Scalar.STRING or type_.list or type_.enum_values is not None:
        raise FulltextMistake(f"requires a property of type String, got {type_}")
    word = "english" if annotation.value is None else str(annotation.value).casefold()
    given = dict(annotation.keywords)
    if word == _NGRAM:
        return _of_ngrams(given)
    if word not in LANGUAGES:
        near = nearest(word, (*LANGUAGES, _NGRAM), most=2)
        raise FulltextMistake(
            f"names '{annotation.value}', which is none of {', '.join(LANGUAGES)} and {_NGRAM}",
            None if near is None else f"did you mean '{near}'?",
        )
    _check(given, _OF_WORDS, "the words of a language")
    return replace(Tokenizer(language=word), **given)  # type: ignore[arg-type]


def _of_ngrams(given: Mapping[str, Literal]) -> Tokenizer:
    _check(given, _OF_NGRAMS, "n-grams")
    usual = NGrams()
    low = int(given.get("min", min(usual.low, int(given.get("max", usual.high)))))
    high = int(given.get("max", max(usual.high, low)))
    if low > high:
        raise FulltextMistake(f"has min={low} above max={high}")
    return Tokenizer(
        stem=False,
        stop_words=False,
        lower_case=bool(given.get("lower_case", True)),
        ascii_folding=bool(given.get("ascii_folding", True)),
        ngrams=NGrams(low, high),
    )


def _check(given: Mapping[str, Literal], known: tuple[str, ...], what: str) -> None:
    for name, value in given.items():
        if name not in known:
            near = nearest(name, known, most=2)
            hint = f"did you mean '{near}='?" if near else f"there are {', '.join(f'{each}=' for each in known)}"
            raise FulltextMistake(f"has argument '{name}=', which {what} do not have", hint)
        if name not in _NUMBERS:
            if not isinstance(value, bool):
                raise FulltextMistake(f"requires true or false for '{name}='")
            continue
        low, high = _NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise FulltextMistake(f"requires a whole number from {low} to {high} for '{name}='")
