"""`Graph.search`: one order over all types, snippets, neighbours, states and errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.engine.search.snippets import snippet_of
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.tokenizer import ENGLISH, NGrams, Tokenizer
from tests.engine.search.library import random_text
from tests.oracle import texts

SCHEMA = """
node Note   { slug: String @key  title: String? @index  body: String? @index  stars: I32? @index }
node Person { name: String @key  bio: String? @index  secret: String? }
node Place  { number: I32 @key }
edge Wrote: Person -> Note
edge Knows: Person -> Person
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as made:
        made.load(
            {
                "Note": [
                    {"slug": "n1", "title": "Graph stores", "body": "The state of the art in graph stores"},
                    {"slug": "n2", "title": "Owls", "body": "graphs, graphs and more graphs"},
                    {"slug": "n3", "title": None, "body": "Running a café"},
                ],
                "Person": [{"name": "Ann", "bio": "draws graphs", "secret": "owls"}, {"name": "Bob", "bio": ""}],
                "Wrote": [{"from": "Ann", "to": "n1"}, {"from": "Bob", "to": "n2"}],
                "Knows": [{"from": "Bob", "to": "Ann"}],
            },
            "append",
        )
        yield made


def found(result: og.SearchResult) -> list[tuple[str, str]]:
    return [(hit.type, hit.id) for hit in result]


def test_nodes_of_all_types_are_found_in_one_order(graph: og.Graph) -> None:
    result = graph.search("graph")
    assert found(result) == [("Note", "n1"), ("Note", "n2"), ("Person", "Ann")]
    assert result.hits[0].score == pytest.approx(1 / 61 + 1 / 62)
    assert [match.property for match in result.hits[0].matches] == ["title", "body"]
    assert [hit.score for hit in result.hits[1:]] == [1 / 61, 1 / 61]
    assert (result.branch, result.commit_id) == ("main", graph.commits.head().id)
    assert found(graph.search("graph", "Person")) == [("Person", "Ann")]
    assert found(graph.search("graph", ["Note"], limit=1)) == [("Note", "n1")]


def test_keys_are_texts_with_an_index_and_properties_without_one_are_not(graph: og.Graph) -> None:
    assert found(graph.search("bob")) == [("Person", "Bob")]
    assert found(graph.search("owls")) == [("Note", "n2")]
    assert found(graph.search("the of")) == []


def test_a_snippet_marks_what_matched(graph: og.Graph) -> None:
    (hit,) = graph.search("CAFES run")
    (match,) = hit.matches
    assert [match.snippet[begin:end] for begin, end in match.marks] == ["Running", "café"]
    (shown,) = graph.search("café").to_dict()["hits"][0]["matches"]
    assert shown == {"property": "body", "bm25": shown["bm25"], "snippet": "Running a café", "marks": [[10, 14]]}


def test_neighbours_are_told_by_distance(graph: og.Graph) -> None:
    hit = graph.search("stores", hops=2).hits[0]
    assert [(near.hops, near.edge, near.type, near.id) for near in hit.neighbours] == [
        (1, "Wrote", "Person", "Ann"),
        (2, "Knows", "Person", "Bob"),
    ]
    assert [near.id for near in graph.search("stores", hops=3).hits[0].neighbours] == ["Ann", "Bob", "n2"]
    assert graph.search("stores").hits[0].neighbours == ()


def test_of_many_neighbours_the_first_are_told_and_all_are_counted(graph: og.Graph) -> None:
    rows = [{"slug": f"x{number:03}"} for number in range(50)]
    graph.load({"Note": rows, "Wrote": [{"from": "Ann", "to": row["slug"]} for row in rows]}, "append")
    hit = graph.search("draws", hops=1).hits[0]
    assert hit.neighbour_count == 52 and len(hit.neighbours) == limits.SEARCH_NEIGHBOURS
    assert [near.id for near in hit.neighbours][:3] == ["Bob", "n1", "x000"]


def test_branches_and_old_states_are_searched_as_they_are(graph: og.Graph) -> None:
    before = graph.commits.head().id
    graph.branches.create("other")
    graph.load({"Note": [{"slug": "n9", "body": "stores"}]}, "merge", branch="other")
    graph.mutate('query q() { delete Note where slug = "n1" }')
    assert found(graph.search("stores")) == []
    assert found(graph.search("stores", at=before)) == [("Note", "n1")]
    assert found(graph.search("stores", branch="other")) == [("Note", "n1"), ("Note", "n9")]


def test_bad_requests_are_one_sentence(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(TypeNotFound, match=r"there is no node type 'Nte' \(did you mean 'Note'\?\)"):
        graph.search("x", "Nte")
    with pytest.raises(InputError, match="type 'Place' has no text with an index"):
        graph.search("x", ["Place"])
    with pytest.raises(InputError, match="there are no words to search for"):
        graph.search("  ")
    with pytest.raises(InputError, match="hops is 6, which is more than 5"):
        graph.search("x", hops=6)
    with pytest.raises(InputError, match="limit is 1001, which is more than 1,000"):
        graph.search("x", limit=1001)
    with og.init(tmp_path / "h", "node Place { number: I32 @key }") as bare:  # noqa: SIM117
        with pytest.raises(InputError, match="no type has a text with an index"):
            bare.search("x")


def test_the_order_is_the_one_that_is_defined(tmp_path: Path) -> None:
    random = Random(3)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        notes = [{"slug": f"n{n:02}", "title": random_text(random, 3), "body": random_text(random)} for n in range(40)]
        people = [{"name": f"p{n:02}", "bio": random_text(random)} for n in range(20)]
        graph.load({"Note": notes, "Person": people}, "append")
        rows = {"Note": ("slug", notes), "Person": ("name", people)}
        for _ in range(40):
            words = random_text(random, 3) or "fox"
            if not words.strip():
                continue
            own = [(hit.type, hit.id, hit.score) for hit in graph.search(words, limit=100)]
            assert own == naive(rows, words)


def naive(rows: dict[str, tuple[str, list[dict[str, str]]]], words: str) -> list[tuple[str, str, Any]]:
    fused: dict[tuple[str, str], float] = {}
    best: dict[tuple[str, str], float] = {}
    for name, (key, every) in rows.items():
        for column in every[0]:
            scored = zip((row[key] for row in every), texts.bm25([row[column] for row in every], words), strict=True)
            ranked = sorted((-score, id_) for id_, score in scored if score is not None)
            for rank, (score, id_) in enumerate(ranked):
                fused[name, id_] = fused.get((name, id_), 0.0) + 1 / (61 + rank)
                best[name, id_] = max(best.get((name, id_), 0.0), -score)
    order = sorted(fused, key=lambda each: (-fused[each], -round(best[each], 9), each))
    return [(*each, pytest.approx(fused[each])) for each in order]


def test_a_snippet_is_the_part_with_most_of_the_words() -> None:
    text = "fox " + "filler " * 100 + "a quick fox and a quick dog " + "filler " * 100
    snippet = snippet_of(text, "quick fox dog", ENGLISH)
    assert [snippet.text[begin:end] for begin, end in snippet.marks] == ["quick", "fox", "quick", "dog"]
    assert snippet.text.startswith("…") and snippet.text.endswith("…") and len(snippet.text) < 170


def test_a_snippet_stays_on_its_line_and_of_a_long_text_only_the_beginning_is_looked_at() -> None:
    snippet = snippet_of("red\nfox\x1b[31m\tdog", "dog", ENGLISH)
    assert snippet.text == "red fox [31m dog" and snippet.marks == ((13, 16),)
    late = snippet_of("filler " * 20_000 + "fox", "fox", ENGLISH)
    assert late.marks == () and late.text.startswith("filler filler")


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("東京、大阪。東京タワー", "東京", ["東京"]),
        ("party🎉time", "times", ["party🎉time"]),
        ("cafe\u0301 noir", "café", ["cafe\u0301"]),
        ("שלום עולם", "עולם", ["עולם"]),
        ("नमस्ते दुनिया", "दुनिया", ["दुनिया"]),
    ],
)
def test_snippets_of_any_script(text: str, query: str, marked: list[str]) -> None:
    snippet = snippet_of(text, query, ENGLISH)
    assert [snippet.text[begin:end] for begin, end in snippet.marks] == marked


def test_a_snippet_of_n_grams_marks_parts_of_words() -> None:
    ngrams = Tokenizer(stem=False, stop_words=False, ngrams=NGrams(3, 4))
    snippet = snippet_of("Donaudampfschiff und Straße", "DAMPF raße", ngrams)
    assert [snippet.text[begin:end] for begin, end in snippet.marks] == ["dampf", "raße"]
