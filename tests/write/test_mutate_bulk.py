"""A mutation of many rows works on columns: its Python does not grow with the rows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.write.change import Change, Mode

ROWS = 50_000
SCHEMA = "node P { k: String @key  n: I32?  city: String?  tags: [String]?  v: Vector(4)? } edge E: P -> P"
UPDATE = 'query q() { update P set { city: "Rome", tags: ["x", "y"] } where n >= 0 }'


def people() -> pa.Table:
    return pa.table(
        {
            "k": [f"k{n}" for n in range(ROWS)],
            "n": pa.array(range(ROWS), pa.int32()),
            "city": ["Oslo"] * ROWS,
            "tags": [["a", "b"]] * ROWS,
            "v": pa.array([[n, n, n, n] for n in range(ROWS)], pa.list_(pa.float32(), 4)),
        }
    )


@pytest.fixture
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("bulk") / "g", SCHEMA) as graph:
        ends = [f"k{n}" for n in range(ROWS)]
        graph.write([Change("node:P", people()), Change("edge:E", pa.table({"src": ends, "dst": ends[::-1]}))])
        yield graph


def calls(action: Callable[[], Any]) -> int:
    """How many Python functions an action calls in this thread."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def best_of(times: int, action: Callable[[], Any]) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return min(found)


def test_a_bulk_update_is_vectorised(graph: og.Graph) -> None:
    rows = people()
    plain = best_of(2, lambda: graph.write([Change("node:P", rows, Mode.MERGE)]))
    updated = best_of(2, lambda: graph.mutate(UPDATE))
    assert updated < 6 * plain, f"update {updated:.3f} s, plain write of the same rows {plain:.3f} s"
    assert calls(lambda: graph.mutate(UPDATE)) < ROWS / 5
    table = graph.snapshot().arrow("P").sort_by("n")
    assert table.column("city").unique().to_pylist() == ["Rome"]
    assert table.column("tags").slice(ROWS - 2).to_pylist() == [["x", "y"]] * 2
    assert table.column("k").to_pylist() == rows.column("k").to_pylist()
    assert table.column("v").combine_chunks().flatten().to_pylist()[::4] == list(map(float, range(ROWS)))


def test_a_bulk_delete_with_its_cascade_is_vectorised(graph: og.Graph) -> None:
    results = []
    made = calls(
        lambda: results.append(graph.mutate("query q($n: I32) { delete P where n < $n }", params={"n": ROWS // 2}))
    )
    assert made < ROWS / 5
    assert (results[0].affected_nodes, results[0].affected_edges) == (ROWS // 2, ROWS)
    assert (graph.snapshot().count("P"), graph.snapshot().count("E")) == (ROWS // 2, 0)
    assert min(graph.snapshot().arrow("P", ["n"]).column("n").to_pylist()) == ROWS // 2


def test_many_updates_in_one_query_touch_each_stored_row_once(graph: og.Graph) -> None:
    """Later statements work on what earlier ones read; the final image of a row is written once."""
    text = " ".join(f'update P set {{ city: "c{n}" }} where n < {100 * n}' for n in range(20, 0, -1))
    result = graph.mutate(f"query q() {{ {text} }}")
    assert result.affected_nodes == sum(100 * n for n in range(1, 21))
    found = graph.snapshot().arrow("P", ["n", "city"]).sort_by("n").column("city").to_pylist()
    assert found[:2000] == [f"c{n // 100 + 1}" for n in range(2000)]
    assert set(found[2000:]) == {"Oslo"}
