"""Texts and queries of every script and size: an answer or a typed error, in bounded time, by words and by n-grams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import omnigraph as og
from omnigraph.errors import InputError, ResourceLimitExceeded

SCHEMA = """
node Doc  { slug: String @key  body: String? @index }
node Part { slug: String @key  body: String? @index @fulltext(ngram, min=2, max=3) }
"""

SCRIPTS = {
    "chinese": "東京タワーは高い。北京",
    "korean": "안녕하세요 세계",
    "thai": "สวัสดีชาวโลก",
    "hindi": "नमस्ते दुनिया",
    "hebrew": "שלום עולם",
    "arabic": "مرحبا بالعالم",
    "mixed": "hello \u202eשלום\u202c world",
    "emoji": "party🎉time 👩‍👩‍👧‍👦 🏳️‍🌈",
    "marks": "Zoe\u0308 cafe\u0301",
    "composed": "Zoë café",
    "turkish": "İstanbul ISPARTA ısparta iğde",
    "german": "Straße STRASSE",
    "greek": "ΟΔΟΣ οδός",
    "ligature": "ﬁsh ﬂow Ⅷ",
    "zero": "a\u0000b\u200bc\ufeffd",
    "empty": "",
    "blank": " \t\n ",
}

#: Words, and the documents that `search` finds by words; then parts, and those that `match_text` finds by n-grams.
WORDS = {
    "北京": ["chinese"],
    "東京タワーは高い": ["chinese"],
    "東京": [],
    "세계": ["korean"],
    "สวัสดีชาวโลก": ["thai"],
    "दुनिया": ["hindi"],
    "עולם": ["hebrew"],
    "שלום": ["hebrew", "mixed"],
    "بالعالم": ["arabic"],
    "🎉": [],
    "times": ["emoji"],
    "cafe": ["composed", "marks"],
    "ISPARTA": ["turkish"],
    "istanbul": [],
    "i̇stanbul İSTANBUL": ["turkish"],
    "fish": ["ligature"],
    "\u202e": [],
}
PARTS = {
    "京タ": ["chinese"],
    "北京": ["chinese"],
    "하세요 세": ["korean"],
    "ดีชา": ["thai"],
    "לום": ["hebrew", "mixed"],
    "عالم": ["arabic"],
    "🎉ti": ["emoji"],
    "👩‍👧": ["emoji"],
    "🏳️‍🌈": ["emoji"],
    "CAF": ["composed", "marks"],
    "fé": ["composed", "marks"],
    "e\u0301": ["marks"],
    "sparta ı": ["turkish"],
    "STRASSE": ["german"],
    "δός": ["greek"],
    "οδο": ["greek"],
    "\u200bc": ["zero"],
    "b": ["turkish", "zero"],
    "\t": ["blank"],
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("scripts") / "g", SCHEMA) as made:
        rows = [{"slug": slug, "body": body} for slug, body in SCRIPTS.items()]
        made.load({"Doc": rows, "Part": rows}, "append")
        yield made


def found(graph: og.Graph, type_: str, function: str, words: str) -> list[str]:
    text = f"query q($t: String) {{ match {{ $d: {type_}  {function}($d.body, $t) }} return {{ $d.slug as s }} }}"
    return sorted(graph.query(text, {"t": words}).column("s").to_pylist())


@pytest.mark.parametrize("words", WORDS, ids=ascii)
def test_words_of_a_script_are_found(graph: og.Graph, words: str) -> None:
    assert found(graph, "Doc", "search", words) == WORDS[words]


@pytest.mark.parametrize("part", PARTS, ids=ascii)
def test_parts_of_a_script_are_found(graph: og.Graph, part: str) -> None:
    assert found(graph, "Part", "match_text", part) == PARTS[part]


@pytest.mark.parametrize("slug", SCRIPTS)
def test_a_text_finds_itself_as_far_as_it_has_tokens(graph: og.Graph, slug: str) -> None:
    body = SCRIPTS[slug]
    assert (slug in found(graph, "Part", "match_text", body)) is (body != "")
    has_words = slug not in ("empty", "blank")
    assert (slug in found(graph, "Doc", "match_text", body)) is has_words
    assert (slug in found(graph, "Doc", "search", body)) is has_words
    if body.strip():
        assert slug in {hit.id for hit in graph.search(body, limit=100)}


def test_a_lone_surrogate_is_refused_and_not_searched_for(graph: og.Graph) -> None:
    for asked in (lambda: found(graph, "Doc", "search", "a\ud800"), lambda: graph.search("a\ud800")):
        with pytest.raises(InputError, match="surrogate"):
            asked()


MEGABYTE = 1_000_000
RANDOM = Random(0)
LARGE = {
    "words": " ".join(f"word{number}" for number in range(MEGABYTE // 10)),
    "chinese": "漢字かな" * (MEGABYTE // 12),
    "emoji": "🎉" * (MEGABYTE // 4),
    "one": "x" * MEGABYTE,
    "random": "".join(chr(RANDOM.choice([*range(0x20, 0x7F), *range(0x4E00, 0x5E00)])) for _ in range(MEGABYTE // 3)),
    "small": "word7 漢字 🎉🎉 xx",
    "empty": "",
}


def test_megabytes_and_thousands_of_terms_are_answered_in_bounded_time(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        rows = [{"slug": slug, "body": body} for slug, body in LARGE.items()]
        graph.load({"Doc": rows, "Part": rows}, "append")
        began = time.process_time()
        assert found(graph, "Doc", "match_text", "word99998 word99999") == ["words"]
        assert found(graph, "Part", "match_text", "d99998 word99") == ["words"]
        assert found(graph, "Part", "match_text", "字かな漢字") == ["chinese"]
        assert found(graph, "Part", "search", "🎉🎉") == ["emoji", "small"]
        assert found(graph, "Part", "match_text", LARGE["random"]) == ["random"]
        many = " ".join(f"word{number}" for number in range(10_000))
        for type_ in ("Doc", "Part"):
            for function in ("search", "match_text", "fuzzy"):
                words = many if function != "fuzzy" else " ".join(many.split()[:100])
                assert "words" in found(graph, type_, function, words), (type_, function)
            assert {"words", "small"} <= set(ranked(graph, type_, many))
        with pytest.raises(ResourceLimitExceeded, match="tokens of a fuzzy text: actual 10000, limit 1000"):
            found(graph, "Doc", "fuzzy", many)
        assert graph.search(many).hits[0].id in ("words", "small")
        assert time.process_time() - began < 30


def ranked(graph: og.Graph, type_: str, words: str) -> list[str]:
    order = "return { $d.slug as s } order { bm25($d.body, $t) } limit 100"
    found = graph.query(f"query q($t: String) {{ match {{ $d: {type_} }} {order} }}", {"t": words})
    return list(found.column("s").to_pylist())
