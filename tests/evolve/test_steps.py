"""Each step of a schema change on a table with rows: what the graph shows afterwards, and what the past still shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import (
    HistoricalVersionReclaimed,
    PreconditionFailed,
    SchemaApplyBlocked,
    SchemaIdentityError,
    TypeNotFound,
    UnsupportedSchemaChange,
)
from omnigraph.write.change import Change
from tests.evolve.graphs import SCHEMA, assert_whole, content, rows, small_graph


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the schema text, and the rows of one type that it must lead to."""

    name: str
    old: str
    new: str
    type: str
    shown: list[dict[str, Any]]
    moves_rows: bool = True

    def __str__(self) -> str:
        return self.name


def _people(**changed: list[Any]) -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = {"age": [3, 4], "name": ["Ann", "Bob"], "nick": ["A", None], "note": ["x", "y"]}
    kept = {name: values for name, values in (columns | changed).items() if values}
    return [
        {"id": id_, **{name: values[row] for name, values in kept.items()}} for row, id_ in enumerate(("Ann", "Bob"))
    ]


STEPS = [
    Step("add a type", "node Place", "node City { name: String @key  mayor: String? }\nnode Place", "City", []),
    Step("add a property", "note: String?", "note: String?  mail: String?", "Person", _people(mail=[None, None])),
    Step("add a list", "note: String?", "note: String?  tags: [String]?", "Person", _people(tags=[None, None])),
    Step("add a vector", "note: String?", "note: String?  v: Vector(4)?", "Person", _people(v=[None, None])),
    Step("add a blob", "note: String?", "note: String?  photo: Blob?", "Person", _people(photo=[None, None])),
    Step(
        "rename a property",
        "note: String?",
        'remark: String? @rename_from("note")',
        "Person",
        _people(note=[], remark=["x", "y"]),
    ),
    Step(
        "rename an indexed property",
        "nick: String? @index",
        'alias: String? @index @rename_from("nick")',
        "Person",
        _people(nick=[], alias=["A", None]),
    ),
    Step("drop a property", "  note: String?", "", "Person", _people(note=[])),
    Step("drop an indexed property", "  nick: String? @index", "", "Person", _people(nick=[])),
    Step("widen a property", "age: I32", "age: I64", "Person", _people()),
    Step("allow null", "age: I32", "age: I32?", "Person", _people()),
    Step("widen and allow null", "age: I32", "age: I64?", "Person", _people()),
    Step("drop an index", "nick: String? @index", "nick: String?", "Person", _people(), moves_rows=False),
    Step("add an index", "note: String?", "note: String? @index", "Person", _people(), moves_rows=False),
    Step(
        "describe a type", "node Place {", 'node Place @description("where") {', "Person", _people(), moves_rows=False
    ),
    Step(
        "rename a type",
        "node Place {",
        'node Spot @rename_from("Place") {',
        "Spot",
        [{"id": "Rome", "title": "Rome"}],
        moves_rows=False,
    ),
    Step(
        "rename a type and its property",
        "node Place { title: String @key }",
        'node Spot @rename_from("Place") { title: String @key  size: F64? }',
        "Spot",
        [{"id": "Rome", "size": None, "title": "Rome"}],
    ),
]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_keeps_the_rows_and_the_past(tmp_path: Path, step: Step) -> None:
    graph = small_graph(tmp_path / "g")
    graph.ensure_indices()
    before, past = graph.commits.head().id, content(graph)
    files = _data_files(tmp_path / "g")
    assert step.old in SCHEMA
    text = SCHEMA.replace(step.old, step.new, 1)

    done = graph.schema.apply(text)

    assert done.applied
    assert done.commit == graph.commits.head()
    assert done.commit.parent == before
    assert graph.schema.text == text
    assert rows(graph, step.type) == step.shown
    assert content(graph, at=before) == past
    widened = "widen" in step.name
    assert _data_files(tmp_path / "g") - files == set() or widened, "a step copied rows"
    assert_whole(graph)
    reopened = og.open(tmp_path / "g", mode="ro")
    assert rows(reopened, step.type) == step.shown
    assert content(reopened, at=before) == past
    assert graph.schema.apply(text).applied is False
    assert graph.commits.head() == done.commit


def _data_files(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("data/**/*.lance") if "__manifest" not in str(path)} - {
        str(path) for path in root.rglob("_graph_*/data/*.lance")
    }


def test_a_widened_property_takes_wider_values_and_is_found_by_them(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g", SCHEMA.replace("age: I32", "age: I32 @index"))
    graph.ensure_indices()
    graph.schema.apply(SCHEMA.replace("age: I32", "age: I64 @index"))
    graph.mutate('query m() { insert Person { name: "Zed", age: 1099511627776 } }')
    graph.ensure_indices()
    found = graph.query("query q() { match { $p: Person { age: 1099511627776 } } return { $p.name } }")
    assert found.rows() == [{"p.name": "Zed"}]
    old = graph.query("query q() { match { $p: Person { age: 4 } } return { $p.name } }")
    assert old.rows() == [{"p.name": "Bob"}]
    assert_whole(graph)


def test_a_property_may_have_a_name_that_looks_like_a_number(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node A { _0: String  _1: I32 }") as graph:
        graph.mutate('query q() { insert A { _0: "x", _1: 3 } }')
        graph.schema.apply("node A { _0: String?  _1: I64 }")
        assert [(row["_0"], row["_1"]) for row in rows(graph, "A")] == [("x", 3)]
        assert_whole(graph)


def test_a_column_that_was_widened_can_be_dropped(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    graph.schema.apply(SCHEMA.replace("age: I32", "age: I64"))
    graph.schema.apply(SCHEMA.replace("  age: I32", ""))
    assert rows(graph, "Person") == _people(age=[])
    assert_whole(graph)


def test_a_renamed_property_keeps_its_index_and_its_old_name_is_free(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    graph.ensure_indices()
    graph.schema.apply(SCHEMA.replace("nick: String? @index", 'alias: String? @index @rename_from("nick")'))
    graph.schema.apply(SCHEMA.replace("nick: String? @index", "alias: String? @index  nick: String? @index"))
    graph.mutate('query m() { update Person set { nick: "new" } where name = "Bob" }')
    graph.ensure_indices()
    for name, value, found in (("alias", "A", "Ann"), ("nick", "new", "Bob")):
        query = f'query q() {{ match {{ $p: Person {{ {name}: "{value}" }} }} return {{ $p.name }} }}'
        assert graph.query(query).rows() == [{"p.name": found}]
    assert_whole(graph)


def test_a_renamed_blob_keeps_its_bytes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { name: String @key  body: Blob? }")
    body = pa.array([b"x" * 200_000, None], pa.large_binary())
    graph.write([Change("node:Doc", pa.table({"name": ["a", "b"], "body": body}))])
    graph.schema.apply('node Doc { name: String @key  bytes: Blob? @rename_from("body")  more: Blob? }')
    assert rows(graph, "Doc") == [
        {"id": "a", "bytes": b"x" * 200_000, "more": None, "name": "a"},
        {"id": "b", "bytes": None, "more": None, "name": "b"},
    ]
    graph.write([Change("node:Doc", pa.table({"name": ["c"], "more": pa.array([b"y"], pa.large_binary())}))])
    assert rows(graph, "Doc")[2] == {"id": "c", "bytes": None, "more": b"y", "name": "c"}
    assert_whole(graph)


def test_many_steps_on_many_types_are_one_commit(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before = graph.commits.head()
    done = graph.schema.apply(
        """
        node Human @rename_from("Person") {
            name: String @key  age: I64?  alias: String? @rename_from("nick") @index  mail: String?
        }
        node City { name: String @key }
        edge Knows: Human -> Human { since: I64? }
        edge LivesIn: Human -> City
        """
    )
    assert done.commit is not None
    assert (done.commit.parent, done.graph_manifest_version) == (before.id, before.version + 1)
    assert set(graph.snapshot().tables) == {"node:Human", "node:City", "edge:Knows", "edge:LivesIn"}
    assert rows(graph, "Human")[0] == {"id": "Ann", "age": 3, "alias": "A", "mail": None, "name": "Ann"}
    assert rows(graph, "Knows") == [{"id": "e1", "src": "Ann", "dst": "Bob", "since": 7}]
    graph.mutate('query m() { insert City { name: "Oslo" } }')
    graph.mutate('query m() { insert LivesIn { from: "Ann", to: "Oslo" } }')
    assert_whole(graph)


def test_a_rename_is_undone_without_a_copy(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    location = graph.snapshot().tables["node:Place"].location
    graph.schema.apply(SCHEMA.replace("node Place {", 'node Spot @rename_from("Place") {'))
    graph.schema.apply(SCHEMA.replace("node Place {", 'node Place @rename_from("Spot") {'))
    pin = graph.snapshot().tables["node:Place"]
    assert (pin.location, rows(graph, "Place")) == (location, [{"id": "Rome", "title": "Rome"}])
    assert_whole(graph)
    graph.mutate('query m() { insert Place { title: "Oslo" } }')
    assert_whole(graph)


def test_two_types_can_swap_their_names(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node A { x: String @key }\nnode B { y: String @key }")
    graph.mutate('query m() { insert A { x: "a" } }')
    graph.mutate('query m() { insert B { y: "b" } }')
    with pytest.raises((UnsupportedSchemaChange, SchemaIdentityError)):
        graph.schema.apply('node A @rename_from("B") { y: String @key }\nnode B @rename_from("A") { x: String @key }')
    graph.schema.apply('node C @rename_from("A") { x: String @key }\nnode B { y: String @key }')
    graph.schema.apply('node C { x: String @key }\nnode A @rename_from("B") { y: String @key }')
    graph.schema.apply('node B @rename_from("C") { x: String @key }\nnode A { y: String @key }')
    assert (rows(graph, "A"), rows(graph, "B")) == ([{"id": "b", "y": "b"}], [{"id": "a", "x": "a"}])
    assert_whole(graph)


def test_a_dropped_type_comes_back_empty_and_the_past_keeps_its_rows(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before = graph.commits.head().id
    graph.schema.apply(SCHEMA.replace("node Place { title: String @key }\n", ""))
    with pytest.raises(TypeNotFound):
        graph.snapshot().count("Place")
    gone = graph.commits.head().id
    graph.schema.apply(SCHEMA.replace("title: String @key", "code: I32 @key"))
    assert rows(graph, "Place") == []
    graph.mutate("query m() { insert Place { code: 7 } }")
    assert rows(graph, "Place") == [{"id": "7", "code": 7}]
    assert rows(graph, "Place", at=before) == [{"id": "Rome", "title": "Rome"}]
    assert "Place" not in content(graph, at=gone)
    assert_whole(graph)


def test_a_name_that_was_renamed_away_can_name_a_new_type(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    text = SCHEMA.replace("node Place { title: String @key }", 'node Spot @rename_from("Place") { title: String @key }')
    graph.schema.apply(text)
    graph.schema.apply(text + "\nnode Place { title: String @key }")
    graph.mutate('query m() { insert Place { title: "Oslo" } }')
    assert (rows(graph, "Spot")[0]["id"], rows(graph, "Place")[0]["id"]) == ("Rome", "Oslo")
    assert_whole(graph)


def test_a_hard_drop_gives_up_the_older_versions_of_what_it_drops_only(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before = graph.commits.head().id
    place = graph.snapshot().tables["node:Place"].location
    text = SCHEMA.replace("node Place { title: String @key }\n", "").replace("  note: String?", "")
    assert graph.schema.plan(text).lines() != graph.schema.plan(text, allow_data_loss=True).lines()
    graph.schema.apply(text, allow_data_loss=True)
    assert rows(graph, "Person") == _people(note=[])
    assert not any((tmp_path / "g" / place).rglob("*.lance"))
    reader = og.open(tmp_path / "g", mode="ro")
    for type_name in ("Person", "Place"):
        with pytest.raises(HistoricalVersionReclaimed):
            reader.snapshot(at=before).arrow(type_name)
    assert reader.snapshot(at=before).arrow("Knows").num_rows == 1
    graph.schema.apply(SCHEMA)
    graph.mutate('query m() { insert Place { title: "Oslo" } }')
    assert_whole(graph)


def test_a_soft_drop_keeps_the_older_versions(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before, past = graph.commits.head().id, content(graph)
    graph.schema.apply("node Person { name: String @key  age: I32 }")
    assert content(graph, at=before) == past
    query = "query q() { match { $p: Place } return { $p.title } }"
    assert graph.query(query, at=before).rows() == [{"p.title": "Rome"}]
    with pytest.raises(og.OmniGraphError, match="Place"):
        graph.query(query)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("age: I32  mail: String", r"\[OG-MF-103\] adding required property 'Person.mail' requires a backfill"),
        ("age: String", r"\[OG-MF-106\] changing property type for 'Person.age' is not supported"),
        ("age: I32 @unique", "constraint"),
    ],
)
def test_a_change_that_is_not_safe_is_refused_and_changes_nothing(tmp_path: Path, new: str, message: str) -> None:
    graph = small_graph(tmp_path / "g")
    before, past = graph.commits.head(), content(graph)
    with pytest.raises(UnsupportedSchemaChange, match=message):
        graph.schema.apply(SCHEMA.replace("age: I32", new))
    assert (graph.commits.head(), content(graph), graph.schema.text) == (before, past, SCHEMA)
    assert_whole(graph)


def test_other_branches_are_in_the_way_and_named(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    graph.branches.create("b")
    graph.branches.create("a")
    text = SCHEMA.replace("note: String?", "note: String?  mail: String?")
    with pytest.raises(SchemaApplyBlocked, match="requires a graph with only main; found non-main branches: a, b"):
        graph.schema.apply(text)
    for name in ("a", "b"):
        graph.branches.delete(name)
    assert graph.schema.apply(text).applied


def test_a_change_that_was_planned_for_another_schema_is_refused_when_its_hash_is_given(tmp_path: Path) -> None:
    graph, other = small_graph(tmp_path / "g"), og.open(tmp_path / "g")
    seen = graph.schema.hash
    mine = SCHEMA.replace("note: String?", "note: String?  mail: String?")
    other.schema.apply(SCHEMA.replace("note: String?", "note: String?  phone: String?"))
    with pytest.raises(PreconditionFailed, match="plan again"):
        graph.schema.apply(mine, if_hash=seen)
    assert "drop property 'Person.phone' of node 'Person' (soft mode)" in graph.schema.plan(mine).lines()
    assert graph.schema.apply(mine, if_hash=graph.schema.hash).applied


def test_the_result_has_the_json_form_of_every_interface(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    done = graph.schema.apply(SCHEMA.replace("note: String?", "note: String?  mail: String?"))
    added = {
        "kind": "add_property",
        "type_kind": "node",
        "type_name": "Person",
        "property_name": "mail",
        "property_type": {"scalar": "String", "nullable": True, "list": False, "enum_values": None},
    }
    assert done.to_dict() == {
        "supported": True,
        "applied": True,
        "step_count": 1,
        "graph_manifest_version": 4,
        "steps": [added],
    }
    assert done.lines() == ("add property 'Person.mail' (String?) on node 'Person'",)
