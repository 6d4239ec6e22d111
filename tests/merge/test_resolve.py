"""Conflicts that the caller decides: by entity, by rule, by function; and what the result must satisfy all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import InputError, InvalidRow, MergeConflict
from omnigraph.history.merge.merge_result import RowConflict
from tests.merge.branches import Apart, apart, edges, fingerprint, gone, people, state

EVE, ALICE = "node:Person/Eve", "node:Person/Alice"


def ages(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


@pytest.fixture
def torn(tmp_path: Path) -> Apart:
    """Both sides inserted Eve; the source deleted Alice and changed Bob, the target did it the other way round."""
    base = [people("Alice", "Bob", age=ages(1, 1)), edges("ab", src="Alice", dst="Bob")]
    branches = apart(tmp_path / "g", "plain", "into main", *base)
    graph = branches.graph
    graph.write([gone("edge:Knows", "ab"), gone("node:Person", "Alice")], branch="a")
    graph.write([people("Bob", "Eve", age=ages(2, 2))], branch="a")
    graph.write([people("Alice", "Eve", age=ages(3, 3))], branch="main")
    return branches


def persons(branches: Apart) -> dict[str, Any]:
    return {id_: row["age"] for id_, row in state(branches.graph, branches.target)["node:Person"].items()}


def test_each_entity_can_have_its_own_decision(torn: Apart) -> None:
    result = torn.merge(resolve={EVE: "theirs", ALICE: "theirs"})
    assert persons(torn) == {"hub": None, "rim": None, "Bob": 2, "Eve": 2}
    assert result.tables["node:Person"].to_dict() == {"inserted": 0, "updated": 2, "deleted": 1}


def test_a_decision_can_be_a_row(torn: Apart) -> None:
    torn.merge(resolve={EVE: {"handle": "Eve", "age": 7, "email": "eve@x"}, ALICE: "ours"})
    assert persons(torn) == {"hub": None, "rim": None, "Alice": 3, "Bob": 2, "Eve": 7}


def test_what_is_not_decided_stays_a_conflict(torn: Apart) -> None:
    before = fingerprint(torn.graph, "main")
    with pytest.raises(MergeConflict) as caught:
        torn.merge(resolve={EVE: "theirs"})
    assert [each.entity for each in caught.value.conflicts] == [ALICE]
    assert fingerprint(torn.graph, "main") == before


def test_a_function_sees_all_three_images_and_decides(torn: Apart) -> None:
    seen: dict[str, RowConflict] = {}

    def older_wins(conflict: RowConflict) -> Any:
        seen[conflict.entity] = conflict
        if conflict.theirs is None or conflict.ours is None:
            return "ours"
        return "ours" if conflict.ours["age"] > conflict.theirs["age"] else "theirs"

    torn.merge(resolve=older_wins)
    assert persons(torn)["Eve"] == 3
    assert seen.keys() == {ALICE, EVE}
    assert (seen[ALICE].kind, seen[ALICE].theirs) == ("DeleteVsUpdate", None)
    base = seen[ALICE].base
    assert base is not None and base["age"] == 1
    assert seen[EVE].base is None


def test_a_function_may_leave_a_conflict_open(torn: Apart) -> None:
    with pytest.raises(MergeConflict) as caught:
        torn.merge(resolve=lambda conflict: None)
    assert len(caught.value.conflicts) == 2


@pytest.mark.parametrize("rule", ["ours", "theirs"])
def test_a_rule_decides_conflicts_and_leaves_the_rest_alone(torn: Apart, rule: str) -> None:
    torn.merge(resolve=rule)
    wanted = {"ours": {"Alice": 3, "Eve": 3}, "theirs": {"Eve": 2}}[rule]
    assert persons(torn) == {"hub": None, "rim": None, "Bob": 2, **wanted}


def test_a_decision_is_previewed_like_a_merge(torn: Apart) -> None:
    before = fingerprint(torn.graph, "main")
    preview = torn.merge(dry_run=True, resolve={EVE: "theirs", ALICE: "theirs"})
    assert preview.conflicts == ()
    assert preview.tables["node:Person"].ids["updated"].to_pylist() == ["Bob", "Eve"]
    assert preview.to_dict()["tables"]["node:Person"]["entities"]["deleted"] == ["Alice"]
    assert fingerprint(torn.graph, "main") == before


def test_keeping_a_deletion_must_not_orphan_an_edge(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people("Alice", age=ages(1)))
    graph = branches.graph
    graph.write([gone("node:Person", "Alice")], branch="main")
    graph.write([people("Alice", age=ages(2)), edges("new", src="Alice", dst="hub")], branch="a")
    before = fingerprint(graph, "main")
    with pytest.raises(MergeConflict) as caught:
        branches.merge(resolve={ALICE: "ours"})
    assert [(each.kind, each.entity) for each in caught.value.conflicts] == [("OrphanEdge", "edge:Knows/new")]
    assert fingerprint(graph, "main") == before
    branches.merge(resolve={ALICE: "ours", "edge:Knows/new": "ours"})
    assert "new" not in state(graph, "main")["edge:Knows"]
    assert branches.merge().outcome == "already_up_to_date"


@pytest.mark.parametrize(
    ("decision", "alice", "edge"),
    [
        pytest.param({ALICE: "ours"}, True, True, id="the node stays"),
        pytest.param({"edge:Knows/new": "theirs"}, False, False, id="the edge goes"),
    ],
)
def test_an_edge_without_its_node_is_resolved_on_either_end(
    tmp_path: Path, decision: dict[str, Any], alice: bool, edge: bool
) -> None:
    """The edge table is one that the source never touched."""
    branches = apart(tmp_path / "g", "plain", "into main", people("Alice"))
    branches.graph.write([gone("node:Person", "Alice")], branch="a")
    branches.graph.write([edges("new", src="Alice", dst="hub")], branch="main")
    with pytest.raises(MergeConflict, match="OrphanEdge"):
        branches.merge()
    branches.merge(resolve=decision)
    after = state(branches.graph, "main")
    assert ("Alice" in after["node:Person"], "new" in after["edge:Knows"]) == (alice, edge)


def test_theirs_takes_back_what_only_the_target_changed(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people("Alice", "Bob", age=ages(1, 1)))
    branches.graph.write([people("Carl")], branch="a")
    branches.graph.write([people("Alice", age=ages(2)), gone("node:Note", "none")], branch="main")
    branches.graph.write([gone("node:Person", "Bob")], branch="main")
    branches.merge(resolve={ALICE: "theirs", "node:Person/Bob": "theirs"})
    assert persons(branches) == {"hub": None, "rim": None, "Alice": 1, "Bob": 1, "Carl": None}


def test_a_given_row_is_held_to_the_rules(torn: Apart) -> None:
    with pytest.raises(InvalidRow, match="nonsense"):
        torn.merge(resolve={EVE: {"handle": "Eve", "nonsense": 1}, ALICE: "ours"})
    with pytest.raises(InputError, match="has the id 'Adam'"):
        torn.merge(resolve={EVE: {"handle": "Adam"}, ALICE: "ours"})
    torn.graph.write([people("Zoe", email=pa.array(["eve@x"]))], branch="main")
    with pytest.raises(MergeConflict) as caught:
        torn.merge(resolve={EVE: {"handle": "Eve", "email": "eve@x"}, ALICE: "ours"})
    assert [(each.kind, each.row_id) for each in caught.value.conflicts] == [("UniqueViolation", "Eve")]


@pytest.mark.parametrize(
    "resolve",
    [
        pytest.param("mine", id="no such rule"),
        pytest.param(["ours"], id="a list"),
        pytest.param({"Person/Eve": "ours"}, id="no kind"),
        pytest.param({"node:Person": "ours"}, id="no id"),
        pytest.param({EVE: "mine"}, id="no such choice"),
        pytest.param({"node:Nobody/Eve": "ours"}, id="no such type"),
        pytest.param({"node:Person/Nobody": "ours"}, id="not changed by anybody"),
        pytest.param(lambda conflict: "mine", id="a function with a wrong answer"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_and_nothing_happens(torn: Apart, resolve: Any) -> None:
    before = fingerprint(torn.graph, "main")
    with pytest.raises(InputError):
        torn.merge(resolve=resolve)
    assert fingerprint(torn.graph, "main") == before
