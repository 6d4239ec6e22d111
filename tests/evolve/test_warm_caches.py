"""Queries before and after a schema change through one handle: nothing that was kept in memory answers for another
column, type or shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from tests.evolve.graphs import SCHEMA, small_graph


def _asked(graph: og.Graph, type_name: str, name: str, at: str | None = None) -> list[Any]:
    query = f"query q() {{ match {{ $p: {type_name} }} return {{ $p.{name} as found }} order {{ $p.name asc }} }}"
    return [row["found"] for row in graph.query(query, at=at).rows()]


def test_a_property_that_comes_back_has_none_of_its_old_values(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before = graph.commits.head().id
    assert _asked(graph, "Person", "note") == ["x", "y"]
    graph.schema.apply(SCHEMA.replace("  note: String?", ""))
    assert _asked(graph, "Person", "nick") == ["A", None]
    graph.schema.apply(SCHEMA)
    assert _asked(graph, "Person", "note") == [None, None]
    graph.mutate('query m() { update Person set { note: "new" } where name = "Bob" }')
    assert _asked(graph, "Person", "note") == [None, "new"]
    assert _asked(graph, "Person", "note", at=before) == ["x", "y"]


def test_two_properties_that_change_names_change_values(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    assert (_asked(graph, "Person", "nick"), _asked(graph, "Person", "note")) == (["A", None], ["x", "y"])
    graph.schema.apply(SCHEMA.replace("note: String?", 'third: String? @rename_from("note")'))
    graph.schema.apply(
        SCHEMA.replace("note: String?", "third: String?")
        .replace("nick:", 'note: String? @rename_from("nick")  nickk:')
        .replace("nickk: String? @index  ", "")
    )
    assert _asked(graph, "Person", "note") == ["A", None]
    assert _asked(graph, "Person", "third") == ["x", "y"]


def test_a_widened_property_is_read_with_its_new_type(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    assert _asked(graph, "Person", "age") == [3, 4]
    graph.schema.apply(SCHEMA.replace("age: I32", "age: I64"))
    graph.mutate('query m() { update Person set { age: 1099511627776 } where name = "Bob" }')
    assert _asked(graph, "Person", "age") == [3, 1099511627776]
    sums = graph.query("query q() { match { $p: Person } return { sum($p.age) as total } }").rows()
    assert sums == [{"total": 1099511627779}]


def test_a_type_that_comes_back_has_none_of_its_old_rows_and_edges(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before = graph.commits.head().id
    friends = "query q() { match { $p: Person  $p knows $q } return { $q.name as friend } }"
    assert graph.query(friends).rows() == [{"friend": "Bob"}]
    graph.schema.apply(SCHEMA.replace("edge Knows: Person -> Person { since: I32? }", ""))
    graph.schema.apply(SCHEMA)
    assert graph.query(friends).rows() == []
    graph.mutate('query m() { insert Knows { from: "Bob", to: "Ann" } }')
    assert graph.query(friends).rows() == [{"friend": "Ann"}]
    assert graph.query(friends, at=before).rows() == [{"friend": "Bob"}]


def test_a_topology_on_disk_of_a_version_that_was_given_up_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PERSISTED_EDGES", 1)
    with small_graph(tmp_path / "g") as graph:
        graph.ensure_indices()
        assert list((tmp_path / "g" / "__topology").rglob("*.arrays"))
        graph.schema.apply(SCHEMA.replace("{ since: I32? }", ""), allow_data_loss=True)
    friends = "query q() { match { $p: Person  $p knows $q } return { $q.name as friend } }"
    with og.open(tmp_path / "g", mode="ro") as reader:
        assert reader.query(friends).rows() == [{"friend": "Bob"}]


def test_no_table_is_made_where_another_one_was_removed(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    without = SCHEMA.replace("node Place { title: String @key }\n", "")
    places = [graph.snapshot().tables["node:Place"].location]
    for city in ("Oslo", "Bonn", "Graz"):
        graph.schema.apply(without, allow_data_loss=True)
        graph.schema.apply(SCHEMA)
        graph.mutate("query m($t: String) { insert Place { title: $t } }", params={"t": city})
        found = graph.query("query q() { match { $p: Place } return { $p.title as title } }").rows()
        assert found == [{"title": city}]
        places.append(graph.snapshot().tables["node:Place"].location)
    assert len(set(places)) == 4


def test_edges_of_renamed_types_are_followed(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    graph.query("query q() { match { $p: Person  $p knows $q } return { $q.name as friend } }")
    graph.schema.apply(
        SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {').replace(
            "edge Knows: Person -> Person", 'edge Likes: Human -> Human @rename_from("Knows")'
        )
    )
    friends = "query q() { match { $p: Human  $p likes $q } return { $q.name as friend } }"
    assert graph.query(friends).rows() == [{"friend": "Bob"}]
    graph.mutate('query m() { insert Human { name: "Cid", age: 1 } }')
    graph.mutate('query m() { insert Likes { from: "Ann", to: "Cid" } }')
    assert sorted(row["friend"] for row in graph.query(friends).rows()) == ["Bob", "Cid"]
