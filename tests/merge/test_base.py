"""The common ancestor of two heads: distances over both parents, ties, criss-cross, history that is gone."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from omnigraph import limits
from omnigraph.history.merge.merge_source import MergeBase, capture, find_base
from omnigraph.storage.metadata.common_ancestors import distances, merge_base
from omnigraph.storage.metadata.manifest import Commit
from tests.support import small_graphs

Known = dict[str, Commit]


def history(text: str) -> Known:
    """Commits from lines ``id@version: parent merged_parent``; parents may be missing."""
    known: Known = {}
    for line in text.split(";"):
        name, _, parents = line.strip().partition(":")
        id_, _, version = name.partition("@")
        first, second = [*parents.split(), None, None][:2]
        known[id_] = Commit(id_, "main", int(version or 1), first, second, None, datetime.now(UTC))
    return known


def base_of(known: Known, one: str, other: str) -> str | None:
    found = merge_base(one, other, known)
    return found.id if found else None


@pytest.mark.parametrize(
    ("text", "one", "other", "base"),
    [
        pytest.param("r; a: r; b: r", "a", "b", "r", id="a fork"),
        pytest.param("r; a: r; b: a", "a", "b", "a", id="an ancestor"),
        pytest.param("r; a: r", "a", "a", "a", id="the same commit"),
        pytest.param("r; s", "r", "s", None, id="no common history"),
        pytest.param("r; a: r; m: r a; b: a", "b", "m", "a", id="over the merged parent"),
        pytest.param("r; a@5: r; b@6: r; c: a b; d: b a", "c", "d", "b", id="criss-cross takes the greater version"),
        pytest.param("r; a@5: r; b@5: r; c: a b; d: b a", "c", "d", "b", id="criss-cross takes the greater id"),
        pytest.param("a: gone; b: gone", "a", "b", None, id="the ancestor is not known any more"),
        pytest.param("r; a: r; m: r lost; b: r", "m", "b", "r", id="a merged parent that is gone is passed over"),
        pytest.param("r; f: r; x: f; y: x; w: y; z: r; m: z w; b: f", "b", "m", "f", id="newest, though r is nearer"),
    ],
)
def test_the_base_is_the_nearest_common_ancestor(text: str, one: str, other: str, base: str | None) -> None:
    known = history(text)
    assert base_of(known, one, other) == base
    assert base_of(known, other, one) == base


def test_the_base_does_not_depend_on_the_order_in_which_commits_are_known() -> None:
    rng = random.Random(3)
    for _ in range(200):
        names = [f"c{number:02d}" for number in range(12)]
        parts = [names[0]]
        for number, name in enumerate(names[1:], start=1):
            parents = rng.sample(names[:number], min(number, rng.randint(1, 2)))
            parts.append(f"{name}@{rng.randint(1, 4)}: {' '.join(parents)}")
        known = history("; ".join(parts))
        shuffled = dict(sorted(known.items(), key=lambda _: rng.random()))
        one, other = rng.sample(names, 2)
        found = base_of(known, one, other)
        assert found == base_of(shuffled, other, one)
        assert found == by_trying_everything(known, one, other)


def by_trying_everything(known: Known, one: str, other: str) -> str:
    """Shortest paths by relaxation until nothing gets shorter."""

    def steps(head: str) -> dict[str, int]:
        found = {head: 0}
        for _ in known:
            for id_, far in list(found.items()):
                for parent in filter(None, (known[id_].parent, known[id_].merged_parent)):
                    found[parent] = min(found.get(parent, 10**6), far + 1)
        return found

    a, b = steps(one), steps(other)
    common = a.keys() & b.keys()
    newest = [id_ for id_ in common if not any(id_ in steps(later) for later in common if later != id_)]
    return max(newest, key=lambda id_: (-(a[id_] + b[id_]), known[id_].version, id_))


def test_a_long_history_is_walked_without_recursion() -> None:
    known = history("; ".join(["c0", *(f"c{number}: c{number - 1}" for number in range(1, 5_000))]))
    assert distances("c4999", known)["c0"] == 4_999


def test_the_short_way_to_a_base_finds_what_the_long_way_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = small_graphs.people(tmp_path / "g", "a")
    for name, from_, commits in (("ahead", "main", 1), ("on", "ahead", 2), ("apart", "main", 2), ("same", "main", 0)):
        graph.branches.create(name, from_)
        for number in range(commits):
            graph.write([small_graphs.persons(f"{name}-{number}")], branch=name)
    graph.write([small_graphs.persons("later")], branch="apart")
    graph.branches.merge("apart", "on")
    store = graph._store

    def bases() -> dict[tuple[str, str], MergeBase]:
        pairs = itertools.permutations(graph.branches.list(), 2)
        return {(one, other): find_base(store, capture(store, one), store.snapshot(other)) for one, other in pairs}

    short = bases()
    assert short["on", "ahead"].missing and short["ahead", "main"].is_target
    for walk in (1, 0):
        monkeypatch.setattr(limits, "MERGE_WALK_COMMITS", walk)
        assert bases() == short
