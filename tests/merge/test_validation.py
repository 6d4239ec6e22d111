"""Two valid sides whose merge would not be: every broken rule is a conflict that names it, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import CardinalityViolation, Conflict, MergeConflict
from omnigraph.history.merge.validate import violations
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.write.change import Change, Mode, resolve
from tests.merge.branches import fingerprint, state

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  @range(age, 0..150)
  email: String? @unique
  state: enum(on, off)?
  first: String?
  last: String?
  @unique(first, last)
}
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
edge Guards: Person -> City @card(2..3)
edge Keeps: Person -> City @card(1..3)
edge Once: Person -> City { @unique(src, dst) }
"""


def graph_of(root: Path) -> og.Graph:
    graph = og.init(root, SCHEMA)
    graph.write([people("ann", "ben"), Change("node:City", pa.table({"name": ["rome", "oslo", "kyiv", "nara"]}))])
    graph.branches.create("b")
    return graph


def people(*names: str, **columns: list[object]) -> Change:
    return Change("node:Person", pa.table({"name": list(names), **columns}), Mode.MERGE)


def edge(table: str, *rows: tuple[str, str, str]) -> Change:
    columns = zip(*rows, strict=True)
    return Change(table, pa.table(dict(zip(("id", "src", "dst"), map(list, columns), strict=True))), Mode.MERGE)


def gone(table: str, *ids: str) -> Change:
    return Change(table, remove=pa.array(ids))


def refused(graph: og.Graph) -> list[tuple[str, str | None, str]]:
    before = fingerprint(graph, "main")
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("b")
    assert fingerprint(graph, "main") == before
    return [(each.kind, each.row_id, each.table_key) for each in caught.value.conflicts]


def test_two_rows_with_one_unique_value_are_refused(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([people("cid", email=["x@"])], branch="b")
    graph.write([people("dan", email=["x@"])])
    assert refused(graph) == [("UniqueViolation", "cid", "node:Person")]


def test_a_unique_value_that_moves_to_another_row_is_fine(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([people("ann", email=["x@"])])
    graph.branches.merge("main", "b")
    graph.write([people("ann", "cid", email=[None, "x@"])], branch="b")
    graph.write([people("dan")])
    assert graph.branches.merge("b").outcome == "merged"


def test_unique_tuples_are_compared_as_tuples(tmp_path: Path) -> None:
    """Joined by a bar the two would be equal."""
    graph = graph_of(tmp_path / "g")
    graph.write([people("cid", first=["a|b"], last=["c"])], branch="b")
    graph.write([people("dan", first=["a"], last=["b|c"])])
    assert graph.branches.merge("b").outcome == "merged"
    graph.write([people("eva", first=["p"], last=["q"]), people_city("rome")], branch="b")
    graph.write([people("fay", first=["p"], last=["q"])])
    assert refused(graph) == [("UniqueViolation", "eva", "node:Person")]


def people_city(name: str) -> Change:
    return Change("node:City", pa.table({"name": [name]}), Mode.MERGE)


def test_an_edge_constraint_over_both_ends_holds_across_the_merge(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([edge("edge:Once", ("s", "ann", "rome"))], branch="b")
    graph.write([edge("edge:Once", ("t", "ann", "rome"))])
    assert refused(graph) == [("UniqueViolation", "s", "edge:Once")]


def test_more_edges_than_a_source_may_have_are_refused(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([edge("edge:LivesIn", ("s", "ann", "rome"))], branch="b")
    graph.write([edge("edge:LivesIn", ("t", "ann", "oslo"))])
    assert refused(graph) == [("CardinalityViolation", None, "edge:LivesIn")]


def test_fewer_edges_than_a_source_must_have_are_refused_while_it_has_one(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    guards = [("g1", "ann", "rome"), ("g2", "ann", "oslo"), ("g3", "ann", "kyiv")]
    graph.write([edge("edge:Guards", *guards)])
    graph.branches.merge("main", "b")
    graph.write([gone("edge:Guards", "g1")], branch="b")
    graph.write([gone("edge:Guards", "g2")])
    assert refused(graph) == [("CardinalityViolation", None, "edge:Guards")]


def test_a_source_that_stays_may_not_lose_all_of_its_edges(tmp_path: Path) -> None:
    """Each side left one; a merge may not take the last one away, and neither may a direct write."""
    graph = graph_of(tmp_path / "g")
    graph.write([edge("edge:Keeps", ("k1", "ann", "rome"), ("k2", "ann", "oslo"))])
    graph.branches.merge("main", "b")
    graph.write([gone("edge:Keeps", "k1")], branch="b")
    graph.write([gone("edge:Keeps", "k2")])
    assert refused(graph) == [("CardinalityViolation", None, "edge:Keeps")]
    with pytest.raises(CardinalityViolation):
        graph.write([gone("edge:Keeps", "k1")])


def test_a_source_that_goes_owes_no_edges(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([edge("edge:Keeps", ("k1", "ann", "rome"), ("k2", "ann", "oslo"))])
    graph.branches.merge("main", "b")
    graph.write([gone("edge:Keeps", "k1")], branch="b")
    graph.write([gone("node:Person", "ann"), gone("edge:Keeps", "k1", "k2")])
    assert graph.branches.merge("b").outcome == "merged"
    assert state(graph, "main")["edge:Keeps"] == {}


def test_edges_of_a_node_that_the_source_deleted_are_orphans_on_either_end(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([gone("node:City", "rome"), gone("node:Person", "ann")], branch="b")
    graph.write([edge("edge:LivesIn", ("t1", "ben", "rome")), edge("edge:Once", ("t2", "ann", "oslo"))])
    assert refused(graph) == [("OrphanEdge", "t1", "edge:LivesIn"), ("OrphanEdge", "t2", "edge:Once")]


def test_a_node_that_goes_together_with_its_edges_orphans_nothing(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([edge("edge:LivesIn", ("e1", "ann", "rome")), edge("edge:Once", ("e2", "ann", "oslo"))])
    graph.branches.merge("main", "b")
    graph.write([gone("edge:LivesIn", "e1"), gone("edge:Once", "e2"), gone("node:Person", "ann")], branch="b")
    graph.write([people("cid")])
    assert graph.branches.merge("b").tables["node:Person"].deleted == 1
    graph.write([edge("edge:LivesIn", ("e3", "ben", "rome"))])
    graph.branches.merge("main", "b")
    graph.write([edge("edge:LivesIn", ("e3", "ben", "oslo"))], branch="b")
    graph.write([gone("node:City", "rome")], branch="b")
    graph.write([people("dan")])
    assert graph.branches.merge("b").outcome == "merged", "an edge that moved away is no edge of the node that went"


def test_edges_to_a_node_that_the_target_deleted_are_orphans(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write([edge("edge:LivesIn", ("s", "ann", "rome"))], branch="b")
    graph.write([gone("node:City", "rome")])
    assert refused(graph) == [("OrphanEdge", "s", "edge:LivesIn")]


def test_all_broken_rules_are_told_at_once_in_order(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    graph.write(
        [people("cid", email=["x@"]), edge("edge:LivesIn", ("s", "ann", "rome"), ("u", "ben", "oslo"))], branch="b"
    )
    graph.write([people("dan", email=["x@"]), edge("edge:LivesIn", ("t", "ann", "oslo")), gone("node:City", "rome")])
    assert refused(graph) == [
        ("CardinalityViolation", None, "edge:LivesIn"),
        ("OrphanEdge", "s", "edge:LivesIn"),
        ("UniqueViolation", "cid", "node:Person"),
    ]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("age", 151, "@range"), ("state", "broken", "enum"), ("name", None, "name")],
)
def test_a_row_that_breaks_a_rule_on_its_own_is_found(tmp_path: Path, column: str, value: object, words: str) -> None:
    """No write of ours lets such a row in, so it is handed to the rules directly."""
    graph = graph_of(tmp_path / "g")
    store = graph._store
    workspace = Workspace(store, store.snapshot("main"))
    type_ = graph.catalog.nodes["Person"]
    schema = workspace.readable("node:Person").schema
    good = dict.fromkeys(schema.names)
    rows = pa.Table.from_pylist(
        [{**good, "id": "x", "name": "x"}, {**good, "id": "y", "name": "y", column: value}], schema=loose(schema)
    )
    change = Change("node:Person", rows, Mode.MERGE, conformed=True)
    found = violations(workspace, graph.catalog, {"node:Person": resolve(workspace, type_, change, rows, False)})
    assert [(each.conflict.kind, each.conflict.row_id) for each in found] == [("ValueConstraintViolation", "y")]
    assert words in found[0].conflict.message
    assert isinstance(found[0].conflict, Conflict)


def loose(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def test_a_fast_forward_needs_no_check_and_an_update_of_many_rows_is_one(tmp_path: Path) -> None:
    graph = graph_of(tmp_path / "g")
    many = [f"p{number}" for number in range(500)]
    graph.write([people(*many)], branch="b")
    result = graph.branches.merge("b")
    assert (result.outcome, result.tables["node:Person"].inserted) == ("fast_forward", 500)
