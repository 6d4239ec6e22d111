"""What work on branches costs in looks at the store: nothing is opened or read twice, whatever else is there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.write.change import Mode
from tests.support.small_graphs import people, persons


class Looks:
    """Tables opened, scans made and small files read since the last `taken`.

    Copies of commits look too, in their own time and for graphs of other tests; they do not count.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: Counter[str] = Counter()
        self._count(monkeypatch, lance, "dataset", "opened")
        self._count(monkeypatch, lance.LanceScanner, "to_table", "scanned")
        self._count(monkeypatch, lance.LanceScanner, "to_batches", "scanned")
        self._count(monkeypatch, ObjectStore, "read", "files")

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            if threading.current_thread().name != "omnigraph-mirror":
                self._seen[what] += 1
            return original(*given, **named)

        monkeypatch.setattr(owner, name, counted)

    def taken(self, work: Callable[[], object]) -> Counter[str]:
        self._seen.clear()
        work()
        return self._seen.copy()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with people(tmp_path / "g", *(f"p{number}" for number in range(40))) as made:
        made.ensure_indices()
        yield made


def _way(graph: og.Graph, looks: Looks, name: str) -> dict[str, Counter[str]]:
    """Make a branch, change it and merge it; what each step looked at."""
    change = [persons("p1", f"new-{name}", mode=Mode.MERGE, age=[len(name), 1])]
    return {
        "create": looks.taken(lambda: graph.branches.create(name)),
        "write": looks.taken(lambda: graph.write(change, branch=name)),
        "merge": looks.taken(lambda: graph.branches.merge(name)),
    }


def test_the_way_over_a_branch_opens_what_it_forks_and_reads_what_it_merges(graph: og.Graph, looks: Looks) -> None:
    way = _way(graph, looks, "work")
    assert (way["create"]["opened"], way["create"]["scanned"]) == (1, 0), "the manifest is forked"
    assert way["write"]["opened"] == 1, "the table is forked"
    assert (way["merge"]["opened"], way["merge"]["scanned"]) == (0, 2), "changed rows of both sides, once"


def test_the_way_over_a_branch_costs_the_same_beside_many_branches(graph: og.Graph, looks: Looks) -> None:
    alone = _way(graph, looks, "a")
    del alone["merge"]["files"]  # those tell which rows of the table are gone, so they follow its changes
    for number in range(8):
        graph.branches.create(f"beside-{number}")
        graph.write([persons(f"p{number}", mode=Mode.MERGE, age=[number])], branch=f"beside-{number}")
    crowded = _way(graph, looks, "b")
    del crowded["merge"]["files"]
    assert crowded == alone


@pytest.mark.parametrize("states", [("base", "main"), ("main", "side"), ("side", "main")])
def test_a_small_difference_reads_each_side_once(graph: og.Graph, looks: Looks, states: tuple[str, str]) -> None:
    base = graph.commits.head().id
    graph.branches.create("side")
    graph.write([persons("p1", "p2", mode=Mode.MERGE, age=[1, 2])])
    graph.write([persons("p3", "p4", mode=Mode.MERGE, age=[3, 4])], branch="side")
    opened = og.open(graph.uri, mode="ro")
    from_, to = (base if each == "base" else each for each in states)
    looked = looks.taken(lambda: list(opened.diff(from_, to)))
    assert looked["opened"] == 3, "the other state of the graph, and the table in both"
    assert looked["scanned"] == 3, "the other state, and the changed rows of both sides"
