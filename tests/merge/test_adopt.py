"""Tables that only the source changed: shown as they are where that is safe, applied as rows everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflict
from omnigraph.history.merge.table_plan import Disposition, plan_tables
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, pin_metadata
from tests.merge.branches import apart, edges, gone, people, state

# One table: base, source and target as (branch, version); main's lineage is "main". What the target branch "t" does.
OWN, SIDE = "t", "s"
PLANS = [
    pytest.param(("main", 3), ("main", 3), ("main", 3), "SKIP", False, id="nobody moved"),
    pytest.param(("main", 3), ("main", 3), (OWN, 4), "SKIP", False, id="only the target moved"),
    pytest.param(("main", 3), ("main", 5), ("main", 5), "SKIP", False, id="both moved to the same version"),
    pytest.param(("main", 3), ("main", 5), ("main", 3), "ADOPT", True, id="main moved, the target owns nothing"),
    pytest.param(("main", 5), ("main", 3), ("main", 5), "ADOPT", False, id="main's version is lower"),
    pytest.param(("main", 3), (SIDE, 4), ("main", 3), "ADOPT", False, id="the source owns it and may be deleted"),
    pytest.param((OWN, 4), ("main", 9), (OWN, 4), "ADOPT", False, id="the target owns it"),
    pytest.param((SIDE, 4), ("main", 9), (SIDE, 4), "ADOPT", True, id="from another branch to main"),
    pytest.param((SIDE, 4), ("main", 4), (SIDE, 4), "ADOPT", False, id="an equal number of another lineage"),
    pytest.param(("main", 3), (SIDE, 4), (OWN, 4), "THREE_WAY", False, id="both moved"),
    pytest.param(None, (SIDE, 4), (OWN, 4), "THREE_WAY", False, id="the base did not have the table"),
]


def snapshot(branch: str, place: tuple[str, int] | None) -> ManifestSnapshot:
    pins = {}
    if place is not None:
        lineage = None if place[0] == "main" else place[0]
        made = f"{place[0]}-{place[1]}"
        pins["node:A"] = Pin("node:A", "nodes/a", place[1], lineage, 1, pin_metadata("/g/nodes/a", place[1], made))
    return ManifestSnapshot(
        branch, 1, None, pins, {}, {}, cast(Any, None), lineage=None if branch == "main" else branch
    )


@pytest.mark.parametrize(("base", "source", "target", "disposition", "pointer"), PLANS)
def test_a_table_is_planned_from_what_the_three_states_show(
    base: tuple[str, int] | None, source: tuple[str, int], target: tuple[str, int], disposition: str, pointer: bool
) -> None:
    (plan,) = plan_tables(snapshot("b", base), snapshot("s", source), snapshot("t", target))
    assert (plan.disposition, plan.pointer) == (Disposition[disposition], pointer)


def test_main_never_points_anywhere() -> None:
    place = ("main", 3)
    (plan,) = plan_tables(snapshot("b", place), snapshot("s", ("main", 9)), snapshot("main", place))
    assert (plan.disposition, plan.pointer) == (Disposition.ADOPT, False)


def pins(graph: og.Graph, branch: str) -> dict[str, Pin]:
    return dict(graph.snapshot(branch).tables)


def test_merging_main_into_a_branch_shows_mains_tables_and_copies_nothing(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "from main", people("ann"), edges("e1"))
    graph = branches.graph
    graph.write([people("own")], branch="a")
    graph.write([edges("e2")], branch="main")
    graph.write([gone("edge:Knows", "e1")], branch="main")
    branches.merge()
    assert pins(graph, "a")["edge:Knows"] == pins(graph, "main")["edge:Knows"]
    assert pins(graph, "a")["node:Person"].branch == "a"
    assert set(state(graph, "a")["edge:Knows"]) == {"e2"}
    graph.write([edges("e3")], branch="a")
    assert set(state(graph, "a")["edge:Knows"]) == {"e2", "e3"}
    assert set(state(graph, "main")["edge:Knows"]) == {"e2"}
    graph.branches.merge("a", "main")
    assert set(state(graph, "main")["edge:Knows"]) == {"e2", "e3"}


def test_a_table_shown_by_pointer_is_still_checked_against_the_rest_of_the_target(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "from main", people("ann"))
    graph = branches.graph
    graph.write([edges("e1", src="ann")], branch="a")
    graph.write([gone("node:Person", "ann")], branch="main")
    with pytest.raises(MergeConflict, match="OrphanEdge"):
        branches.merge()
    branches.merge(resolve={"node:Person/ann": "ours"})
    assert "ann" in state(graph, "a")["node:Person"]
    assert pins(graph, "a")["node:Person"] != pins(graph, "main")["node:Person"]


def test_no_target_depends_on_its_source(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "between siblings")
    graph = branches.graph
    graph.write([people("ann"), edges("e1")], branch="a")
    branches.merge()
    assert {pin.branch for pin in pins(graph, "b").values()} <= {None, "b"}
    graph.branches.delete("a")
    assert set(state(graph, "b")["edge:Knows"]) == {"e1"}
    graph.branches.create("a")
    graph.write([people("other")], branch="a")
    assert set(state(graph, "b")["node:Person"]) == {"hub", "rim", "ann"}


def test_a_branch_that_owns_a_table_takes_mains_changes_as_rows(tmp_path: Path) -> None:
    """Main's number is far higher than the branch's own; numbers of two lineages say nothing about each other."""
    branches = apart(tmp_path / "g", "plain", "from main", people("ann"))
    graph = branches.graph
    graph.write([people("x")], branch="a")
    graph.branches.merge("a", "main")
    for number in range(6):
        graph.write([people(f"p{number}")], branch="main")
    result = branches.merge()
    assert result.tables["node:Person"].inserted == 6
    pin = pins(graph, "a")["node:Person"]
    assert pin.branch == "a"
    assert pin.version < pins(graph, "main")["node:Person"].version
    assert state(graph, "a") == state(graph, "main")


def test_a_merge_of_many_types_moves_only_those_that_changed(tmp_path: Path) -> None:
    types = "".join(f"node T{number} {{ name: String @key  size: I32? }}\n" for number in range(12))
    graph = og.init(tmp_path / "g", types)
    rows = pa.table({"name": ["a", "b"]})
    graph.load({f"T{number}": rows for number in range(12)}, "append")
    graph.branches.create("b")
    graph.load({"T3": pa.table({"name": ["a"], "size": [1]}), "T7": pa.table({"name": ["c"]})}, "merge", branch="b")
    before = pins(graph, "main")
    result = graph.branches.merge("b")
    moved = {key for key, pin in pins(graph, "main").items() if pin != before[key]}
    assert moved == set(result.tables) == {"node:T3", "node:T7"}
    assert [result.tables[key].to_dict() for key in sorted(moved)] == [
        {"inserted": 0, "updated": 1, "deleted": 0},
        {"inserted": 1, "updated": 0, "deleted": 0},
    ]
