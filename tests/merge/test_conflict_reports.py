"""A refused merge reports all that stands in its way at once, with the rows and with decisions that settle it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Conflict, InputError, MergeConflict
from tests.merge.branches import fingerprint

SCHEMA = """
node Person { handle: String @key  age: I32?  email: String? @unique  born: Date? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City @card(0..1)
edge Guards: Person -> City @card(2..3)
"""

START = """
    insert Person { handle: "al" } insert Person { handle: "bo" } insert Person { handle: "cy" }
    insert Person { handle: "gus" }
    insert City { name: "rome" } insert City { name: "oslo" } insert City { name: "kyiv" }
    insert Guards { from: "gus", to: "rome" } insert Guards { from: "gus", to: "oslo" }
    insert Guards { from: "gus", to: "kyiv" }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    on(graph, "main", START)
    graph.branches.create("x")
    return graph


def on(graph: og.Graph, branch: str, statements: str) -> None:
    graph.mutate(f"query q() {{ {statements} }}", branch=branch)


def conflicts(graph: og.Graph, **options: Any) -> dict[str, Conflict]:
    """What stands in the way, by kind; a dry run and a merge say the same, and a refused merge leaves no trace."""
    before = fingerprint(graph, "main")
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("x", **options)
    assert fingerprint(graph, "main") == before
    preview = graph.branches.merge("x", dry_run=True, **options)
    assert preview.outcome == "conflicts"
    assert [each.to_dict() for each in preview.conflicts] == caught.value.details["conflicts"]
    assert pickle.loads(pickle.dumps(caught.value)).conflicts == caught.value.conflicts
    json.dumps(caught.value.details)
    found = {each.kind: each for each in caught.value.conflicts}
    assert len(found) == len(caught.value.conflicts)
    return found


def decided(*decisions: str) -> dict[str, Any]:
    """Decisions as a conflict names them, as a merge takes them."""
    return dict(decision.rpartition("=")[::2] for decision in decisions)


def everything_at_once(graph: og.Graph) -> None:
    on(graph, "x", 'delete Person where handle = "al"')
    on(graph, "main", 'insert Knows { from: "bo", to: "al" }')
    on(graph, "x", 'insert Person { handle: "di", email: "e@", born: date("2000-01-02") }')
    on(graph, "main", 'insert Person { handle: "ed", email: "e@" }')
    on(graph, "x", 'insert LivesIn { from: "bo", to: "rome" }')
    on(graph, "main", 'insert LivesIn { from: "bo", to: "oslo" }')
    on(graph, "x", 'update Person set { age: 1 } where handle = "cy"')
    on(graph, "main", 'update Person set { age: 2 } where handle = "cy"')


def test_every_kind_is_reported_at_once_and_each_decision_settles_its_own(graph: og.Graph) -> None:
    everything_at_once(graph)
    found = conflicts(graph)
    assert set(found) == {"OrphanEdge", "CardinalityViolation", "DivergentUpdate", "UniqueViolation"}
    assert {each.arises for each in found.values()} == {None}
    for kind, conflict in found.items():
        assert len(conflict.settled_by) == 2
        for decision in conflict.settled_by:
            preview = graph.branches.merge("x", dry_run=True, resolve=decided(decision))
            left = {each.kind for each in preview.conflicts if each.arises is None}
            assert left == set(found) - {kind}, decision
    chosen = decided(*(conflict.settled_by[0] for conflict in found.values()))
    assert graph.branches.merge("x", resolve=chosen).outcome == "merged"


def test_a_conflict_shows_base_ours_and_theirs(graph: og.Graph) -> None:
    everything_at_once(graph)
    found = conflicts(graph)
    changed = found["DivergentUpdate"]
    assert changed.entity == "node:Person/cy"
    assert [image and image["age"] for image in (changed.base, changed.ours, changed.theirs)] == [None, 2, 1]
    edge = found["OrphanEdge"]
    assert (edge.base, edge.theirs) == (None, None)
    assert edge.ours is not None and (edge.ours["src"], edge.ours["dst"]) == ("bo", "al")
    assert edge.settled_by == (f"{edge.entity}=theirs", "node:Person/al=ours")
    twice = found["UniqueViolation"]
    assert twice.theirs is not None and (twice.theirs["email"], twice.theirs["born"]) == ("e@", "2000-01-02")
    assert twice.settled_by == ("node:Person/di=ours", "node:Person/ed=theirs")


def test_the_message_names_the_entity_and_the_hint_a_way_out(graph: og.Graph) -> None:
    on(graph, "x", 'delete Person where handle = "al"')
    on(graph, "main", 'insert Knows { from: "bo", to: "al" }')
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("x")
    (edge,) = caught.value.conflicts
    assert f"OrphanEdge: {edge.entity}: dst 'al' not found in Person" in caught.value.message
    assert caught.value.hint == f"decide each of them, as in resolve={{'{edge.entity}': 'theirs'}}"


def test_what_a_side_would_break_is_said_before_it_is_chosen(graph: og.Graph) -> None:
    """The source deleted a node that the target changed and gave an edge to."""
    on(graph, "x", 'delete Person where handle = "al"')
    on(graph, "main", 'update Person set { age: 5 } where handle = "al" insert Knows { from: "bo", to: "al" }')
    found = conflicts(graph)
    assert set(found) == {"DeleteVsUpdate", "OrphanEdge"}
    assert (found["DeleteVsUpdate"].arises, found["OrphanEdge"].arises) == (None, "theirs")
    assert "once the conflicts of rows are resolved by 'theirs'" in found["OrphanEdge"].message
    left = conflicts(graph, resolve="theirs")
    assert set(left) == {"OrphanEdge"} and left["OrphanEdge"].arises is None
    settled = left["OrphanEdge"].settled_by
    assert settled == (f"{left['OrphanEdge'].entity}=theirs", "node:Person/al=ours")
    with pytest.raises(MergeConflict, match="'\\*': 'theirs'"):
        graph.branches.merge("x", resolve="theirs")
    done = graph.branches.merge("x", resolve={"*": "theirs", left["OrphanEdge"].entity: "theirs"})
    assert done.tables["node:Person"].deleted == done.tables["edge:Knows"].deleted == 1


def test_what_keeping_the_target_would_break_is_said_too(graph: og.Graph) -> None:
    on(graph, "main", 'delete Person where handle = "al"')
    on(graph, "x", 'update Person set { age: 5 } where handle = "al" insert Knows { from: "bo", to: "al" }')
    found = conflicts(graph)
    assert (found["OrphanEdge"].arises, set(found)) == ("ours", {"DeleteVsUpdate", "OrphanEdge"})
    assert found["OrphanEdge"].settled_by == (f"{found['OrphanEdge'].entity}=ours", "node:Person/al=theirs")
    assert graph.branches.merge("x", resolve="theirs").outcome == "merged"


def test_too_few_edges_are_settled_by_giving_one_back(graph: og.Graph) -> None:
    on(graph, "x", 'delete Guards where to = "rome"')
    on(graph, "main", 'delete Guards where to = "oslo"')
    found = conflicts(graph)
    few = found["CardinalityViolation"]
    assert few.row_id is None and "source 'gus' has 1 edges (min 2)" in few.message
    assert sorted(decision.rpartition("=")[2] for decision in few.settled_by) == ["ours", "theirs"]
    for decision in few.settled_by:
        assert graph.branches.merge("x", dry_run=True, resolve=decided(decision)).outcome == "merged"


def test_the_rest_is_decided_by_a_rule_beside_single_decisions(graph: og.Graph) -> None:
    for handle in ("al", "bo", "cy"):
        on(graph, "x", f'update Person set {{ age: 1 }} where handle = "{handle}"')
        on(graph, "main", f'update Person set {{ age: 2 }} where handle = "{handle}"')
    graph.branches.merge("x", resolve={"*": "theirs", "node:Person/bo": "ours"})
    ages = {row["id"]: row["age"] for row in graph.snapshot().arrow("Person").to_pylist()}
    assert ages == {"al": 1, "bo": 2, "cy": 1, "gus": None}
    with pytest.raises(InputError, match="all other conflicts"):
        graph.branches.merge("x", resolve={"*": {"age": 3}})
