"""What `@fulltext` chooses holds everywhere: in tokens, scores, the stored index, changes of the schema, old states."""

from __future__ import annotations

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
from omnigraph.schema.compiled_schema import compile_accepted, compile_schema
from omnigraph.storage.tables.text_tokens import lance_parameters, tokens_of
from omnigraph.tokenizer import ENGLISH, LANGUAGES, NGrams, Tokenizer
from omnigraph.upkeep.indexes import PendingIndex
from tests.engine.search.library import random_text

SCHEMA = "node Doc {{ slug: String @key  body: String? @index {how} }}\nedge Cites: Doc -> Doc"

GERMAN = Tokenizer(language="german")
PLAIN = Tokenizer(stem=False, stop_words=False, lower_case=False, ascii_folding=False, max_token_length=5)


def ngrams(low: int, high: int, *, lower_case: bool = True, ascii_folding: bool = True) -> Tokenizer:
    return Tokenizer(
        stem=False,
        stop_words=False,
        lower_case=lower_case,
        ascii_folding=ascii_folding,
        ngrams=NGrams(low, high),
    )


CHOICES = [
    *(Tokenizer(language=language) for language in LANGUAGES),
    *(Tokenizer(language="french", stem=stem, stop_words=stop) for stem in (True, False) for stop in (True, False)),
    *(Tokenizer(lower_case=lower, ascii_folding=fold) for lower in (True, False) for fold in (True, False)),
    *(Tokenizer(max_token_length=length) for length in (2, 5, 300)),
    PLAIN,
    ngrams(1, 1),
    ngrams(2, 3),
    ngrams(3, 6),
    ngrams(2, 2, lower_case=False),
    ngrams(3, 3, ascii_folding=False),
]


@pytest.mark.parametrize("tokenizer", CHOICES, ids=str)
def test_tokens_of_a_column_are_lances(tokenizer: Tokenizer) -> None:
    random = Random(1)
    pool = [chr(code) for code in [*range(32, 127)] * 3] + list("éßİıÅ日本語कि्ไ😀\u0301\u200b\u00a0ſ٣Ⅷªﬁ\u0345Σς\x1f")
    texts = ["".join(random.choices(pool, k=random.randrange(40))) for _ in range(20)]
    texts += ["7391046528173 日 7391046528173🎉x", "7 é7 7", "", "The the die Häuser RUNNING l'été Ünü " + "x" * 60]
    vocabulary = Vocabulary()
    stream = token_stream(pa.array(texts), vocabulary, tokenizer)
    names = list(vocabulary.numbers)
    own: list[list[tuple[str, int]]] = [[] for _ in texts]
    for code, text, place in zip(stream.codes.tolist(), stream.texts.tolist(), stream.places.tolist(), strict=True):
        own[text].append((names[code], place))
    for text_, tokens in zip(texts, own, strict=True):
        first = tokens[0][1] if tokens else 0
        assert [(token, place - first) for token, place in tokens] == tokens_of(text_, tokenizer), text_


def test_the_languages_are_those_of_the_installed_lance() -> None:
    with pytest.raises(ValueError, match="expected one of") as told:
        lance.tokenize("x", language="Klingon")
    offered = [word.lower() for word in str(told.value).split("`")[3::2]]
    assert offered == list(LANGUAGES)


def test_without_a_choice_the_stored_index_is_made_as_lance_makes_it(tmp_path: Path) -> None:
    raw = lance.write_dataset(pa.table({"body": ["a fox"]}), tmp_path / "raw")
    raw.create_scalar_index("body", "INVERTED")
    with og.init(tmp_path / "g", SCHEMA.format(how="")) as graph:
        load(graph, a="a fox")
        graph.ensure_indices()
        assert stored_details(graph, tmp_path) == raw.describe_indices()[0].details


@pytest.fixture
def german(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA.format(how="@fulltext(german)")) as graph:
        load(graph, a="Die Häuser laufen", b="ein Haus läuft", c="the running houses", d=None)
        yield graph


def load(graph: og.Graph, **bodies: str | None) -> None:
    graph.load({"Doc": [{"slug": slug, "body": body} for slug, body in bodies.items()]}, "merge")


def found(graph: Any, condition: str, words: str, **where: Any) -> list[str]:
    text = f"query q($t: String) {{ match {{ $d: Doc  {condition} }} return {{ $d.slug as s }} order {{ s }} }}"
    return list(graph.query(text, {"t": words}, **where).column("s").to_pylist())


def scores(graph: og.Graph, words: str) -> dict[str, float]:
    text = "query q($t: String) { match { $d: Doc } return { $d.slug as s, bm25($d.body, $t) as b } order { b } }"
    return {row["s"]: row["b"] for row in graph.query(text, {"t": words}).rows()}


def stored_details(graph: og.Graph, place: Path, column: str = "body") -> dict[str, Any]:
    pin = graph.snapshot()._stored.pins["node:Doc"]
    dataset = lance.dataset(str(place / "g" / pin.location), version=pin.version)
    (index,) = (each for each in dataset.describe_indices() if list(each.field_names) == [column])
    return dict(index.details)


def test_a_language_has_its_own_stems_and_stop_words(german: og.Graph) -> None:
    assert found(german, "search($d.body, $t)", "haus") == ["a", "b"]
    assert found(german, "search($d.body, $t)", "die der ein") == []
    assert found(german, "search($d.body, $t)", "the") == ["c"]
    assert found(german, "match_text($d.body, $t)", "die Haus laufe") == ["a"]
    assert found(german, "fuzzy($d.body, $t, 1)", "Hauz") == ["a", "b"]
    assert list(scores(german, "Häuser")) == ["a", "b"]
    assert found(german, '$d.slug = "a"  search($d.body, $t)', "haus") == ["a"]


def test_a_tokenizer_holds_in_writes_transactions_and_branches(german: og.Graph) -> None:
    german.branches.create("other")
    load_on = {"Doc": [{"slug": "e", "body": "Hauses"}]}
    german.load(load_on, "merge", branch="other")
    assert found(german, "search($d.body, $t)", "häuser", branch="other") == ["a", "b", "e"]
    with german.transaction() as work:
        work.mutate('query q() { insert Doc { slug: "f", body: "des Hauses" } }')
        assert found(work, "search($d.body, $t)", "häuser") == ["a", "b", "f"]
    german.mutate('query q() { match { $d: Doc  search($d.body, "häuser") } update $d set { body: "Baum" } }')
    assert found(german, "search($d.body, $t)", "häuser bäume") == ["a", "b", "f"]
    assert found(german, "search($d.body, $t)", "häuser") == []
    german.branches.merge("other", into="main")
    assert found(german, "search($d.body, $t)", "häuser") == ["e"]


@pytest.mark.parametrize(
    ("how", "tokenizer"),
    [
        ("@fulltext(german, stop_words=false)", Tokenizer(language="german", stop_words=False)),
        ("@fulltext(english, stem=false, ascii_folding=false)", Tokenizer(stem=False, ascii_folding=False)),
        ("@fulltext(ngram, min=2, max=4)", ngrams(2, 4)),
    ],
)
def test_scores_are_those_of_a_stored_index_with_the_same_tokenizer(
    tmp_path: Path, how: str, tokenizer: Tokenizer
) -> None:
    random = Random(7)
    bodies = {f"d{number}": random_text(random) if random.random() > 0.1 else None for number in range(200)}
    with og.init(tmp_path / "g", SCHEMA.format(how=how)) as graph:
        load(graph, **bodies)
        raw = lance.write_dataset(pa.table({"slug": list(bodies), "body": list(bodies.values())}), tmp_path / "raw")
        raw.create_scalar_index("body", "INVERTED", **lance_parameters(tokenizer))
        for _ in range(20):
            words = random_text(random, 4)
            query = lance.query.MatchQuery(words, "body")
            rows = raw.scanner(columns=["slug"], full_text_query=query, limit=1000).to_table().to_pydict()
            expected = dict(zip(rows["slug"], rows["_score"], strict=True))
            assert scores(graph, words) == pytest.approx(expected, rel=1e-5)
        graph.ensure_indices()
        said = stored_details(graph, tmp_path)
        assert {name: said[name] for name in lance_parameters(tokenizer)} == lance_parameters(tokenizer)


def test_n_grams_find_parts_of_words(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA.format(how="@fulltext(ngram, min=3, max=4)")) as graph:
        load(graph, a="Donaudampfschiff, Ätna", b="dampf", c="Pfad amp", d="", e=None, f="東京タワー 🎉🎉🎉")
        assert found(graph, "match_text($d.body, $t)", "DAMPF") == ["a", "b"]
        assert found(graph, "match_text($d.body, $t)", "schiff, a") == ["a"]
        assert found(graph, "match_text($d.body, $t)", "ätna") == ["a"]
        assert found(graph, "match_text($d.body, $t)", "pfad amp") == ["c"]
        assert found(graph, "match_text($d.body, $t)", "damppf") == []
        assert found(graph, "search($d.body, $t)", "pfadamp") == ["a", "b", "c"]
        assert found(graph, "match_text($d.body, $t)", "京タワ") == ["f"]
        assert found(graph, "match_text($d.body, $t)", "🎉🎉🎉") == ["f"]
        assert list(scores(graph, "dampf")) == ["b", "a", "c"]


def test_a_part_that_is_shorter_than_n_grams_is_still_a_part(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA.format(how="@fulltext(ngram)")) as graph:
        load(graph, a="abc", b="AB", c="b", d="", e=None)
        assert found(graph, "match_text($d.body, $t)", "b") == ["a", "b", "c"]
        assert found(graph, "match_text($d.body, $t)", "ab") == ["a", "b"]
        assert found(graph, "match_text($d.body, $t)", "") == []
        assert found(graph, "search($d.body, $t)", "ab") == []
        assert scores(graph, "ab") == {}
        graph.mutate('query q() { delete Doc where slug = "b" }')
        load(graph, c="B and more")
        assert found(graph, "match_text($d.body, $t)", "b") == ["a", "c"]


def test_a_part_is_every_n_gram_and_the_text_itself() -> None:
    random = Random(4)
    for tokenizer in (ngrams(2, 2), ngrams(1, 3), ngrams(3, 3, lower_case=False, ascii_folding=False)):
        texts = ["".join(random.choices("abAÉé ", k=random.randrange(12))) for _ in range(150)]
        search = TextSearch.of(pa.array(texts), tokenizer)
        for _ in range(60):
            part = "".join(random.choices("abAÉé ", k=random.randrange(1, 6)))
            hits = search.matching("match_text", part).positions.tolist()
            assert hits == [n for n, text in enumerate(texts) if plain(part, tokenizer) in plain(text, tokenizer)], part


def plain(text: str, tokenizer: Tokenizer) -> str:
    if tokenizer.lower_case:
        text = text.lower()
    return text.replace("é", "e").replace("É", "E") if tokenizer.ascii_folding else text


def test_a_changed_tokenizer_answers_at_once_and_old_states_keep_theirs(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA.format(how="")) as graph:
        load(graph, a="Die Häuser laufen", b="ein Haus läuft", c="the running houses")
        graph.ensure_indices()
        assert found(graph, "search($d.body, $t)", "haus") == ["b"]
        english = graph.commits.head().id
        graph.schema.apply(SCHEMA.format(how="@fulltext(german)"))
        built = graph.commits.head()
        assert built.actor == "omnigraph:system" and stored_details(graph, tmp_path)["language"] == "German"
        assert stored_details(graph, tmp_path, "slug")["language"] == "English"
        assert found(graph, "search($d.body, $t)", "haus") == ["a", "b"]
        assert found(graph, "search($d.body, $t)", "haus", at=english) == ["b"]
        graph.schema.apply(SCHEMA.format(how="@fulltext(ngram)"))
        assert found(graph, "match_text($d.body, $t)", "äuf") == ["a", "b"]
        assert found(graph, "search($d.body, $t)", "haus", at=built.id) == ["a", "b"]
        assert found(graph, "search($d.body, $t)", "haus", at=english) == ["b"]
        assert graph.ensure_indices().commit is None
        graph.schema.apply(SCHEMA.format(how=""))
        assert found(graph, "search($d.body, $t)", "haus") == ["b"]
        assert graph.stats().tables[-1].missing_indexes == ()


def test_an_index_of_another_tokenizer_is_reported_and_built_anew(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA.format(how="@fulltext(german)")) as graph:
        load(graph, a="Häuser")
        pin = graph.snapshot()._stored.pins["node:Doc"]
        handle = graph._store.table(pin)
        from omnigraph.storage.tables.table_indexes import build_segment, index_work, staged_segments

        work, _ = index_work(handle, "body", "INVERTED", ENGLISH)
        assert work is not None
        staged, _ = staged_segments(handle, 1, [build_segment(handle, work, pin.version)])
        assert staged is not None
        moved = lance.LanceDataset.commit(handle.uri, staged.operation, read_version=handle.version)
        assert index_work(moved, "body", "INVERTED", ENGLISH) == (None, None)
        anew, reason = index_work(moved, "body", "INVERTED", GERMAN)
        assert reason is None and anew is not None and len(anew.replaces) == 1 and anew.tokenizer == GERMAN


def test_stats_name_an_index_that_was_built_for_another_tokenizer() -> None:
    from omnigraph.schema.index_plan import index_plan
    from omnigraph.storage.tables.table_layout import IndexCoverage, TableLayout
    from omnigraph.upkeep.stats import _missing

    node = compile_schema("node Doc { body: String @index @fulltext(german) }").catalog.nodes["Doc"]
    details = {**lance_parameters(ENGLISH), "with_position": False}
    indexes = tuple(
        IndexCoverage(f"{column}_idx", column, kind, 1, 0, details)
        for column, kind in (("id", "BTREE"), ("body", "INVERTED"))
    )
    pin = type("Pin", (), {"row_count": 1, "table_key": "node:Doc"})
    missing = list(_missing(pin, index_plan(node), TableLayout(1, 0, 0, indexes, frozenset())))  # type: ignore[arg-type]
    assert missing == [PendingIndex("node:Doc", "body", "built for another @fulltext")]


def test_optimize_keeps_the_tokenizer_of_an_index(german: og.Graph, tmp_path: Path) -> None:
    german.ensure_indices()
    for number in range(4):
        load(german, **{f"x{number}": "Hausboot"})
    german.optimize()
    assert stored_details(german, tmp_path)["language"] == "German"
    assert found(german, "search($d.body, $t)", "haus") == ["a", "b"]


def test_an_interface_gives_its_tokenizer_to_its_nodes() -> None:
    text = "interface I { t: String @fulltext(german) } node A implements I {} node B implements I { t: String }"
    nodes = compile_schema(text).catalog.nodes
    assert nodes["A"].properties["t"].tokenizer == GERMAN
    assert nodes["B"].properties["t"].tokenizer == ENGLISH


def test_the_compiled_schema_holds_an_annotation_as_any_other() -> None:
    (node,) = compile_schema("node A { t: String @fulltext(german, stem=false) }").ir["nodes"]
    assert node["properties"][0]["annotations"] == [
        {"name": "fulltext", "value": "german", "keywords": {"stem": False}}
    ]
    (usual,) = compile_schema("node A { t: String @fulltext(german) }").ir["nodes"]
    assert usual["properties"][0]["annotations"] == [{"name": "fulltext", "value": "german"}]


@pytest.mark.parametrize("annotation", ["@fulltext(klingon)", "@fulltext(german, speed=3)", "@fulltext(ngram, min=99)"])
def test_a_schema_that_was_accepted_with_another_meaning_is_searched_as_usual(annotation: str) -> None:
    catalog = compile_accepted(f"node A {{ t: String {annotation} }} edge E: A -> A {{ n: I32 @fulltext }}").catalog
    assert catalog.nodes["A"].properties["t"].tokenizer == ENGLISH
