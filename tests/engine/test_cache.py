"""What queries keep is counted once, whoever holds it, and stays within its budget."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.version_cache import VersionCache
from omnigraph.write.change import Change, Mode


class Thing:
    """An entry that holds some arrays."""

    def __init__(self, *arrays: np.ndarray[tuple[int], np.dtype[np.int8]], is_derived: bool = False) -> None:
        self.arrays = list(arrays)
        self.is_derived = is_derived

    def parts(self) -> Iterator[tuple[object, int]]:
        return ((array, array.nbytes) for array in self.arrays)


def array(size: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.zeros(size, np.int8)


def test_an_array_of_two_entries_counts_once() -> None:
    cache, shared = VersionCache(10_000), array(1_000)
    cache.get("a", 1, lambda _: Thing(shared))
    cache.get("b", 1, lambda _: Thing(shared, array(10)))
    assert cache.nbytes == 1_010
    cache.clear()
    assert cache.nbytes == 0


def test_what_an_entry_grows_by_and_lets_go_of_is_noticed() -> None:
    cache = VersionCache(10_000)
    thing = cache.get("a", 1, lambda _: Thing(array(100), array(50)))
    thing.arrays = [thing.arrays[1], array(7)]
    assert cache.get("a", 1, lambda _: Thing()) is thing
    cache.trim()
    assert cache.nbytes == 57


def test_the_entry_that_was_not_used_for_longest_goes_first() -> None:
    cache, made = VersionCache(250), list[str]()

    def make(name: str, _: object) -> Thing:
        made.append(name)
        return Thing(array(100))

    for name in ("a", "b", "a", "c", "a", "b"):
        cache.get(name, 1, partial(make, name))
    assert made == ["a", "b", "c", "b"]
    assert cache.nbytes == 200


def test_a_shared_array_is_freed_with_its_last_holder() -> None:
    cache, shared = VersionCache(1_500), array(1_000)
    cache.get("a", 1, lambda _: Thing(shared))
    cache.get("a", 2, lambda _: Thing(shared))
    cache.get("b", 1, lambda _: Thing(array(400)))
    assert cache.nbytes == 1_400, "both versions fit, because they share"
    cache.get("c", 1, lambda _: Thing(array(400)))
    assert cache.nbytes == 800


def test_entries_that_share_nearly_everything_are_measured_now_and_then() -> None:
    cache = VersionCache(10_000)
    for version in range(20):
        cache.get("a", version, lambda _: Thing(array(100), is_derived=True))
    assert 1_200 <= cache.nbytes <= 2_000


def test_a_failed_entry_leaves_nothing_behind() -> None:
    cache = VersionCache(1_000)

    def fail(_: object) -> Thing:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("a", 1, fail)
    assert cache.get("a", 1, lambda _: Thing(array(5))).arrays[0].nbytes == 5
    assert not cache._building


def test_versions_of_a_table_do_not_pile_up_beyond_the_budget(tmp_path: Path) -> None:
    """Every commit changes a column that every query reads as a whole, so each version needs a copy of its own."""
    size = 4_000
    with og.init(tmp_path / "g", "node P { k: String @key  n: I64?  t: String? }") as graph:
        keys = [f"p{i}" for i in range(size)]
        graph.write([Change("node:P", pa.table({"k": keys, "n": pa.array(range(size), pa.int64()), "t": keys}))])
        cache = VersionCache(1_000_000)
        for step in range(30):
            graph.write([Change("node:P", pa.table({"k": ["p7"], "n": pa.array([step], pa.int64())}), Mode.MERGE)])
            rows = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache).nodes("P")
            assert rows.column("n").take(pa.array(rows.find(["p7"]))).to_pylist() == [step]
            rows.column("t")
        cache.trim()
        assert cache.nbytes <= 1_000_000
        held = {id(part): size for part, size in rows.parts()}
        assert sum(held.values()) <= 700_000, "an older version's columns are let go of once they were carried"


def test_old_versions_of_a_lineage_go_however_small_they_are() -> None:
    cache, made = VersionCache(10_000, max_versions=3), list[int]()

    def make(version: int, _: object) -> Thing:
        made.append(version)
        return Thing(array(1))

    for version in (1, 2, 3, 1, 4, 1, 3, 2):
        cache.get("a", version, partial(make, version))
    cache.get("b", 1, partial(make, 1))
    assert made == [1, 2, 3, 4, 2, 1], "the one that was not used for longest went each time"
    cache.trim()
    assert cache.nbytes == 4
