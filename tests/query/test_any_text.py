"""Any text gives a typed query or a typed error, in time that follows its length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.errors import QuerySyntaxError, QueryTypeError, SourceError
from omnigraph.query import check_query, parse_queries
from omnigraph.query.lint_queries import lint
from omnigraph.query.syntax.token_stream import MAX_DEPTH
from tests.language.query.fixtures import read_cases, text_cases, wide_catalog, write_cases
from tests.support.processor_time import processor_seconds

CORPUS = [
    *(case.query for case in read_cases()),
    *(case.query for case in write_cases()),
    *(case.text for case in text_cases("valid") if case.text),
]
_WORDS = (
    "query q match return order limit offset distinct optional not in is null or and as asc desc insert update delete "
    "set where from to now nearest search fuzzy match_text bm25 rrf count sum avg min max date datetime true false "
    "contains starts_with Person Team Doc Follows Vector String I32 follows memberOf name age tags vec text handle "
    '$p $q $_ $w { } ( ) [ ] : , . < > = != <= >= ? @ 1 -2 2.5 1e3 "x" // /* */'
)
WORDS = _WORDS.split()


def outcome(text: str) -> SourceError | None:
    """The refusal, if any; every other exception fails the test."""
    try:
        for query in parse_queries(text, "fuzz.gq").queries:
            check_query(query, wide_catalog())
    except (QuerySyntaxError, QueryTypeError) as error:
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + 1
        assert error.message
        assert len(str(error)) < 1_000
        return error
    return None


@given(st.text(max_size=200))
@example("\ufeffquery q() { match { $p: Person } return { $p } }")
@example("\x00")
@example('query q() { match { $p: Person { name: "\ud800" } } return { $p } }')
@example("query q() { match { $p: Person } return { $p } } \u00a0")
def test_random_text(text: str) -> None:
    assert lint(text, wide_catalog()).ok == (outcome(text) is None)


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_random_words(words: list[str]) -> None:
    inside = f"query q() {{ match {{ $p: Person {' '.join(words)} }} return {{ $p }} }}"
    for text in (" ".join(words), "".join(words), inside):
        assert lint(text, wide_catalog()).ok == (outcome(text) is None)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid query with a few spans cut out, doubled, swapped for a word or for a span of another query."""
    text = draw(st.sampled_from(CORPUS))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        other = draw(st.sampled_from(CORPUS))
        cut = draw(st.integers(0, len(other)))
        middle = draw(
            st.sampled_from(["", text[start:end] * 2, f" {draw(st.sampled_from(WORDS))} ", other[cut : cut + 20]])
        )
        text = text[:start] + middle + text[end:]
    return text


@given(mutated())
def test_mutated_queries(text: str) -> None:
    assert lint(text, wide_catalog()).ok == (outcome(text) is None)


@pytest.mark.parametrize("text", CORPUS)
def test_every_prefix_of_a_valid_query_is_answered(text: str) -> None:
    step = max(1, len(text) // 40)
    refused = [outcome(text[:end]) for end in range(step, len(text) - 1, step)]
    assert any(refused) or "\n" in text or text.startswith("//")


def within(clauses: str) -> str:
    return f"query q() {{ match {{ $p: Person {clauses} }} return {{ $p }} }}"


DEEP: dict[str, Callable[[int], str]] = {
    "negations": lambda n: within("not { $p: Person " * n + "}" * n),
    "optional blocks": lambda n: within("optional { $p: Person " * n + "}" * n),
    "parentheses": lambda n: within("(" * n + "$p.age = 1" + ")" * n),
    "lists": lambda n: within("$p.age = " + "[" * n + "]" * n),
    "lists behind in": lambda n: within("$p.age in " + "[" * n + "]" * n),
    "functions": lambda n: within("search(" * n + "$p.name" + ', "x")' * n),
    "aggregates": lambda n: f"query q() {{ match {{ $p: Person }} return {{ {'count(' * n}$p{')' * n} }} }}",
}


@pytest.mark.parametrize("shape", DEEP)
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 100_000])
def test_deep_nesting_is_refused(shape: str, depth: int) -> None:
    error = outcome(DEEP[shape](depth))
    assert isinstance(error, QuerySyntaxError)
    assert error.message == f"nested deeper than {MAX_DEPTH} levels"


@pytest.mark.parametrize("shape", ["negations", "optional blocks", "parentheses"])
def test_nesting_up_to_the_limit_is_fine(shape: str) -> None:
    assert outcome(DEEP[shape](MAX_DEPTH - 1)) is None


def repeated(unit: str, size: int) -> str:
    return unit * (size // len(unit) + 1)


LARGE: dict[str, Callable[[int], str]] = {
    "filters": lambda size: within(repeated("$p.age = 3 or $p.age > 2 ", size)),
    "traversals": lambda size: within(repeated("$p follows $_ ", size)),
    "negations": lambda size: within(repeated("not { $p follows $q } ", size)),
    "choices": lambda size: within("$p.age in [" + repeated("10, ", size) + "1]"),
    "projections and keys": lambda size: (
        f"query q() {{ match {{ $p: Person }} return {{ {repeated('$p.name ', size // 2)} }}"
        f" order {{ {repeated('$p.age, ', size // 2)} $p.age }} }}"
    ),
    "queries": lambda size: repeated("query q() { match { $p: Person } return { $p } }\n", size),
    "statements": lambda size: "query q() {" + repeated('insert Note { text: "a" } ', size) + "}",
    "one string": lambda size: within(f'$p.name = "{"a" * size}"'),
    "open braces": lambda size: "query q() { match " + "{" * size,
    "open string": lambda size: 'query q() { match { $p: Person { name: "' + "a\\" * (size // 2),
    "open comment": lambda size: "/*" + "*" * size,
    "digits": lambda size: within("$p.age = " + "9" * size),
    "fraction": lambda size: within("$p.age = 0." + "9" * size),
    "stray signs": lambda size: "&" * size,
}
KIBIBYTE = 1024


@pytest.mark.parametrize("shape", LARGE)
def test_64_kib_take_less_than_a_second(shape: str) -> None:
    assert seconds(LARGE[shape](64 * KIBIBYTE)) < 1.0


@pytest.mark.parametrize("shape", ["filters", "choices", "projections and keys", "open braces", "open string"])
def test_a_megabyte_takes_a_few_seconds_at_most(shape: str) -> None:
    assert seconds(LARGE[shape](KIBIBYTE * KIBIBYTE)) < 5.0


def seconds(text: str) -> float:
    return processor_seconds(lambda: outcome(text))
