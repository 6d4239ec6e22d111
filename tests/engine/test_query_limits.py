"""A read that is bounded in time, rows or bytes, or that its caller stops, ends soon and with a typed error.

Most bounds are tested by counting how often the work asks whether it may go on: clocks of a busy machine say little.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import read_budget
from omnigraph.engine import (
    binding_table,
    evaluate,
    execution_context,
    grouping,
    operators,
    ordering,
    pieces,
    reachable_pairs,
    traversal,
)
from omnigraph.engine.search import words
from omnigraph.engine.version_cache import VersionCache
from omnigraph.errors import InputError, QueryCancelled, QueryTimeout, ResourceLimitExceeded
from omnigraph.read_budget import ReadBudget

PEOPLE, DEGREE, NOTES, ROWS = 1_200, 150, 20_000, 400_000

SCHEMA = """
node Person { name: String @key  age: I64  town: String }
node Note { name: String @key  body: String @index  vec: Vector(8) @index }
node Row { name: String @key  number: I64  label: String }
edge Knows: Person -> Person
"""

PATHS = "$a: Person  $a knows $b  $b knows $c"

#: What takes long, and nobody could hold: two hops are 27 million paths, a product 160 billion rows.
WORST = {
    "paths": f"match {{ {PATHS} }} return {{ $a.name as a, $c.name as c }}",
    "hops": "match { $a: Person  $a knows{2,5} $b } return { $a.name as a, $b.town as b }",
    "hops counted": "match { $a: Person  $a knows{2,4} $b } return { $b.town as town, count($a) as n }",
    "product": "match { $a: Row  $b: Row  $a.number > $b.number } return { count($a) as n }",
    "smaller product": "match { $a: Row  $b: Row  $a.number < 12000  $b.number < 12000  $a.label = $b.label } "
    "return { count($a) as n }",
    "order": f"match {{ {PATHS} }} return {{ $a.name as a, $c.name as c }} order {{ $c.town desc, $b.age, $a.name }}",
    "top": f"match {{ {PATHS} }} return {{ $a.name as a }} order {{ $c.town desc, $b.age, $a.name }} limit 5",
    "groups": f"match {{ {PATHS} }} return {{ $a.town as t, $c.name as c, count(distinct $b) as n }}",
    "different": f"match {{ {PATHS} }} return distinct {{ $a.town as t, $c.age as c }}",
    "triangles": f"match {{ {PATHS}  $c knows $a }} return {{ count($a) as n }}",
    "texts": "match { $n: Note  $a: Person  $n.body contains $a.town } return { count($n) as n }",
    "negation": "match { $a: Person  $c: Person  not { $a knows $b  $b knows $c  $b.age > $c.age } } "
    "return { count($a) as n }",
    "optional": "match { $a: Person  optional { $a knows $b  $b knows $c } } return { $a.name as a, $c.name as c }",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    random = np.random.default_rng(1)
    names = np.array([f"p{number}" for number in range(PEOPLE)])
    spoken = np.array([f"word{number}" for number in range(500)])
    with og.init(tmp_path_factory.mktemp("limits") / "g", SCHEMA) as made:
        made.load(
            {
                "Person": pa.table(
                    {"name": names, "age": np.arange(PEOPLE) % 90, "town": [f"t{n % 37}" for n in range(PEOPLE)]}
                ),
                "Knows": pa.table(
                    {
                        "from": np.repeat(names, DEGREE),
                        "to": names[random.integers(0, PEOPLE, PEOPLE * DEGREE)],
                    }
                ),
                "Row": pa.table(
                    {
                        "name": [f"r{number}" for number in range(ROWS)],
                        "number": np.arange(ROWS),
                        "label": [f"l{number % 1000}" for number in range(ROWS)],
                    }
                ),
                "Note": pa.table(
                    {
                        "name": [f"n{number}" for number in range(NOTES)],
                        "body": [" ".join(each) for each in spoken[random.integers(0, 500, (NOTES, 12))]],
                        "vec": pa.FixedSizeListArray.from_arrays(random.random(NOTES * 8, np.float32), 8),
                    }
                ),
            },
            "append",
        )
        yield made


def query(text: str) -> str:
    return f"query q() {{ {text} }}"


def peak_bytes() -> int:
    """The most memory that this process ever held."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say it")


@pytest.mark.parametrize("name", WORST)
def test_the_worst_queries_come_back_soon_after_their_time_is_over(graph: og.Graph, name: str) -> None:
    before, began = peak_bytes(), time.monotonic()
    with pytest.raises((QueryTimeout, ResourceLimitExceeded)) as stopped:
        graph.query(query(WORST[name]), timeout=0.1, max_bytes=512 * 1024**2)
    assert time.monotonic() - began < 10  # mostly 0.2; other tests run on this machine
    assert peak_bytes() - before < 1024**3
    if isinstance(stopped.value, QueryTimeout):
        assert stopped.value.details["seconds"] == 0.1


@pytest.mark.parametrize("name", WORST)
def test_long_work_asks_often_whether_to_go_on(graph: og.Graph, name: str) -> None:
    """Between two questions this thread works for a short time only."""
    asked = [time.thread_time()]

    def is_cancelled() -> bool:
        asked.append(time.thread_time())
        return asked[-1] - asked[0] > 0.8

    with contextlib.suppress(QueryCancelled, ResourceLimitExceeded):
        graph.query(query(WORST[name]), is_cancelled=is_cancelled)
    asked.append(time.thread_time())
    assert len(asked) > 3
    assert max(later - sooner for sooner, later in pairwise(asked)) < 1.5


def test_what_cannot_fit_is_refused_before_it_is_made_and_the_step_is_named(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_BYTES", str(64 * 1024**2))
    before = peak_bytes()
    for text, step in (
        (WORST["product"], "scan $b: Row"),
        (WORST["paths"], "expand $b knows $c from $b"),
        (WORST["optional"], "expand $b knows $c from $b"),
        ("match { $a: Person  $a knows{1,4} $b  $b knows $c } return { $c.age as c }", "expand $b knows $c from $b"),
    ):
        with pytest.raises(ResourceLimitExceeded) as refused:
            graph.query(query(text))
        assert refused.value.details["resource"] == "query_bytes"
        assert refused.value.details["limit"] == 64 * 1024**2 < refused.value.details["actual"]
        assert refused.value.details["step"] == step
        assert step in str(refused.value)
    assert peak_bytes() - before < 512 * 1024**2


def test_values_that_cannot_fit_are_refused_before_they_are_fetched(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_BYTES", str(3 * 1024**2))
    with pytest.raises(ResourceLimitExceeded, match="query_bytes"):
        graph.query(query("match { $a: Row } return { $a.label as l }"))


@pytest.mark.parametrize(
    ("bounds", "resource", "actual"),
    [({"max_rows": 1_199}, "query_rows", 1_200), ({"max_bytes": 4_000}, "query_bytes", None)],
)
def test_a_result_that_is_too_large_is_refused(
    graph: og.Graph, bounds: dict[str, Any], resource: str, actual: int | None
) -> None:
    text = query("match { $a: Person } return { $a.name as a }")
    with pytest.raises(ResourceLimitExceeded) as refused:
        graph.query(text, **bounds)
    assert refused.value.details["resource"] == resource
    assert refused.value.details["limit"] == next(iter(bounds.values()))
    assert actual is None or refused.value.details["actual"] == actual
    assert len(graph.query(text, max_rows=1_200, max_bytes=10**6, timeout=timedelta(minutes=1))) == 1_200


def test_rows_are_counted_however_the_result_comes_about(graph: og.Graph) -> None:
    for text in (
        "match { $a: Person } return { $a.name as a } order { a }",
        "match { $a: Person } return { $a.name as a, count($a) as n }",
        "match { $a: Person } return distinct { $a.name as a }",
        "match { $a: Person  $a knows $b } return { $a.name as a, count($b) as n } order { n }",
        'match { $n: Note } return { $n.name as n } order { bm25($n.body, "word1") }',
    ):
        with pytest.raises(ResourceLimitExceeded, match="query_rows"):
            graph.query(query(text), max_rows=100)
        assert len(graph.query(query(f"{text} limit 100"), max_rows=100)) == 100


def test_explain_and_search_are_bounded_too(graph: og.Graph) -> None:
    with pytest.raises(QueryTimeout):
        graph.explain(query(WORST["hops"]), run=True, timeout=0.05)
    with pytest.raises(QueryCancelled):
        graph.explain(query(WORST["hops"]), run=True, is_cancelled=lambda: True)
    assert graph.explain(query(WORST["hops"]), timeout=1e-6).rows is None  # nothing runs
    with pytest.raises(QueryTimeout):
        graph.search("word1 word2", timeout=1e-6)
    with pytest.raises(QueryCancelled):
        graph.search("word1 word2", is_cancelled=lambda: True)
    assert len(graph.search("word1 word2", timeout=60).hits) == 10


@pytest.mark.parametrize(
    "bounds",
    [
        {"timeout": 0},
        {"timeout": -1.5},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "3s"},
        {"timeout": True},
        {"timeout": timedelta(0)},
        {"max_rows": 0},
        {"max_rows": 1.5},
        {"max_bytes": -1},
        {"max_bytes": True},
        {"is_cancelled": True},
    ],
    ids=str,
)
def test_bounds_that_are_none_are_refused(graph: og.Graph, bounds: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(bounds))):
        graph.query(query("match { $a: Person } return { $a.name }"), **bounds)


#: The bounds of pieces, made so small that a few rows need many of them.
TINY: dict[Any, dict[str, int]] = {
    pieces: {"PIECE_ROWS": 5},
    traversal: {"_SURELY_FEW": 0},
    operators: {"PIECE_ROWS": 5},
    evaluate: {"PIECE_ROWS": 5, "_FEW_VECTORS": 2},
    ordering: {"_LONG": 4, "_SAMPLE": 3},
    grouping: {"_LONG": 4, "PIECE_ROWS": 3},
    binding_table: {"_LONG": 4},
    execution_context: {"PIECE_ROWS": 5},
}

#: What is known of visited pairs: flags of all, flags of a block of origins, or keys.
VISITED = {
    "flags": {"PIECE_ROWS": 4},
    "blocks": {"PIECE_ROWS": 4, "_BLOCK": 12, "_WIDE": 3, "_SPARSE_SHARE": 10**9},
    "keys": {"PIECE_ROWS": 4, "_BLOCK": 1, "_WIDE": 10**9, "_FLAGS": 0},
}

SMALL_SCHEMA = """
node Person { name: String @key  age: I64?  share: F64?  born: Date?  town: String?  tags: [String]? }
node Doc { name: String @key  body: String? @index  vec: Vector(3)? @index }
edge Knows: Person -> Person { since: I64? }
edge Wrote: Person -> Doc
"""

ANSWERED = [
    "match { $a: Person  $b: Person  $a.age < $b.age } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $a knows $b  $b knows $c  $c.age > 1 } return { $a.name as a, $b.name as b, $c.name as c }",
    "match { $a: Person  $a $e:knows $b } return { $a.name as a, $b.name as b, $e.since as s }",
    "match { $a: Person  $a <knows> $b  $b.town = $a.town } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $a knows{1,3} $b } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $a <knows>{2,3} $b  $b.age > 2 } return { $a.name as a, $b.name as b }",
    'match { $b: Person  $a knows{1,3} $b  $b.name = "p3" } return { $a.name as a }',
    "match { $a: Person  $a knows{1,2} $b  $b knows{1,2} $a } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $a knows $b  $b knows $c  $c knows $a } return { $a.name as a, $c.name as c }",
    "match { $a: Person  optional { $a knows $b  $b.age > 3 } } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $b: Person  not { $a knows $b } } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $b: Person optional { $a $e:knows $b } } return { $a.name as a, $b.name as b, $e.since as e }",
    "match { $a: Person  $a knows $b } return { $a.town as t, $b.age as g, count($b) as n, sum($b.age) as s }",
    "match { $a: Person  $a knows $b  $b knows $c } return { $a.share as x, count(distinct $c) as n, max($c.age) }",
    "match { $a: Person  $a knows $b } return distinct { $a.town as t, $b.born as d }",
    "match { $a: Person  $b: Person } return distinct { $a.tags as t, $b.town as u }",
    "match { $a: Person  $a knows $b } return { $a.name as a, $b.name as b } order { $b.share desc, $a.town, $b.born }",
    "match { $a: Person  $a knows $b } return { $a.name as a, $b.name as b } order { $b.town desc, $a.share } limit 7",
    "match { $a: Person  $a knows $b } return { $a.town as t, count($b) as n } order { n desc, t } limit 3",
    'match { $d: Doc  $a wrote $d  search($d.body, "tree green") } return { $a.name as a, $d.name as d }',
    'match { $d: Doc  $a wrote $d } return { $a.town as t, count($d) as n } order { bm25($d.body, "tree") } limit 4',
    'match { $d: Doc  match_text($d.body, "green tree") } return { $d.name as d }',
    'match { $d: Doc  fuzzy($d.body, "trea") } return { $d.name as d, bm25($d.body, "tree leaf") as s }',
    "match { $a: Person  $a wrote $d  $d.body contains $a.town } return { $a.name as a, $d.name as d }",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    random = Random(3)

    def some(*values: object) -> object:
        return random.choice([None, *values])

    people = [
        {
            "name": f"p{number}",
            "age": some(*range(6)),
            "share": some(-0.5, 0.0, -0.0, 1.5),
            "born": some("2001-01-01", "1999-05-05"),
            "town": some("green", "blue", "tree"),
            "tags": some(["a"], ["a", "b"], []),
        }
        for number in range(14)
    ]
    bodies = ["a green tree", "tree leaf", "the greens", "green green tree tree", "leaf", "treat"]
    docs = [{"name": f"d{n}", "body": some(*bodies), "vec": some([0, 1, n], [n, n, 0])} for n in range(20)]
    knows = [
        {"from": f"p{random.randrange(14)}", "to": f"p{random.randrange(14)}", "since": some(1, 2)} for _ in range(40)
    ]
    wrote = [{"from": f"p{random.randrange(14)}", "to": f"d{random.randrange(20)}"} for _ in range(30)]
    with og.init(tmp_path_factory.mktemp("small") / "g", SMALL_SCHEMA) as made:
        made.load({"Person": people, "Doc": docs, "Knows": knows, "Wrote": wrote}, "append")
        yield made


@pytest.mark.parametrize("visited", VISITED)
def test_work_in_pieces_gives_the_same_answers(small: og.Graph, visited: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [small.query(query(text)).rows() for text in ANSWERED]
    assert all(expected)
    for module, sizes in {**TINY, reachable_pairs: VISITED[visited]}.items():
        for name, value in sizes.items():
            monkeypatch.setattr(module, name, value)
    for text, rows in zip(ANSWERED, expected, strict=True):
        found = small.query(query(text), timeout=60, max_bytes=10**6).rows()
        if " order " in text:
            assert found == rows, text
        else:
            assert sorted(map(repr, found)) == sorted(map(repr, rows)), text


def test_nearest_rows_are_the_same_in_pieces(small: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """query q($v: Vector(3)) { match { $a: Person  $a wrote $d }
        return { $a.name as a, $d.name as d, nearest($d.vec, $v) as far } order { nearest($d.vec, $v) } limit 6 }"""
    expected = small.query(text, {"v": [1.0, 2.0, 3.0]}).rows()
    for name, value in TINY[evaluate].items():
        monkeypatch.setattr(evaluate, name, value)
    assert small.query(text, {"v": [1.0, 2.0, 3.0]}, timeout=60).rows() == expected != []


def test_an_index_that_was_stopped_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_BLOCK_BYTES", 1_000)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        bodies = [f"word{number % 7} and more of it" for number in range(2_000)]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(16_000, np.float32)), 8)
        graph.load(
            {"Note": pa.table({"name": [f"n{n}" for n in range(2_000)], "body": bodies, "vec": vectors})}, "append"
        )
        text = query('match { $n: Note  search($n.body, "word3") } return { $n.name as n }')

        def after(asks: int) -> Callable[[], bool]:
            left = iter(range(asks))
            return lambda: next(left, None) is None

        tries = 0
        while True:
            try:
                found = graph.query(text, is_cancelled=after(12))
                break
            except QueryCancelled:
                tries += 1
                assert tries < 30
        assert tries > 1
        assert len(found) == sum(body.startswith("word3 ") for body in bodies)


def test_who_waits_for_another_thread_goes_when_the_time_is_over() -> None:
    cache, begun, go_on = VersionCache(1_000), threading.Event(), threading.Event()

    class Made:
        is_derived = False

        def parts(self) -> Iterator[tuple[object, int]]:
            return iter(())

    def slow(_: object) -> Made:
        begun.set()
        assert go_on.wait(30)
        return Made()

    other = threading.Thread(target=lambda: cache.get("a", 1, slow))
    other.start()
    try:
        assert begun.wait(30)
        with pytest.raises(QueryTimeout):
            cache.get("a", 1, lambda _: Made(), ReadBudget(seconds=0.1))
    finally:
        go_on.set()
        other.join(30)
    assert isinstance(cache.get("a", 1, slow), Made)


def test_nobody_looks_at_a_clock_when_nothing_is_bounded(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> float:
        raise AssertionError("looked at the clock")

    monkeypatch.setattr("omnigraph.read_budget.time", SimpleNamespace(monotonic=refuse))
    assert read_budget.read_budget() is read_budget.UNBOUNDED
    assert len(graph.query(query("match { $a: Person  $a knows $b } return { $b.name as b }"))) > 100_000
    with pytest.raises(AssertionError, match="clock"):
        graph.query(query("match { $a: Person } return { $a.name as a }"), timeout=1)


@pytest.mark.parametrize("edges", [1, 6])
@pytest.mark.parametrize("hops", ["{1,2147483647}", "{1000000,2147483647}", "{2147483647,2147483647}"])
def test_however_many_hops_are_allowed_the_plan_is_made_at_once(tmp_path: Path, edges: int, hops: str) -> None:
    with og.init(tmp_path / "g", "node N { k: String @key }\nedge E: N -> N") as graph:
        names = ["a", "b", "c"]
        pairs = [{"from": one, "to": other} for one in names for other in names if one != other]
        graph.load({"N": [{"k": name} for name in names], "E": pairs[:edges]}, "append")
        query = f'query q() {{ match {{ $a: N {{ k: "a" }}  $a e{hops} $b }} return {{ count($b) as n }} }}'
        found = graph.query(query, timeout=20).scalar()
        assert found == ((1 if edges == 1 else 2) if hops.startswith("{1,") else 0)
