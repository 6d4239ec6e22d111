"""Search in graph queries against its definition: generated queries on a graph that changes and branches."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.search.text_index import TextIndex
from tests.engine.search.library import HEAD, QUESTIONS, Library, assert_same, composed_question, random_question

ROUNDS = 40


@pytest.mark.parametrize("seed", range(3))
def test_search_answers_as_the_naive_evaluator_while_the_graph_changes(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    library = Library(tmp_path / "g")
    library.grow(random, 30, 4, 12)
    past: list[tuple[str, Any]] = []
    rows = 0
    with library.graph as graph:
        for number in range(4):
            for _ in range(ROUNDS):
                text, params = random_question(random)
                rows += assert_same(graph, library.data(), text, params)
                if past:
                    commit, data = random.choice(past)
                    rows += assert_same(graph, data, text, params, at=commit)
            past.append((graph.commits.head().id, copy.deepcopy(library.data())))
            library.touch(random)
            if number == 1:
                graph.ensure_indices()
            if number == 2:
                library.grow(random, 10, 2, 3)
    assert rows > 100


def ask_while_everything_changes(place: Path, seed: int, rounds: int, questions: int) -> int:
    """Composed questions about the newest state and an older one, between changes of every kind; the rows seen."""
    random = Random(seed)
    library = Library(place)
    library.grow(random, 24, 4, 10)
    past: list[tuple[str, Any]] = []
    rows = 0
    with library.graph as graph:
        for number in range(rounds):
            for _ in range(questions):
                text, params = composed_question(random)
                rows += assert_same(graph, library.data(), text, params)
                if past:
                    commit, data = random.choice(past)
                    rows += assert_same(graph, data, text, params, at=commit)
            past.append((graph.commits.head().id, copy.deepcopy(library.data())))
            library.fork(random, f"b{number}") if number % 3 == 1 else library.touch(random)
            if number % 3 == 2:
                library.grow(random, 6, 2, 3)
            if number % 4 == 0:
                graph.optimize()
            if number % 4 == 2:
                graph.ensure_indices()
    return rows


def test_composed_questions_are_answered_as_by_the_naive_evaluator(tmp_path: Path) -> None:
    assert ask_while_everything_changes(tmp_path / "g", seed=20, rounds=4, questions=25) > 100


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(6))
def test_thousands_of_composed_questions(tmp_path: Path, seed: int) -> None:
    assert ask_while_everything_changes(tmp_path / "g", seed, rounds=12, questions=60) > 1000


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_rows_somewhere(tmp_path_factory: pytest.TempPathFactory, question: str) -> None:
    random = Random(5)
    library = _kept(tmp_path_factory, random)
    words = ["blue fox tree state dog owl run quick", "fox", "blue", "tree", "the dog"]
    assert any(
        assert_same(library.graph, library.data(), f"{HEAD}{{ {question} }}", {"t": t, "y": y, "v": [1.0, 0.5, 0.0]})
        for t in words
        for y in (2000, 2001)
    )


_KEPT: list[Library] = []


def _kept(tmp_path_factory: pytest.TempPathFactory, random: Random) -> Library:
    if not _KEPT:
        _KEPT.append(Library(tmp_path_factory.mktemp("kept") / "g"))
        _KEPT[0].grow(random, 30, 4, 12)
    return _KEPT[0]


def test_a_branch_has_its_own_statistics_and_so_has_what_it_came_from(tmp_path: Path) -> None:
    random = Random(11)
    library = Library(tmp_path / "g")
    library.grow(random, 30, 4, 12)
    with library.graph as graph:
        before = copy.deepcopy(library.data())
        graph.branches.create("other")
        library.touch(random, "other")
        library.grow(random, 10, 2, 3, "other")
        for _ in range(ROUNDS):
            text, params = random_question(random)
            assert_same(graph, library.data(), text, params, branch="other")
            assert_same(graph, before, text, params)
        graph.branches.merge("other", into="main")
        for _ in range(ROUNDS):
            assert_same(graph, library.data(), *random_question(random))


def test_an_index_that_followed_commits_equals_a_fresh_one(tmp_path: Path) -> None:
    random = Random(3)
    library = Library(tmp_path / "g")
    library.grow(random, 30, 2, 2)
    with library.graph as graph:
        for number in range(25):
            library.grow(random, 1, 0, 0) if number % 3 else library.touch(random)
            view = GraphView(graph._store, graph.snapshot()._stored, graph.catalog)
            rows, carried = view.nodes("Doc"), view.text_index("Doc", "body")
            fresh = TextIndex.of(rows.column("body"), rows.alive)
            assert carried.documents == fresh.documents
            for word in ("fox", "run", "blue", "owl"):
                one, other = carried.ranked({word: 1}), fresh.ranked({word: 1})
                assert one.positions.tolist() == other.positions.tolist()
                assert one.scores is not None and other.scores is not None
                assert one.scores.tolist() == other.scores.tolist()
        assert len(carried._layers) > 1
