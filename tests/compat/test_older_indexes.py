"""A BTREE of an older Lance holds row ids, one of today the places of rows, and no index may hold both.

What such an index has of the first fragment is the same in both: the number of a row there is its id and its place. So
an index of today that covers the first fragment, called one of the older version, is one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from tests.support.foreign_steps import raw_table
from tests.support.small_graphs import ids_of, people, persons, without

PERSON = "node:Person"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Its people are in several fragments, of which the first has an index of the older kind."""
    graph = people(tmp_path / "g", "ann", "bob", "cid", "dan")
    _index(raw_table(graph, PERSON))
    graph.repair(confirm=True)
    graph.write([persons("eve", "fay")])
    graph.write([persons("gil")])
    graph.write([without(PERSON, "bob")])
    return graph


def _index(table: Any) -> None:
    segment = table.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[0], replace=True)
    older = lance.LanceOperation.CreateIndex([replace(segment, index_version=0)], [])
    lance.LanceDataset.commit(table, older, read_version=table.version)


def _versions(graph: og.Graph) -> set[int]:
    segments = [each for index in graph.snapshot().dataset("Person").describe_indices() for each in index.segments]
    return {each.index_version for each in segments}


def _found(graph: og.Graph) -> list[str]:
    """The rows that the index finds one by one."""
    table = graph.snapshot().dataset("Person")
    names = ["ann", "bob", "cid", "dan", "eve", "fay", "gil"]
    return [name for name in names if table.count_rows(filter=f"id = '{name}'")]


def test_the_graph_has_an_index_of_the_older_kind(graph: og.Graph) -> None:
    assert _versions(graph) == {0}
    assert _found(graph) == ["ann", "cid", "dan", "eve", "fay", "gil"]


@pytest.mark.parametrize("upkeep", ["optimize", "ensure_indices"])
def test_upkeep_builds_it_anew(graph: og.Graph, upkeep: str) -> None:
    getattr(graph, upkeep)()
    assert 0 not in _versions(graph)
    assert _found(graph) == ["ann", "cid", "dan", "eve", "fay", "gil"]
    assert ids_of(graph, "Person") == {"ann", "cid", "dan", "eve", "fay", "gil"}
    assert graph.verify(deep=True).ok


def test_optimizing_joins_what_it_covers_with_the_rest(graph: og.Graph) -> None:
    (table,) = (each for each in graph.optimize().tables if each.table_key == PERSON)
    assert (table.fragments_added, table.deleted_rows_dropped) == (1, 1)
    assert table.fragments_removed >= 2
    assert graph.optimize().commits == ()


def test_one_that_other_software_builds_but_does_not_show_is_passed_over(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    graph.write([persons("eve")])
    _index(raw_table(graph, PERSON))
    assert graph.verify().ok
    assert graph.ensure_indices().commit is not None
    assert 0 not in _versions(graph)
    assert _found(graph) == ["ann", "bob", "eve"]
