"""Exact nearest neighbours: lower bounds on few coordinates select no wrong row, and commits are followed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.search import vector_bounds, vector_index
from omnigraph.engine.search.vector_bounds import Clusters, Sketch, best_bounds, squared_distances
from omnigraph.engine.search.vector_index import VectorIndex


def _column(vectors: npt.NDArray[np.float32], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    mask = None if missing is None else pa.array(missing)
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1], mask=mask)


def _vectors(kind: str, count: int, size: int) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(count)
    if kind == "clustered":
        middles = random.normal(size=(40, size))
        return (middles[random.integers(0, 40, count)] + 0.6 * random.normal(size=(count, size))).astype(np.float32)
    if kind == "tied":
        return random.integers(0, 2, (count, size)).astype(np.float32)
    return (random.normal(size=(count, size)) * (1e25 if kind == "huge" else 1)).astype(np.float32)


@pytest.mark.parametrize("bounds", [None, Sketch, Clusters])
@pytest.mark.parametrize("kind", ["clustered", "even", "tied", "huge"])
def test_the_nearest_rows_are_exactly_the_nearest(
    kind: str, bounds: type | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_bounds, "_LARGE", 0 if bounds else 10**9)
    monkeypatch.setattr(vector_bounds, "_is_worth_it", lambda found, *_: isinstance(found, bounds or ()))
    monkeypatch.setattr(vector_index, "_FEW_ROWS", 20)
    count, size = 2_000, 48
    random = np.random.default_rng(7)
    vectors, missing, alive = _vectors(kind, count, size), random.random(count) < 0.05, random.random(count) > 0.1
    index = VectorIndex.of(_column(vectors, missing), alive)
    assert type(index._base.bounds) is (bounds if bounds and kind != "huge" else type(None))
    for _ in range(10):
        query = (vectors[random.integers(count)] * np.float32(1.01)).astype(np.float32)
        exact = np.sqrt(((vectors.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1))
        exact[missing | ~alive] = np.inf
        for among in (None, np.flatnonzero(random.random(count) < 0.1), np.flatnonzero(random.random(count) < 0.6)):
            own = exact if among is None else np.where(np.isin(np.arange(count), among), exact, np.inf)
            positions, far = index.nearest(query, 10, among)
            assert np.allclose(own[positions], far, rtol=1e-12)
            assert np.isin(np.flatnonzero(own <= np.sort(own)[9]), positions).all()
        every = index.distances(query, np.arange(-1, count))
        assert np.isnan(every[0]) and np.isnan(every[1:][~np.isfinite(exact)]).all()
        assert np.allclose(every[1:][np.isfinite(exact)], exact[np.isfinite(exact)], rtol=1e-12)


def test_bounds_of_clustered_vectors_leave_few_of_them_to_measure() -> None:
    vectors = _vectors("clustered", 40_000, 128)
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    bounds = best_bounds(vectors, squares)
    assert bounds is not None
    for number in range(0, 40_000, 4_000):
        exact = squared_distances(vectors, vectors[number])
        low = bounds.look(vectors[number], float(squares[number]), None).low
        assert (low <= exact + 1e-3).all()
        assert (low <= np.sort(exact)[10]).mean() < 0.1


def test_bounds_that_leave_too_many_vectors_are_not_kept() -> None:
    vectors = _vectors("even", 40_000, 128)
    assert best_bounds(vectors, np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) is None


def test_an_index_of_vectors_follows_commits(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    schema = "node P { k: String @key  v: Vector(4)? }"
    text = "query q($v: Vector(4)) { match { $p: P } return { $p.k as k, nearest($p.v, $v) as d } order { d } limit 5 }"
    rows: dict[str, list[float] | None] = {}
    with og.init(tmp_path / "g", schema) as graph:
        for number in range(12):
            new = {f"p{random.integers(40)}": random.integers(0, 3, 4).astype(float).tolist() for _ in range(5)}
            rows.update({key: None if number % 4 == 3 else vector for key, vector in new.items()})
            graph.load({"P": [{"k": key, "v": rows[key]} for key in new]}, "merge")
            gone = sorted(rows)[int(random.integers(len(rows)))]
            graph.mutate(f'query q() {{ delete P where k = "{gone}" }}')
            del rows[gone]
            query = random.integers(0, 3, 4).astype(float).tolist()
            far = {k: float(np.sqrt(((np.array(v) - query) ** 2).sum())) for k, v in rows.items() if v is not None}
            best = sorted(far.items(), key=lambda pair: (pair[1], pair[0]))[:5]
            assert [(row["k"], row["d"]) for row in graph.query(text, {"v": query}).rows()] == best
        view = GraphView(graph._store, graph.snapshot()._stored, graph.catalog)
        assert view.vector_index("P", "v")._tail is not None


def test_a_ranking_behind_a_filter_fills_its_limit(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node P { k: String @key  n: I32  v: Vector(2) }") as graph:
        graph.load({"P": [{"k": f"p{n:03}", "n": n % 50, "v": [float(n), 0.0]} for n in range(200)]}, "append")
        text = (
            "query q() { match { $p: P { n: 49 } } return { $p.k as k } order { nearest($p.v, [0.0, 0.0]) } limit 3 }"
        )
        assert graph.query(text).column("k").to_pylist() == ["p049", "p099", "p149"]
        assert "rows compete" in str(graph.explain(text, run=True)) or "rows measured" in str(
            graph.explain(text, run=True)
        )


def test_the_nearest_of_many_vectors_are_all_found_also_behind_a_filter_and_after_changes(tmp_path: Path) -> None:
    count, size = 100_000, 128
    vectors, keys = _vectors("clustered", count, size), np.arange(count)
    parts = keys % 100
    with og.init(tmp_path / "g", "node P { k: I64 @key  part: I32  v: Vector(128) @index }") as graph:

        def put(rows: npt.NDArray[np.int64]) -> None:
            columns = {"k": keys[rows], "part": parts[rows].astype(np.int32)}
            graph.load({"P": pa.table({**columns, "v": _column(vectors[rows])})}, "merge", progress=False)

        def missed(condition: str, among: npt.NDArray[np.int64]) -> int:
            text = f"""query q($v: Vector(128)) {{ match {{ $p: P {condition} }}
                return {{ $p.k as k }} order {{ nearest($p.v, $v) }} limit 10 }}"""
            wrong = 0
            for number in range(0, count, count // 8):
                point = vectors[number] + np.float32(0.01)
                far = ((vectors[among].astype(np.float64) - point) ** 2).sum(axis=1)
                best = set(among[np.argsort(far)[:10]].tolist())
                wrong += len(best - set(graph.query(text, {"v": point.tolist()}).column("k").to_pylist()))
            return wrong

        put(keys)
        graph.ensure_indices()
        assert missed("", keys) == 0
        assert missed("{ part: 3 }", keys[parts == 3]) == 0
        changed = keys[keys % 5 == 0]
        vectors[changed] = vectors[changed][::-1]
        put(changed)
        assert missed("", keys) == 0
