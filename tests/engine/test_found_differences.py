"""Differences that random queries once found, made small. Each line of rows is a line of a data file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.rich_graph import CATALOG, rich_graph
from tests.engine.running import json_rows, oracle_answer
from tests.support.example_graph import changes, jsonl_rows

ITEMS = [f'{{"type":"Item","data":{{"key":"n{number}","n":{number}}}}}' for number in range(4)]
NOTES = [f'{{"type":"Note","data":{{"id":"n{number}","text":"red"}}}}' for number in range(4)]


def edge(name: str, source: int, target: int, number: int) -> str:
    return f'{{"edge":"{name}","from":"n{source}","to":"n{target}","data":{{"id":"e{number}"}}}}'


FOUND = {
    "a loop at the destination counts when the search starts there": (
        "query q() { match { $m knows $_  $_ knows{2,2} $m } return { $m.key as k } }",
        [*ITEMS, edge("Knows", 0, 1, 1), edge("Knows", 1, 1, 2)],
    ),
    "a loop at the origin does not count when the search starts at the destination": (
        "query q() { match { $m next $c  not { $_ next{2,2} $c } } return { $m as k } }",
        [*NOTES, edge("Next", 1, 2, 1), edge("Next", 3, 2, 2), edge("Next", 1, 1, 3)],
    ),
    "the same undirected": (
        "query q() { match { $c: Note { text: \"red\" }  $m <next>{2,3} $c } return { $m as k, $c as l } }",
        [*NOTES, edge("Next", 1, 2, 1), edge("Next", 3, 2, 2), edge("Next", 2, 2, 3)],
    ),
    "a variable of an optional block is bound inside a later negation": (
        "query q() { match { $m: Item  optional { $m about $c }  not { $c about $x } } return { $m.key as k } }",
        [*ITEMS, *NOTES, edge("About", 3, 3, 1)],
    ),
    "and inside a later optional block": (
        "query q() { match { $m: Item  optional { $m about $c }  optional { $c next $d } } return { $m, $c, $d } }",
        [*ITEMS, *NOTES, edge("About", 3, 3, 1), edge("Next", 3, 1, 2), edge("Next", 2, 2, 3)],
    ),
    "instants in lists differ by their time of day": (
        "query q() { match { $m: Item } return distinct { $m.moments as k } }",
        [
            '{"type":"Item","data":{"key":"a","n":1,"moments":["2024-02-29T12:00:00.501Z"]}}',
            '{"type":"Item","data":{"key":"b","n":1,"moments":["2024-02-29T12:00:00.500Z"]}}',
            '{"type":"Item","data":{"key":"c","n":1,"moments":["2024-02-29T12:00:00.500Z"]}}',
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_engine_and_naive_evaluator_agree(name: str, tmp_path: Path) -> None:
    text, lines = FOUND[name]
    data = jsonl_rows(CATALOG, lines)
    with rich_graph(tmp_path / "graph") as graph:
        graph.write(changes(data))
        answer = oracle_answer(text, data, {})
        assert answer.expected()
        assert answer.complaint(json_rows(graph.query(text))) is None
