"""Text search where it meets the rest: the stored index, writes, transactions, explain, and texts of every kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.search.text_search import TextSearch
from omnigraph.engine.search.words import Vocabulary, token_stream
from tests.engine.search.library import random_text

SCHEMA = "node Doc { slug: String @key  body: String? @index  year: I32? }\nedge Cites: Doc -> Doc"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as made:
        yield made


def docs(graph: og.Graph, **bodies: str | None) -> None:
    graph.load({"Doc": [{"slug": slug, "body": body} for slug, body in bodies.items()]}, "merge")


def found(graph: og.Graph, condition: str, params: dict[str, Any] | None = None, **where: Any) -> list[str]:
    head = "query q($t: String) " if params else "query q() "
    text = f"{head}{{ match {{ $d: Doc  {condition} }} return {{ $d.slug as s }} order {{ s }} }}"
    return list(graph.query(text, params=params, **where).column("s").to_pylist())


def scores(graph: og.Graph, words: str, limit: int = 10_000) -> dict[str, float]:
    text = (
        "query q($t: String) { match { $d: Doc } return { $d.slug as s, bm25($d.body, $t) as b } order { b } limit %d }"
    )
    return {row["s"]: row["b"] for row in graph.query(text % limit, {"t": words}).rows()}


def test_a_phrase_keeps_its_order_and_its_gaps(graph: og.Graph) -> None:
    docs(graph, a="state of the art gallery", b="state art gallery", c="art of the state", d="stated for the arts")
    assert found(graph, 'match_text($d.body, "state of the art")') == ["a", "d"]
    assert found(graph, 'match_text($d.body, "states art")') == ["b"]
    assert found(graph, 'match_text($d.body, "the gallery")') == ["a", "b"]
    assert found(graph, 'match_text($d.body, "the")') == []
    assert found(graph, 'search($d.body, "gallery state")') == ["a", "b", "c", "d"]


def test_fuzzy_counts_edits_of_each_token(graph: og.Graph) -> None:
    docs(graph, a="a quick foxes", b="the bird", c=None, d="quark")
    assert found(graph, 'fuzzy($d.body, "quikc")') == ["a"]
    assert found(graph, 'fuzzy($d.body, "brid", 1)') == []
    assert found(graph, 'fuzzy($d.body, "brid")') == ["b"]
    assert found(graph, 'fuzzy($d.body, "quick", 0)') == ["a"]
    assert found(graph, 'fuzzy($d.body, "foxs", 1)') == ["a"]


def test_scores_are_those_of_a_stored_index_over_the_same_rows(tmp_path: Path) -> None:
    random = Random(7)
    bodies = [random_text(random) if random.random() > 0.1 else None for _ in range(300)]
    with og.init(tmp_path / "g", SCHEMA) as graph:
        docs(graph, **{f"d{number}": body for number, body in enumerate(bodies)})
        stored = lance.write_dataset(
            pa.table({"slug": [f"d{n}" for n in range(300)], "body": bodies}), tmp_path / "raw"
        )
        stored.create_scalar_index("body", "INVERTED", with_position=True)
        for _ in range(40):
            words = random_text(random, 4)
            query = lance.query.MatchQuery(words, "body")
            raw = stored.scanner(columns=["slug"], full_text_query=query, limit=1000).to_table().to_pydict()
            expected = dict(zip(raw["slug"], raw["_score"], strict=True))
            assert scores(graph, words) == pytest.approx(expected, rel=1e-5)
            if lance.tokenize(words):
                phrase = lance.query.PhraseQuery(words, "body")
                raw_phrase = stored.scanner(columns=["slug"], full_text_query=phrase, limit=1000).to_table()
                assert found(graph, "match_text($d.body, $t)", {"t": words}) == sorted(raw_phrase["slug"].to_pylist())


def test_an_index_in_the_storage_changes_no_score(graph: og.Graph) -> None:
    docs(graph, a="fox and dog", b="fox fox", c="owl")
    before = scores(graph, "fox owl")
    graph.ensure_indices()
    assert scores(graph, "fox owl") == before
    docs(graph, d="fox", b="owl dog")
    after = scores(graph, "fox owl")
    assert after.keys() == {"a", "b", "c", "d"} and after["a"] != before["a"]


def test_writes_and_transactions_search_what_they_wrote(graph: og.Graph) -> None:
    docs(graph, a="red fox", b="blue fox", c="owl")
    graph.mutate(
        'query q() { insert Doc { slug: "d", body: "a foxes den" } '
        'match { $d: Doc  match_text($d.body, "fox") } update $d set { year: 1 } }'
    )
    assert found(graph, "$d.year = 1") == ["a", "b", "d"]
    with graph.transaction() as work:
        work.mutate('query q() { update Doc set { body: "an owl" } where slug = "a" }')
        text = 'query q() { match { $d: Doc } return { $d.slug as s, bm25($d.body, "owl") as b } order { b } }'
        assert work.query(text).column("s").to_pylist() == ["a", "c"]
        assert graph.query(text).column("s").to_pylist() == ["c"]
    assert graph.query(text).column("s").to_pylist() == ["a", "c"]
    graph.mutate('query q() { match { $d: Doc  search($d.body, "owl") } delete $d }')
    assert found(graph, 'search($d.body, "owl fox")') == ["b", "d"]


def test_explain_says_which_came_first_with_counts(graph: og.Graph) -> None:
    rows = [{"slug": f"d{n:03}", "body": "common fox" if n % 50 == 0 else "common", "year": n % 10} for n in range(400)]
    graph.load({"Doc": rows}, "append")

    def told(words: str, ending: str) -> str:
        match = f'match {{ $d: Doc  $d.year = 0  search($d.body, "{words}") }}'
        return str(graph.explain(f"query q() {{ {match} return {{ $d.slug }} {ending} }}", run=True))

    assert "by text search" in told("fox", "")
    assert "search first: 8 of 400 rows, filter left 8" in told("fox", "")
    assert "filter first: 40 of 400 rows, search left 40" in told("common", "")
    ranked = told("common", 'order { bm25($d.body, "fox") } limit 3')
    assert 'rank $d: Doc where $d.year = 0 and search($d.body, "common") by bm25($d.body, "fox")' in ranked
    assert "search first: 8 of 400 rows, filter left 8" in ranked
    keyed = str(
        graph.explain('query q() { match { $d: Doc { slug: "d050" }  search($d.body, "fox") } return { $d.slug } }')
    )
    assert "by key look-up" in keyed


def test_a_search_among_few_rows_reads_only_these(graph: og.Graph) -> None:
    graph.load({"Doc": [{"slug": f"d{n}", "body": "fox" if n % 2 else "owl"} for n in range(100)]}, "append")
    from omnigraph.engine.version_cache import SHARED

    held = {lineage for lineage, _ in SHARED._entries}
    assert found(graph, '$d.slug = "d3"  search($d.body, "fox")') == ["d3"]
    assert found(graph, '$d.slug in ["d4", "d5"]  search($d.body, "fox") = false') == ["d4"]
    assert not {lineage for lineage, _ in SHARED._entries if lineage[0] == "index"} - held


def test_a_null_query_finds_nothing(graph: og.Graph) -> None:
    docs(graph, a="fox", b=None)
    text = "query q($t: String?) { match { $d: Doc  search($d.body, $t) } return { $d.slug } }"
    assert len(graph.query(text, {"t": None})) == 0
    ranked = "query q($t: String?) { match { $d: Doc } return { $d.slug } order { bm25($d.body, $t) } limit 3 }"
    assert len(graph.query(ranked, {"t": None})) == 0
    assert found(graph, 'search($d.body, "fox") = false') == []


def test_words_of_any_script_are_found(graph: og.Graph) -> None:
    docs(
        graph,
        cjk="東京 タワー",
        emoji="party🎉time 😀",
        marks="cafe\u0301 noir",
        composed="café noir",
        rtl="שלום עולם",
        arabic="مرحبا بالعالم",
        turkish="İstanbul ISPARTA ısparta",
        german="Straße",
        long="x" * 39 + " " + "y" * 40,
        empty="",
        stops="the of and",
    )
    assert found(graph, 'search($d.body, "東京")') == ["cjk"]
    assert found(graph, 'search($d.body, "東")') == []
    assert found(graph, 'search($d.body, "times")') == ["emoji"]
    assert found(graph, 'search($d.body, "😀 🎉")') == []
    assert found(graph, 'search($d.body, "cafe")') == ["composed", "marks"]
    assert found(graph, 'match_text($d.body, "CAFÉ NOIR")') == ["composed", "marks"]
    assert found(graph, 'search($d.body, "עולם")') == ["rtl"]
    assert found(graph, 'search($d.body, "بالعالم")') == ["arabic"]
    assert found(graph, 'search($d.body, "isparta")') == ["turkish"]
    assert found(graph, 'search($d.body, "İSTANBUL")') == ["turkish"]
    assert found(graph, 'search($d.body, "STRASSE")') == []
    assert found(graph, 'search($d.body, "straße")') == ["german"]
    assert found(graph, "search($d.body, $t)", {"t": "x" * 39}) == ["long"]
    assert found(graph, "search($d.body, $t)", {"t": "y" * 40}) == []
    assert found(graph, 'search($d.body, "the of")') == []


def test_tokens_are_lances_for_random_characters() -> None:
    random = Random(1)
    pool = [chr(code) for code in [*range(32, 127)] * 3] + list("éßİıÅ日本語कि्ไ😀\u0301\u200b\u00a0ſ٣Ⅷªﬁ\u0345")
    for _ in range(300):
        texts = ["".join(random.choices(pool, k=random.randrange(40))) for _ in range(8)]
        texts.append("7391046528173 日 7391046528173🎉x")
        vocabulary = Vocabulary()
        stream = token_stream(pa.array(texts), vocabulary)
        names = list(vocabulary.numbers)
        own: list[list[tuple[str, int]]] = [[] for _ in texts]
        for code, text, place in zip(stream.codes.tolist(), stream.texts.tolist(), stream.places.tolist(), strict=True):
            own[text].append((names[code], place))
        for text_, tokens in zip(texts, own, strict=True):
            first = tokens[0][1] if tokens else 0
            assert [(t, p - first) for t, p in tokens] == [(t.text, t.position) for t in lance.tokenize(text_)], text_


def test_large_documents_and_queries_are_answered(graph: og.Graph) -> None:
    many = " ".join(f"word{number}" for number in range(150_000))
    docs(graph, large=many, cjk="漢字" * 170_000, repeated="owl " * 250_000, small="word7 owl")
    assert found(graph, 'search($d.body, "word149999")') == ["large"]
    assert found(graph, 'match_text($d.body, "word149998 word149999")') == ["large"]
    best = scores(graph, "owl")
    assert list(best) == ["repeated", "small"] and best["repeated"] < 2.2
    began = time.monotonic()
    query = " ".join(f"word{number}" for number in range(10_000))
    assert list(scores(graph, query)) == ["large", "small"]
    assert found(graph, "search($d.body, $t)", {"t": query}) == ["large", "small"]
    assert time.monotonic() - began < 60


def test_counts_do_not_depend_on_how_a_column_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(2)
    column = pa.array([random_text(random) or None for _ in range(200)]).slice(20, 150)
    whole = TextSearch.of(column).ranked("fox blue tree")
    monkeypatch.setattr("omnigraph.engine.search.words._BLOCK_BYTES", 64)
    cut = TextSearch.of(column).ranked("fox blue tree")
    assert whole.positions.tolist() == cut.positions.tolist()
    assert whole.scores is not None and cut.scores is not None and whole.scores.tolist() == cut.scores.tolist()
