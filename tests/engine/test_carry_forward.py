"""What is carried from version to version equals what is read anew, whatever the commits did."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.query_runner import plan_query, run_plan
from omnigraph.engine.table_rows import TableRows
from omnigraph.engine.version_cache import VersionCache
from omnigraph.query import check_read, parse_queries
from omnigraph.write.change import Change, Mode

SCHEMA = """
node P { k: String @key  n: I32?  tags: [String]? }
node Q { k: String @key }
edge E: P -> P { w: I32? }
edge F: P -> Q
"""

QUERIES = (
    "query q() { match { $a: P } return { $a, $a.n, $a.tags } order { $a.n } }",
    "query q() { match { $a: P  $a e $b } return { $a, $b } order { $a.n } }",
    "query q() { match { $a: P  $a $w:e $b } return { $a, $b, $w.w } order { $w.w } }",
    "query q() { match { $a: P  $a e $b  $b f $q } return { $q, count($a) as c } order { c } }",
    "query q() { match { $a: P  $a e{1,3} $b } return { $a, $b } order { $a.n } }",
    "query q() { match { $a: P  $a e $b  $b e $c } return distinct { $c } }",
    "query q() { match { $a: P  not { $a e $_ } } return { $a } order { $a.n } }",
    'query q() { match { $a: P { k: "p3" }  $b e $a } return { $b } order { $b.n } }',
)


def _answers(graph: og.Graph, cache: VersionCache) -> list[list[str]]:
    view = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache)
    found = []
    for text in QUERIES:
        query = check_read(parse_queries(text).find(None), graph.catalog)
        table = run_plan(view, plan_query(view, view.catalog, query), {})
        found.append(sorted(str(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)))
    return found


def _random_change(rng: random.Random, nodes: set[str], edges: dict[str, tuple[str, str]]) -> list[Change]:
    kinds = ["insert", "upsert", "edges", "edges", "move", "reweigh", "delete_edges", "delete_edges", "delete_node"]
    kind = rng.choice([*kinds, "parallel"] if rng.random() < 0.3 else kinds)
    if kind == "reweigh" and edges:
        return [_reweighed(rng, edges)]
    if kind in ("insert", "upsert"):
        keys = [f"p{rng.randrange(40)}" for _ in range(rng.randrange(1, 5))]
        keys = list(dict.fromkeys(keys))
        nodes.update(keys)
        rows = {"k": keys, "n": [rng.choice([None, rng.randrange(9)]) for _ in keys], "tags": [["a"]] * len(keys)}
        table = pa.table(
            rows, schema=pa.schema([("k", pa.string()), ("n", pa.int32()), ("tags", pa.list_(pa.string()))])
        )
        return [Change("node:P", table, Mode.MERGE)]
    if kind in ("edges", "parallel", "move") and len(nodes) > 1:
        some = sorted(nodes)
        count = rng.randrange(1, 4)
        src, dst = rng.choices(some, k=count), rng.choices(some, k=count)
        if kind == "parallel":
            src, dst = [src[0]] * count, [dst[0]] * count
        ids = [f"e{rng.randrange(30)}" if kind == "move" else f"e{rng.randrange(10**9)}" for _ in range(count)]
        keep = {id_: row for row, id_ in enumerate(ids)}.values()
        edges.update(zip(ids, zip(src, dst, strict=True), strict=True))
        table = pa.table({"id": ids, "src": src, "dst": dst, "w": pa.array([1] * count, pa.int32())}).take(list(keep))
        out = Change("edge:F", pa.table({"src": src[:1], "dst": ["q1"]}))
        return [Change("edge:E", table, Mode.MERGE), out]
    if kind == "delete_edges" and edges:
        gone = rng.sample(sorted(edges), min(len(edges), 3))
        for id_ in gone:
            del edges[id_]
        return [Change("edge:E", remove=pa.array(gone))]
    return []


def _reweighed(rng: random.Random, edges: dict[str, tuple[str, str]]) -> Change:
    """The same edges between the same nodes, with another weight."""
    some = rng.sample(sorted(edges), min(len(edges), 3))
    ends = [edges[id_] for id_ in some]
    weights = pa.array([rng.randrange(9) for _ in some], pa.int32())
    rows = {"id": some, "src": [source for source, _ in ends], "dst": [target for _, target in ends], "w": weights}
    return Change("edge:E", pa.table(rows), Mode.MERGE)


def _delete_node(
    graph: og.Graph, nodes: set[str], edges: dict[str, tuple[str, str]], rng: random.Random
) -> list[Change]:
    gone = rng.choice(sorted(nodes))
    nodes.discard(gone)
    for id_ in [id_ for id_, ends in edges.items() if gone in ends]:
        del edges[id_]
    changes = [Change("node:P", remove=pa.array([gone]))]
    for edge, ends in (("E", ("src", "dst")), ("F", ("src",))):
        rows = graph.snapshot().arrow(edge).to_pylist()
        ids = [row["id"] for row in rows if gone in [row[end] for end in ends]]
        if ids:
            changes.append(Change(f"edge:{edge}", remove=pa.array(ids)))
    return changes


def _small(graph: og.Graph) -> tuple[set[str], dict[str, tuple[str, str]]]:
    graph.write(
        [Change("node:Q", pa.table({"k": ["q1", "q2"]})), Change("node:P", pa.table({"k": ["p1", "p2", "p3"]}))]
    )
    return {"p1", "p2", "p3"}, {}


@pytest.mark.parametrize("reader", ["the writer", "another handle"])
@pytest.mark.parametrize("seed", range(5))
def test_carried_state_answers_as_fresh_state(tmp_path: Path, seed: int, reader: str) -> None:
    """A handle that did not write compares versions; the writer's own knows what its commits did."""
    rng = random.Random(seed)
    with og.init(tmp_path / "g", SCHEMA) as graph, og.open(tmp_path / "g", mode="ro") as other:
        nodes, edges = _small(graph)
        asked = graph if reader == "the writer" else other
        carried = VersionCache(10**9)
        for step in range(25):
            change = _random_change(rng, nodes, edges)
            if not change and len(nodes) > 3:
                change = _delete_node(graph, nodes, edges, rng)
            if change:
                graph.write(change, base=graph.snapshot())
            if rng.random() < 0.7:
                assert _answers(asked, carried) == _answers(asked, VersionCache(10**9)), f"seed {seed}, step {step}"


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 160))
def test_long_histories_are_carried_as_they_are_read(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with og.init(tmp_path / "g", SCHEMA) as graph, og.open(tmp_path / "g", mode="ro") as other:
        nodes, edges = _small(graph)
        caches = {graph: VersionCache(10**9), other: VersionCache(20_000)}
        for step in range(120):
            change = _random_change(rng, nodes, edges)
            if not change and len(nodes) > 3:
                change = _delete_node(graph, nodes, edges, rng)
            if change:
                graph.write(change, base=graph.snapshot())
            if rng.random() < 0.4:
                fresh = _answers(graph, VersionCache(10**9))
                for asked, cache in caches.items():
                    assert _answers(asked, cache) == fresh, f"seed {seed}, step {step}"


def test_a_long_chain_of_commits_stays_short_in_memory(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:P", pa.table({"k": ["a"], "n": pa.array([0], pa.int32())}))])
    cache = VersionCache(10**9)
    rows = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache).nodes("P")
    first = rows
    rows.column("n")
    for step in range(40):
        change = pa.table({"k": [f"k{step}"], "n": pa.array([step], pa.int32())})
        graph.write([Change("node:P", change)])
        rows = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache).nodes("P")
    assert rows.space is first.space, "the positions of the first version still hold"
    assert rows.column("n").to_pylist() == [0, *range(40)]
    assert len(rows.history) <= 32
    graph.close()


def test_rows_keep_their_position_and_are_not_read_again(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:P", pa.table({"k": [f"p{i}" for i in range(50)]}))])
    first = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache := VersionCache(10**9)).nodes("P")
    first.column("n")
    graph.write([Change("node:P", pa.table({"k": ["p7", "new"], "n": pa.array([3, 4], pa.int32())}), Mode.MERGE)])
    second = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache).nodes("P")
    assert second.deltas_since(first.mark) is not None
    assert second.space is first.space
    assert second.find(["p7"]).tolist() == first.find(["p7"]).tolist()
    assert second.find(["new"]).tolist() == [50]
    assert first.find(["new"]).tolist() == []
    assert second.column("n")[7].as_py() == 3
    assert first.column("n")[7].as_py() is None
    graph.close()


def test_the_first_look_ups_in_a_large_table_ask_the_storage(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { k: String @key  n: I32?  odd: [U32]? }")
    keys = [f"p{i}" for i in range(60_000)]
    graph.write([Change("node:P", pa.table({"k": keys, "n": pa.array(range(60_000), pa.int32())}))])
    text = "query q($k: String) { match { $p: P { k: $k } } return { $p.n as n } }"
    view = GraphView(graph._store, graph.snapshot()._stored, graph.catalog, VersionCache(10**9))
    query = check_read(parse_queries(text).find(None), graph.catalog)
    for _ in range(3):  # the first two look-ups ask the storage, the others the ids in memory
        for key, expected in (("p59999", [59_999]), ("p0", [0]), ("nobody", []), ("p7' OR '1'='1", [])):
            assert run_plan(view, plan_query(view, view.catalog, query), {"k": key}).column(0).to_pylist() == expected
    assert view.nodes("P")._positions is not None
    graph.close()


def test_an_older_snapshot_still_finds_a_row_that_was_removed_and_inserted_again(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:P", pa.table({"k": ["a", "b", "c"]}))])
    cache = VersionCache(10**9)

    def rows() -> TableRows:
        return GraphView(graph._store, graph.snapshot()._stored, graph.catalog, cache).nodes("P")

    before = rows()
    assert before.find(["b"]).tolist() == [1]
    graph.write([Change("node:P", remove=pa.array(["b"]))])
    without = rows()
    assert without.find(["b"]).tolist() == []
    graph.write([Change("node:P", pa.table({"k": ["b"]}))])
    after = rows()
    assert after.find(["b"]).tolist() == [3]
    assert np.array_equal(after.locate(pa.array(["a", "b", "x"])), [0, 3, -1])
    assert before.find(["b"]).tolist() == [1]
    assert without.find(["b"]).tolist() == []
    graph.close()


def test_a_topology_file_gives_a_fresh_process_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.limits.PERSISTED_EDGES", 1)
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write(
        [Change("node:P", pa.table({"k": [f"p{i}" for i in range(20)]})), Change("node:Q", pa.table({"k": ["q1"]}))]
    )
    pairs = {"src": [f"p{i}" for i in range(19)], "dst": [f"p{i + 1}" for i in range(19)]}
    graph.write([Change("edge:E", pa.table(pairs)), Change("edge:F", pa.table({"src": ["p1"], "dst": ["q1"]}))])
    graph.ensure_indices()
    assert sorted(path.name for path in (tmp_path / "g/__topology").iterdir())
    expected = _answers(graph, VersionCache(10**9))
    for change in (
        [Change("edge:E", pa.table({"src": ["p5"], "dst": ["p1"]}))],
        [Change("node:P", pa.table({"k": ["p99"]}))],
        [Change("edge:E", pa.table({"src": ["p99"], "dst": ["p1"]}))],
    ):
        graph.write(change)
        fresh = _answers(graph, VersionCache(10**9))
        monkeypatch.setattr("omnigraph.engine.topology_files.find", lambda *_: None)
        assert _answers(graph, VersionCache(10**9)) == fresh
        monkeypatch.undo()
        monkeypatch.setattr("omnigraph.limits.PERSISTED_EDGES", 1)
    assert fresh != expected
    damaged = next((tmp_path / "g/__topology").rglob("*.arrays"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert _answers(graph, VersionCache(10**9)) == fresh
    graph.close()
