"""Search on Spark: rows, order and scores to the last bit as the engine gives them, and where the texts stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs
from tests.engine.running import json_rows
from tests.engine.search.library import HEAD, QUESTIONS, Library, random_question
from tests.parity.answers import spark_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARAMS = {"t": "blue fox tree blue dog", "y": 2001, "v": [1.0, 0.5, 0.0]}

#: Beside those of the library.
MORE_QUESTIONS = (
    "match { $d: Doc  $d cites $c } return { $d.slug as s, $c.slug as c, nearest($c.vec, $v) as far }"
    " order { rrf(bm25($c.body, $t), nearest($c.vec, $v), 1) } limit 5 offset 1",
    'match { $d: Doc } return { $d.slug as s, bm25($d.body, "the of") as b } order { s }',
    'match { $d: Doc } return { $d.slug as s } order { bm25($d.body, "the of") }',
    "match { $a: Author  optional { $a wrote $d  search($d.body, $t) } }"
    " return { $a.name as a, $d.slug as d, bm25($d.body, $t) as b, nearest($d.vec, $v) as far } order { a, d }",
    "match { $d: Doc  not { $d cites $c  fuzzy($c.body, $t, 1) } } return { $d.slug as s } order { s }",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    random = Random(5)
    found = Library(tmp_path_factory.mktemp("library") / "g")
    found.grow(random, 30, 4, 12)
    found.graph.branches.create("other")
    found.touch(random)
    found.touch(random)
    found.grow(random, 5, 1, 3, "other")
    with found.graph:
        yield found


def assert_equal(graph: og.Graph, text: str, params: Mapping[str, Any], **where: Any) -> int:
    """Both engines give the same rows, to the last bit; their number."""
    expected = json_rows(graph.query(text, params=params, **where))
    found = spark_rows(graph, text, params, **where)
    if "order" not in text:
        expected, found = sorted(expected, key=repr), sorted(found, key=repr)
    assert found == expected, f"{text} {params} {where}"
    return len(expected)


@pytest.mark.parametrize("question", [*QUESTIONS, *MORE_QUESTIONS])
def test_spark_searches_as_the_engine_does(library: Library, spark: SparkSession, question: str) -> None:
    assert_equal(library.graph, f"{HEAD}{{ {question} }}", PARAMS)


def test_scores_are_those_of_the_branch_or_of_the_past_state(library: Library, spark: SparkSession) -> None:
    graph, random = library.graph, Random(3)
    past = graph.commits.list()[2].id
    places: list[dict[str, Any]] = [{"branch": "other"}, {"at": past}]
    for where in places:
        questions = [random_question(random) for _ in range(4)]
        assert sum(assert_equal(graph, text, params, **where) for text, params in questions) > 0


def test_spark_searches_the_same_when_every_fragment_is_a_task(
    library: Library, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BROADCAST_ROWS", -1)
    monkeypatch.setattr(limits, "SCAN_TASK_ROWS", 1)
    random = Random(9)
    assert sum(assert_equal(library.graph, *random_question(random)) for _ in range(6)) > 0


def test_a_null_parameter_finds_nothing(library: Library, spark: SparkSession) -> None:
    for rest in (
        "match { $d: Doc  search($d.body, $t) } return { $d.slug as s }",
        "match { $d: Doc } return { $d.slug as s, bm25($d.body, $t) as b } order { s }",
        "match { $d: Doc } return { $d.slug as s } order { rrf(bm25($d.body, $t), nearest($d.vec, $v)) } limit 2",
    ):
        text = f"query q($t: String?, $v: Vector(3)) {{ {rest} }}"
        assert_equal(library.graph, text, {"t": None, "v": [0.0, 0.0, 1.0]})


def test_a_text_is_embedded_before_the_tasks_run(
    library: Library, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    text = 'query q() { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, "blue fox") } limit 4 }'
    assert assert_equal(library.graph, text, {}) == 4


def test_texts_and_vectors_stay_in_the_tasks_that_read_them(tmp_path: Path, spark: SparkSession) -> None:
    rows, words = 200, " ".join(f"word{number}" for number in range(4_000))
    with og.init(tmp_path / "g", "node Doc { slug: String @key  body: String?  vec: Vector(256)? }") as graph:
        many = [{"slug": f"d{n}", "body": f"{words} fox{n % 7}", "vec": [float(n)] * 256} for n in range(rows)]
        graph.load({"Doc": many}, "append")
        size = rows * len(words)
        for ending in (
            'search($d.body, "fox3") } return { $d.slug as s } order { s }',
            '} return { $d.slug as s, bm25($d.body, "fox3") as b } order { b } limit 5',
            '} return { $d.slug as s } order { rrf(bm25($d.body, "fox3"), nearest($d.vec, $v)) } limit 5',
        ):
            text = f"query q($v: Vector(256)) {{ match {{ $d: Doc  {ending} }}"
            frame = ogs.query(graph, text, params={"v": [3.0] * 256})
            assert len(frame.collect()) > 0
            assert received(frame) < size // 50, "more came back from the tasks than ids and scores"


def received(frame: DataFrame) -> int:
    """Bytes that came from Python to the JVM when a frame was collected; what the driver has is a part of it."""
    return sum(_received(frame._jdf.queryExecution().executedPlan()))


def _received(node: Any) -> Iterator[int]:
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from _received(node.executedPlan())
        return
    if name.endswith("QueryStageExec"):
        yield from _received(node.plan())
    metric = node.metrics().get("pythonDataReceived")
    if metric.isDefined():
        yield int(metric.get().value())
    children = node.children()
    for number in range(children.size()):
        yield from _received(children.apply(number))


def test_each_property_is_searched_on_spark_by_its_own_tokenizer(tmp_path: Path, spark: SparkSession) -> None:
    schema = """node Doc { slug: String @key  plain: String?  german: String? @fulltext(german)
        parts: String? @fulltext(ngram, min=2, max=3) }"""
    texts = ["Die Häuser der Straße", "houses of the street", "ein Haus", "Running houses", None]
    rows = [{"slug": f"d{number}", "plain": text, "german": text, "parts": text} for number, text in enumerate(texts)]
    with og.init(tmp_path / "g", schema) as graph:
        graph.load({"Doc": rows}, "append")
        found = {}
        for name in ("plain", "german", "parts"):
            for function in ("search", "match_text"):
                text = f"""query q($t: String) {{ match {{ $d: Doc  {function}($d.{name}, $t) }}
                    return {{ $d.slug as s, bm25($d.{name}, $t) as b }} order {{ s }} }}"""
                found[name, function] = assert_equal(graph, text, {"t": "hausern"})
        assert len(set(found.values())) > 1  # the tokenizers differ
        ranked = (
            "query q($t: String) { match { $d: Doc } return { $d.slug as s } order { bm25($d.parts, $t) } limit 3 }"
        )
        assert assert_equal(graph, ranked, {"t": "ous"}) > 1
