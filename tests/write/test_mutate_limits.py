"""A write that is bounded in time, or that its caller stops, stops while it looks for rows; then nothing is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InputError, QueryCancelled, QueryTimeout
from omnigraph.write import group_commit
from omnigraph.write.stage_changes import stage_changes
from tests.support.waiting import wait_until
from tests.write.together import patience

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person
"""
BY_CONDITION = "query q() { update Person set { age: 5 } where age > 2 and age < 7 }"
BY_PATTERN = """query q() {
    match { $a: Person  $a knows{1,4} $b  $b knows{1,4} $c  $c.age > 1 } delete $a }"""
INSERT = 'query q() { insert Person { name: "new" } }'


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    names = [f"p{number}" for number in range(400)]
    ends = [(names[number], names[(number * step + step) % 400]) for number in range(400) for step in range(1, 41)]
    with og.init(tmp_path / "g", SCHEMA) as made:
        people = pa.table({"name": names, "age": [number % 10 for number in range(400)]})
        edges = pa.table({"from": [source for source, _ in ends], "to": [target for _, target in ends]})
        made.load({"Person": people, "Knows": edges}, "append")
        yield made


def after(asks: int) -> Callable[[], bool]:
    """Says that the caller has gone once it was asked so often."""
    left = iter(range(asks))
    return lambda: next(left, None) is None


@pytest.mark.parametrize("text", [BY_CONDITION, INSERT])
def test_a_write_whose_time_is_over_writes_nothing(graph: og.Graph, text: str) -> None:
    head = graph.commits.head().id
    with pytest.raises(QueryTimeout):
        graph.mutate(text, timeout=1e-6)
    with pytest.raises(QueryCancelled):
        graph.mutate(text, is_cancelled=lambda: True)
    assert graph.commits.head().id == head
    assert graph.mutate(text, timeout=60, is_cancelled=lambda: False).commit is not None


@pytest.mark.parametrize(("text", "asks"), [(BY_CONDITION, 1), (BY_PATTERN, 6)])
def test_a_write_is_stopped_while_it_looks_for_rows(graph: og.Graph, text: str, asks: int) -> None:
    head = graph.commits.head().id
    with pytest.raises(QueryCancelled):
        graph.mutate(text, is_cancelled=after(asks))
    assert graph.commits.head().id == head
    assert graph.verify().ok


def test_a_write_that_has_looked_is_finished_whatever_its_caller_says(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_staged, stage = [False], stage_changes

    def staging(*arguments: Any) -> Any:
        has_staged[0] = True
        return stage(*arguments)

    monkeypatch.setattr("omnigraph.write.mutate.stage_changes", staging)
    done = graph.mutate(BY_CONDITION, is_cancelled=lambda: has_staged[0])
    assert has_staged[0] and done.commit is not None and graph.commits.head().id == done.commit.id


def test_who_stands_in_line_may_go_and_the_others_stay(graph: og.Graph) -> None:
    outcomes: dict[str, object] = {}
    is_gone = threading.Event()

    def add(name: str, **bounds: Any) -> None:
        try:
            outcomes[name] = graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": name}, **bounds)
        except og.OmniGraphError as error:
            outcomes[name] = error

    store = graph.internals.store
    line = group_commit._line_of(store, "main")
    writers = {name: threading.Thread(target=add, args=(name,)) for name in ("a", "b", "d")}
    writers["c"] = threading.Thread(target=lambda: add("c", is_cancelled=is_gone.is_set))
    with patience(60), store.sections.hold("main"):
        for number, name in enumerate("abcd"):
            writers[name].start()
            wait_until(partial(_is_standing, line, number), timeout=20, what="a write to stand in line")
        is_gone.set()
        writers["c"].join(20)
        assert isinstance(outcomes["c"], QueryCancelled)
    for writer in writers.values():
        writer.join(60)
        assert not writer.is_alive()
    assert all(isinstance(outcomes[name], og.MutationResult) for name in "abd")
    found = graph.query('query q() { match { $p: Person  $p.name in ["a", "b", "c", "d"] } return { $p.name as n } }')
    assert sorted(row["n"] for row in found) == ["a", "b", "d"]


def _is_standing(line: group_commit._Line, behind: int) -> bool:
    return line.leader is not None and len(line._waiting) == behind


def test_bounds_that_are_none_are_refused(graph: og.Graph) -> None:
    with pytest.raises(InputError, match="timeout"):
        graph.mutate(INSERT, timeout=0)
