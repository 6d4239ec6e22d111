"""Branches of different schemas are not merged: a branch made from an old commit still has the old schema."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import MergeSchemaMismatch
from tests.merge.branches import SCHEMA, apart, edges, fingerprint, people, state

CHANGES = {
    "a new property": ("age: I32?", "age: I32?  nick: String?"),
    "a wider property": ("weight: I32?", "weight: I64?"),
    "a new type": ("node Note {", "node Topic { name: String @key }\nnode Note {"),
    "a new index": ("age: I32?", "age: I32? @index"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("direction", [("old", "main"), ("main", "old")], ids=["into the new", "into the old"])
def test_a_branch_from_before_a_schema_change_is_not_merged_with_one_from_after(
    tmp_path: Path, change: tuple[str, str], direction: tuple[str, str]
) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    before = graph.write([people("hub", "rim"), edges("e1")]).commit
    assert before is not None
    try:
        graph.schema.apply(SCHEMA.replace(*change))
    except og.OmniGraphError as error:
        pytest.fail(f"the schema change is not possible: {error}")
    graph.branches.create("old", at=before.id)
    graph.write([people("late")], branch="main")
    graph.write([people("past")], branch="old")
    source, target = direction
    states = [fingerprint(graph, branch) for branch in direction]
    for dry_run in (True, False):
        with pytest.raises(MergeSchemaMismatch):
            graph.branches.merge(source, target, dry_run=dry_run)
    assert [fingerprint(graph, branch) for branch in direction] == states


def test_branches_made_after_a_schema_change_merge_as_ever(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people("ann"))
    graph = branches.graph
    graph.branches.merge("a", delete_branch=True)
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    graph.branches.create("a")
    graph.mutate('query q() { update Person set { nick: "annie" } where handle = "ann" }', branch="a")
    graph.write([people("ben")])
    assert branches.merge().outcome == "merged"
    assert state(graph, "main")["node:Person"]["ann"]["nick"] == "annie"
