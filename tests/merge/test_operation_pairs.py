"""Pairs of whole operations: what the source did against what the target did, as the specification lists them.

The base has Alice alone and one edge from Bob to Carol. U is already up to date, F fast-forward, M merged; a conflict
is written with the entity it names.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflict
from omnigraph.write.change import Change, Mode
from tests.merge.branches import SCHEMA, edges, fingerprint, gone, people, state

OUTCOMES = {"U": "already_up_to_date", "F": "fast_forward", "M": "merged"}

NONE, EVE, NO_ALICE, EDGE, NO_EDGE, AGE = "none", "add Eve", "remove Alice", "add edge", "remove edge", "set age"
NET_ZERO = "insert and delete an edge"
TARGETS = (NONE, EVE, NO_ALICE, EDGE, NO_EDGE, AGE)

INSERT_CONFLICT = "DivergentInsert node:Person/Eve"
ORPHAN_OF_SOURCE, ORPHAN_OF_TARGET = "OrphanEdge edge:Knows/s-edge", "OrphanEdge edge:Knows/t-edge"
DELETE_CONFLICT = "DeleteVsUpdate node:Person/Alice"
UPDATE_CONFLICT = "DivergentUpdate node:Person/Alice"

#: One line per operation of the source, one entry per operation of the target.
MATRIX: dict[str, tuple[str, ...]] = {
    NONE: ("U", "U", "U", "U", "U", "U"),
    EVE: ("F", INSERT_CONFLICT, "M", "M", "M", "M"),
    NO_ALICE: ("F", "M", "M", ORPHAN_OF_TARGET, "M", DELETE_CONFLICT),
    EDGE: ("F", "M", ORPHAN_OF_SOURCE, "M", "M", "M"),
    NO_EDGE: ("F", "M", "M", "M", "M", "M"),
    AGE: ("F", "M", DELETE_CONFLICT, "M", "M", UPDATE_CONFLICT),
    NET_ZERO: ("F", "M", "M", "M", "M", "M"),
}
CELLS = [
    pytest.param(source, target, cell, id=f"{source} / {target}")
    for source, cells in MATRIX.items()
    for target, cell in zip(TARGETS, cells, strict=True)
]


def operate(graph: og.Graph, branch: str, operation: str, side: str) -> None:
    """Do one operation; the two sides use different values."""
    number = 1 if side == "s" else 2
    ages = pa.array([number], pa.int32())
    writes: dict[str, list[Change]] = {
        EVE: [people("Eve", age=ages)],
        NO_ALICE: [gone("node:Person", "Alice")],
        EDGE: [edges(f"{side}-edge", src="Alice", dst="Carol")],
        NO_EDGE: [gone("edge:Knows", "bob-carol")],
        AGE: [people("Alice", age=ages)],
    }
    if operation == NET_ZERO:
        graph.write([edges("brief", src="Bob", dst="Carol")], branch=branch)
        graph.write([gone("edge:Knows", "brief")], branch=branch)
    elif operation != NONE:
        graph.write(writes[operation], branch=branch)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """One graph for all pairs; each makes its own two branches of it."""
    graph = og.init(tmp_path_factory.mktemp("pairs") / "g", SCHEMA)
    graph.write([people("Alice", "Bob", "Carol", mode=Mode.APPEND), edges("bob-carol", src="Bob", dst="Carol")])
    return graph


@pytest.mark.parametrize(("source_did", "target_did", "cell"), CELLS)
def test_a_pair_of_operations_ends_as_the_matrix_says(
    graph: og.Graph, source_did: str, target_did: str, cell: str
) -> None:
    source, target = (f"{side}-{number_of(source_did)}-{number_of(target_did)}" for side in ("s", "t"))
    for name, did, side in ((source, source_did, "s"), (target, target_did, "t")):
        graph.branches.create(name)
        operate(graph, name, did, side)
    before = fingerprint(graph, target)
    if cell not in OUTCOMES:
        with pytest.raises(MergeConflict) as caught:
            graph.branches.merge(source, target)
        assert [f"{each.kind} {each.entity}" for each in caught.value.conflicts] == [cell]
        assert fingerprint(graph, target) == before
        return
    result = graph.branches.merge(source, target)
    assert result.outcome == OUTCOMES[cell]
    assert (result.commit is None) == (cell == "U")
    expected = merged_by_hand(source_did, target_did)
    assert {key: sorted(rows) for key, rows in state(graph, target).items()} == expected
    if source_did == NET_ZERO:
        assert result.tables == {}
        moved = {key for key, pin in graph.snapshot(target).tables.items() if pin != before[2][key]}
        assert moved == set(), "a merge without rows moved a table"
    assert graph.branches.merge(source, target).outcome == "already_up_to_date"


def number_of(operation: str) -> int:
    return list(MATRIX).index(operation)


def merged_by_hand(source_did: str, target_did: str) -> dict[str, list[str]]:
    """Ids by table when both operations were done and nothing stood in the way."""
    done = {source_did, target_did}
    persons = {"Alice", "Bob", "Carol"} | ({"Eve"} if EVE in done else set())
    knows = {"bob-carol"}
    knows |= {f"{side}-edge" for side, did in (("s", source_did), ("t", target_did)) if did == EDGE}
    persons -= {"Alice"} if NO_ALICE in done else set()
    knows -= {"bob-carol"} if NO_EDGE in done else set()
    return {"edge:Knows": sorted(knows), "edge:Wrote": [], "node:Note": [], "node:Person": sorted(persons)}
