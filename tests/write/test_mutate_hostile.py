"""Nothing in a key, a value or a parameter changes what a mutation means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from tests.support.small_graphs import rows_of

SCHEMA = """
node P { key: String @key  name: String?  words: [String]? }
node Pair { a: String  b: String  @key(a, b) }
node Free { text: String }
edge E: P -> P { label: String? }
"""
HOSTILE = [
    "'",
    "''",
    '"',
    "\\",
    "\\'",
    "\\\\",
    "' OR '1'='1",
    "'; DROP TABLE nodes; --",
    "x' OR id IS NOT NULL OR 'x'='",
    "%",
    "_%_",
    "*",
    "NULL",
    "null",
    "true",
    "$key",
    "{}",
    "{0}",
    "%s",
    "`name`",
    "a\0b",
    "\0",
    "\n\r\t",
    "line\u2028separator",
    "\u202eright to left",
    "😀",
    "👩‍👩‍👧",
    "e\u0301",
    "\u00e9",
    " padded ",
    '["a","b"]',
    "a/b/../c",
    "--",
    "/* */",
    "x" * 5000,
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    """Every hostile text as a key, in one graph, with an index over them."""
    with og.init(tmp_path_factory.mktemp("hostile") / "g", SCHEMA) as graph:
        for text in HOSTILE:
            graph.mutate('query q($k: String) { insert P { key: $k, name: $k, words: ["w"] } }', params={"k": text})
        graph.ensure_indices()
        yield graph


def literal(text: str) -> str:
    """A text as the language spells it; only five escapes exist, everything else stands for itself."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(sign, sign) for sign in text) + '"'


def test_keys_and_values_come_back_as_they_went_in(graph: og.Graph) -> None:
    rows = rows_of(graph, "P")
    assert {id_: (row["key"], row["name"]) for id_, row in rows.items()} == {text: (text, text) for text in HOSTILE}


@pytest.mark.parametrize("column", ["key", "name"])
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_where_finds_exactly_its_row(graph: og.Graph, column: str, text: str) -> None:
    before = rows_of(graph, "P")
    by_parameter = f"query q($k: String, $m: [String]) {{ update P set {{ words: $m }} where {column} = $k }}"
    assert graph.mutate(by_parameter, params={"k": text, "m": [text, column]}).affected_nodes == 1
    expected = {**before, text: {**before[text], "words": [text, column]}}
    assert rows_of(graph, "P") == expected
    by_literal = f"query q() {{ update P set {{ words: [{literal(text)}] }} where {column} = {literal(text)} }}"
    assert graph.mutate(by_literal).affected_nodes == 1
    assert rows_of(graph, "P") == {**before, text: {**before[text], "words": [text]}}


def test_endpoints_are_values_too(graph: og.Graph) -> None:
    for text in HOSTILE:
        graph.mutate("query q($k: String) { insert E { from: $k, to: $k, label: $k } }", params={"k": text})
    assert {(row["src"], row["dst"], row["label"]) for row in rows_of(graph, "E").values()} == {
        (text, text, text) for text in HOSTILE
    }
    left = len(HOSTILE)
    for text, column in zip(HOSTILE, ["from", "to", "label"] * len(HOSTILE), strict=False):
        result = graph.mutate(f"query q($k: String) {{ delete E where {column} = $k }}", params={"k": text})
        left -= 1
        assert (result.affected_edges, graph.snapshot().count("E")) == (1, left)


def test_composite_keys_keep_their_parts_apart(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    pairs = [("a", 'b","c'), ('a","b', "c"), ("a\\", "b"), ("a", "\\b"), ("\0", "'"), ("", "ab"), ("ab", "")]
    for a, b in pairs:
        graph.mutate("query q($a: String, $b: String) { insert Pair { a: $a, b: $b } }", params={"a": a, "b": b})
    assert {(row["a"], row["b"]) for row in rows_of(graph, "Pair").values()} == set(pairs)
    assert [json.loads(id_) for id_ in rows_of(graph, "Pair")] == [list(pair) for pair in pairs]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_an_unknown_endpoint_is_named_as_it_is(graph: og.Graph, text: str) -> None:
    with pytest.raises(errors.EndpointMissing) as caught:
        graph.mutate("query q($k: String) { insert E { from: $k, to: $k } }", params={"k": f"no {text}"})
    assert caught.value.message == f"src 'no {text}' not found in P"


@pytest.mark.parametrize(
    "text",
    [
        "query q($k: String) { insert P { key: $k } }",
        'query q($k: String) { update P set { name: $k } where key = "x" }',
        'query q($k: String) { update P set { name: "x" } where key = $k }',
        "query q($k: String) { delete P where name = $k }",
        'query q($k: String) { insert E { from: $k, to: "x" } }',
    ],
)
def test_half_a_character_is_a_typed_error(graph: og.Graph, text: str) -> None:
    before = graph.commits.head()
    with pytest.raises(errors.InvalidRow, match="lone surrogate"):
        graph.mutate(text, params={"k": "\ud800"})
    assert graph.commits.head() == before


def test_half_a_character_in_a_list_is_a_typed_error(graph: og.Graph) -> None:
    params: dict[str, Any] = {"w": ["fine", "\udfff"]}
    with pytest.raises(errors.InvalidRow, match="lone surrogate"):
        graph.mutate('query q($w: [String]) { update P set { words: $w } where key = "\'" }', params=params)


def test_deleting_by_a_hostile_key_takes_one_row(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    inserts = " ".join(f"insert P {{ key: {literal(text)} }}" for text in HOSTILE)
    assert graph.mutate(f"query q() {{ {inserts} }}").affected_nodes == len(HOSTILE)
    left = set(HOSTILE)
    for text in HOSTILE:
        assert graph.mutate("query q($k: String) { delete P where key = $k }", params={"k": text}).affected_nodes == 1
        left.remove(text)
        assert set(rows_of(graph, "P")) == left


@pytest.mark.parametrize(
    "text",
    [
        'query q($k: String) { delete P where name = $k or key = "x" }',
        "query q($k: String) { delete P where name in [$k] }",
        "query q($k: String) { delete P where name starts_with $k }",
        "query q($k: String) { match { $p: P  $p.name > $k } delete $p }",
    ],
)
def test_half_a_character_in_a_condition_is_a_typed_error(graph: og.Graph, text: str) -> None:
    before = graph.commits.head()
    with pytest.raises(errors.InputError, match="lone surrogate"):
        graph.mutate(text, {"k": "\ud800"})
    assert graph.commits.head() == before
