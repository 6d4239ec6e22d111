"""Random queries on random graphs: the engine must answer as the naive evaluator does."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omnigraph.errors import SumOverflow
from omnigraph.query import check_read, parse_queries
from omnigraph.query.typed import Operator
from tests.engine import differential
from tests.engine.random_queries import random_query, replayed, shrunk
from tests.engine.rich_graph import CATALOG, RichData, rich_graph
from tests.engine.running import oracle_answer
from tests.oracle import naive
from tests.support.example_graph import changes, jsonl_rows

QUERIES_A_GRAPH = 50


@pytest.mark.parametrize("seed", range(40))
def test_engine_answers_as_the_naive_evaluator(seed: int, tmp_path: Path) -> None:
    tally = differential.run(tmp_path / "graph", seed, QUERIES_A_GRAPH)
    assert tally.compared + tally.passed_over == QUERIES_A_GRAPH
    assert tally.passed_over <= 2


@pytest.mark.torture
@pytest.mark.parametrize("block", range(50))
def test_engine_answers_as_the_naive_evaluator_fifty_thousand_times(block: int, tmp_path: Path) -> None:
    compared = 0
    for seed in range(1_000 + 20 * block, 1_020 + 20 * block):
        compared += differential.run(tmp_path / str(seed), seed, QUERIES_A_GRAPH).compared
    assert compared >= 0.98 * 20 * QUERIES_A_GRAPH


CONSTRUCTS = [
    r": Item \{", r"\$_ ", r"\$_:\w+", r"\$\w+:\w+ \$", r"\$\w+:<\w+>", r"<\w+> ", r"\{\d,\d\}", r"not \{",
    r"optional \{", r"not \{.*not \{", r"optional \{.*optional \{", r"not \{.*optional \{", r" or ", r" and ",
    r" in \[", r" not in ", r" in \$p\d", r" in \$\w+\.", r" is null", r" is not null",
    r"\$\w is (not )?null", r" contains ", r" starts_with ", r" = ", r" != ", r" <= ", r"now\(\)", r"date\(",
    r"datetime\(", r"return distinct", r"order \{", r" desc", r"limit \d", r"limit \$", r"offset \d",
    r"count\(\$\w+\)", r"count\(\$\w+\.", r"count\(distinct \$\w+\)", r"count\(distinct \$\w+\.",
    r"\$\w+\.id", r"\$\w+\.from", r"sum\(", r"avg\(", r"min\(", r"max\(", r"nearest\(", r"rrf\(",
    r"bm25\(", r"search\(", r"match_text\(", r"search\([^)]*\) = false", r"\]\?", r"Vector\(2\)", r"null as",
]  # fmt: skip


def test_generator_writes_valid_queries_with_every_construct() -> None:
    texts = []
    for seed in range(1_500):
        query = random_query(Random(seed))
        check_read(parse_queries(query.text).find(), CATALOG)
        assert replayed(query.choices) == query
        texts.append(query.text)
    missing = [construct for construct in CONSTRUCTS if not any(re.search(construct, text) for text in texts)]
    assert missing == []


def test_enough_queries_have_rows() -> None:
    random = Random(0)
    rich = RichData()
    for _ in range(3):
        rich.apply(rich.random_step(random))
    found = 0
    for query in (random_query(random) for _ in range(200)):
        with suppress(SumOverflow):
            found += bool(oracle_answer(query.text, rich.graph_data(), query.params).expected())
    assert found >= 80


def test_random_commits_reach_the_shapes_that_matter() -> None:
    """Parallel edges, loops, nulls, empty lists, rows that go and come back, types written anew."""
    seen: set[str] = set()
    for seed in range(20):
        random, rich = Random(seed), RichData()
        gone: set[tuple[str, str]] = set()
        for _ in range(differential.COMMITS):
            step = rich.random_step(random)
            seen |= {"overwritten"} if step.overwritten else set()
            seen |= (
                {"came back"}
                if gone & {(name, row["id"]) for name, rows in step.put.items() for row in rows}
                else set()
            )
            gone |= {(name, each) for name, removed in step.remove.items() for each in removed}
            rich.apply(step)
        pairs = [(row["src"], row["dst"]) for row in rich.rows["Knows"].values()]
        seen |= {"parallel"} if len(pairs) > len(set(pairs)) else set()
        seen |= {"loop"} if any(source == target for source, target in pairs) else set()
        items = rich.rows["Item"].values()
        seen |= {"null"} if any(row["name"] is None for row in items) else set()
        seen |= {"empty list"} if any(row["words"] == [] for row in items) else set()
    assert seen == {"overwritten", "came back", "parallel", "loop", "null", "empty list"}


def unequal_without_nulls(left: Any, right: Any) -> bool:
    return bool(left == right)


def no_loops(self: Any, edge_type: str, node: str) -> bool:
    return False


def only_forward(self: Any, step: Any, left: str, right: str) -> set[tuple[str, str]]:
    return {(left, right)}


def keep_all(self: Any, negations: Any, given: Any) -> bool:
    return False


def nulls_last(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)


def unknown_is_false(self: Any, predicate: Any, assignment: Any) -> bool:
    return bool(TRUTH(self, predicate, assignment))


TRUTH = naive._Evaluation.truth
COUNT_ALL = naive._Evaluation.of_group


def count_nulls(self: Any, expression: Any, group: Any) -> Any:
    if getattr(expression, "function", None) == "count":
        return len(group)
    return COUNT_ALL(self, expression, group)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (lambda patch: patch.setitem(naive._OPERATORS, Operator.NE, unequal_without_nulls), "!="),
    (lambda patch: patch.setattr(naive._Evaluation, "has_loop", no_loops), r"\{\d,\d\}| (\w+|<\w+>) "),
    (lambda patch: patch.setattr(naive._Evaluation, "ways", only_forward), "about|stays|<"),
    (lambda patch: patch.setattr(naive._Evaluation, "any_negated", keep_all), "not {"),
    (lambda patch: patch.setattr(naive, "_nulls_first", nulls_last), "order {"),
    (lambda patch: patch.setattr(naive._Evaluation, "truth", unknown_is_false), "not in|!= true|= false"),
    (lambda patch: patch.setattr(naive._Evaluation, "of_group", count_nulls), "count"),
]


@pytest.mark.parametrize(("plant", "trace"), PLANTED, ids=[trace for _, trace in PLANTED])
def test_planted_difference_is_found_and_made_small(
    plant: Callable[[pytest.MonkeyPatch], None], trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(differential, "SHRINKING_SECONDS", 1.0)
    with pytest.raises(AssertionError, match="engine and naive evaluator differ") as caught:
        for seed in range(20):
            differential.run(tmp_path / str(seed), seed, 100)
    text = re.search(r"'(query .*)',", str(caught.value))
    assert text is not None
    assert re.search(trace.replace("{", r"\{") if "\\" not in trace else trace, text[1])
    assert len(text[1]) < 200


def test_report_can_be_run_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(naive._Evaluation, "any_negated", keep_all)
    monkeypatch.setattr(differential, "SHRINKING_SECONDS", 1.0)
    with pytest.raises(AssertionError) as caught:
        for seed in range(20):
            differential.run(tmp_path / str(seed), seed, 100)
    told: dict[str, Any] = {}
    code = str(caught.value).partition("\n")[2]
    exec(compile(code, "report", "exec"), told)  # the report is Python; that is what is tested
    shown = capsys.readouterr().out
    assert "complaint None" not in shown
    assert "complaint " in shown


def test_shrinking_keeps_what_fails_and_drops_the_rest() -> None:
    query = next(query for query in (random_query(Random(seed)) for seed in range(1_000))
                 if "optional {" in query.text and "order {" in query.text and len(query.text) > 300)  # fmt: skip
    small = shrunk(query, lambda each: "optional {" in each.text)
    assert "optional {" in small.text
    assert "order {" not in small.text
    assert len(small.text) < 120


def test_average_of_large_integers_does_not_wrap(tmp_path: Path) -> None:
    lines = [f'{{"type": "Item", "data": {{"key": "n{n}", "n": 1, "i64": 9223372036854775807}}}}' for n in range(4)]
    data = jsonl_rows(CATALOG, lines)
    with rich_graph(tmp_path / "graph") as graph:
        graph.write(changes(data))
        (row,) = graph.query("query q() { match { $a: Item } return { avg($a.i64) as m, max($a.i64) as hi } }").rows()
    assert row["m"] == pytest.approx(2.0**63, rel=1e-12)
    assert row["hi"] == 2**63 - 1


def test_now_is_one_instant_of_the_present(tmp_path: Path) -> None:
    lines = [f'{{"type": "Note", "data": {{"id": "n{n}", "text": "red"}}}}' for n in range(3)]
    data = jsonl_rows(CATALOG, lines)
    with rich_graph(tmp_path / "graph") as graph:
        graph.write(changes(data))
        before = graph.commits.head().created_at
        found = graph.query("query q() { match { $a: Note  now() = now() } return { now(), now() as other } }")
    assert found.columns == ["now", "other"]
    assert len(found) == 3
    instants = {value for column in found.to_arrow().columns for value in column.to_pylist()}
    assert len(instants) == 1
    assert before.timestamp() - 1 <= instants.pop().timestamp() <= before.timestamp() + 600
