"""The copies of the history for other readers hold each commit once, however many processes copy at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.metadata.commit_log import COMMITS_PATH
from omnigraph.storage.metadata.commit_mirror import Mirror, _News
from tests.support.crash_checks import assert_mirrored
from tests.support.small_graphs import people, persons


def news_of(graph: og.Graph, handle: str, branch: str = "main") -> _News:
    """A commit as the copying thread hears of it."""
    commit = graph.write([persons(handle)], branch=branch).commit
    assert commit is not None
    return _News(graph.snapshot(branch)._stored, commit)


def copier(graph: og.Graph) -> Mirror:
    """What another process would copy with."""
    return Mirror(graph._store.tables, graph._store.sections, graph._store._is_current)


def test_a_process_that_finds_newer_commits_copied_does_not_copy_them_again(tmp_path: Path) -> None:
    graph = people(tmp_path / "graph", "ana", actor="act-anna")
    news = [news_of(graph, name) for name in ("bo", "cy")]
    graph._store.mirror.flush()
    late = copier(graph)
    for item in news:
        late._copy("main", [item])
    assert_mirrored(graph, "main")


@pytest.mark.parametrize("branch", ["main", "review/a"])
def test_several_that_copy_the_same_history_leave_each_commit_once(branch: str, tmp_path: Path) -> None:
    graph = people(tmp_path / "graph", "ana", actor="act-anna")
    if branch != "main":
        graph.branches.create(branch)
    news = [news_of(graph, f"p{number}", branch) for number in range(8)]

    def copy(first: int) -> None:
        mirror = copier(graph)
        for item in news[first:]:
            mirror._copy(branch, [item])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(copy, range(4)))
    graph._store.mirror.flush()
    assert_mirrored(graph, branch)


def test_a_branch_that_was_made_again_gets_a_copy_of_its_own(tmp_path: Path) -> None:
    graph = people(tmp_path / "graph", "ana")
    graph.branches.create("review/a")
    copies = copier(graph)
    for name in ("bo", "cy"):
        copies._copy("review/a", [news_of(graph, name, "review/a")])
    graph.branches.delete("review/a")
    graph.branches.create("review/a")
    for name in ("di", "el"):
        copies._copy("review/a", [news_of(graph, name, "review/a")])
    graph._store.mirror.flush()
    assert_mirrored(graph, "review/a")


def test_commits_of_several_branches_in_turn_leave_each_commit_and_each_actor_once(tmp_path: Path) -> None:
    graph = people(tmp_path / "graph", "ana", actor="act-anna")
    graph.branches.create("side")
    copies = copier(graph)
    for number in range(6):
        branch = ("main", "side")[number % 2]
        copies._copy(branch, [news_of(graph, f"p{number}", branch)])
    graph._store.mirror.flush()
    assert_mirrored(graph, "main")
    assert_mirrored(graph, "side")


def test_a_copy_that_comes_after_its_branch_went_or_was_made_anew_is_none(tmp_path: Path) -> None:
    graph = people(tmp_path / "graph", "ana", actor="act-anna")
    graph.branches.create("review/a")
    old = news_of(graph, "bo", "review/a")
    graph.branches.delete("review/a")
    late = copier(graph)
    late._copy("review/a", [old])
    assert "review/a" not in graph._store.tables.branch_names(COMMITS_PATH)
    graph.branches.create("review/a")
    new = news_of(graph, "cy", "review/a")
    late._copy("review/a", [old, new])
    graph._store.mirror.flush()
    assert_mirrored(graph, "review/a")
