"""The past stays readable: queries, exports, snapshots, diffs and the feed, also across changes of the schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import (
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitNotFound,
    HistoricalVersionReclaimed,
    OmniGraphError,
    TypeNotFound,
)
from omnigraph.write.change import Change, Mode
from tests.support.change_histories import Model, apply, model_of
from tests.support.small_graphs import people, persons, rows_of

FIRST = """
node Person { name: String @key  age: I32?  nick: String? }
node Old { name: String @key }
edge Knows: Person -> Person
"""
RENAMED = """
node Human @rename_from("Person") { name: String @key  years: I32? @rename_from("age")  nick: String? }
edge Knows: Human -> Human
"""
WIDENED = FIRST.replace("I32", "I64")
GROWN = FIRST.replace("nick: String?", "nick: String?  mail: String?")
SHRUNK = FIRST.replace("nick: String?", "")

NAMES = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } order { $p.name } }"


@dataclass(frozen=True, slots=True)
class Evolved:
    """A graph whose schema changed once, with the commits before and after the change."""

    graph: og.Graph
    before: str
    after: str


def _evolved(root: Path, schema: str, **options: Any) -> Evolved:
    graph = og.init(root, FIRST)
    graph.write(
        [
            Change("node:Person", pa.table({"name": ["a", "b"], "age": pa.array([1, 2], pa.int32())})),
            Change("node:Old", pa.table({"name": ["o"]})),
            Change("edge:Knows", pa.table({"id": ["e"], "src": ["a"], "dst": ["b"]})),
        ]
    )
    before = graph.commits.head().id
    graph.schema.apply(schema, **options)
    return Evolved(graph, before, graph.commits.head().id)


def test_every_read_gives_the_same_past_by_commit_version_and_time(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    then = graph.commits.head()
    text = graph.export().text
    graph.write([persons("a", "b", mode=Mode.MERGE, age=[9, 9])])
    for at in (then.id, then.version, then.created_at):
        assert graph.export(at=at).text == text
        assert rows_of(graph, "Person", at=at)["a"]["age"] is None
        assert graph.snapshot(at=at).count("Person") == 1
        query = "query q() { match { $p: Person } return { $p.handle as handle, $p.age as age } }"
        assert graph.query(query, at=at).rows() == [{"handle": "a", "age": None}]
        assert graph.diff(at, "main").stats.to_dict()["updates"] == 1


def test_moments_without_a_state_are_not_found(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    for at in (99, 0, datetime(1990, 1, 1, tzinfo=UTC), "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        with pytest.raises(CommitNotFound):
            graph.export(at=at)


def test_renamed_and_dropped_types_are_read_under_their_old_names(tmp_path: Path) -> None:
    made = _evolved(tmp_path / "g", RENAMED)
    graph = made.graph
    assert graph.query(NAMES, at=made.before).rows() == [{"name": "a", "age": 1}, {"name": "b", "age": 2}]
    assert set(graph.snapshot(at=made.before).tables) == {"node:Person", "node:Old", "edge:Knows"}
    lines = [json.loads(line) for line in (graph.export(at=made.before).text or "").splitlines()]
    assert {line.get("type") for line in lines} == {"Person", "Old", None}
    with pytest.raises(TypeNotFound):
        graph.snapshot().arrow("Person")
    again = og.open(graph.uri, mode="ro")
    assert again.query(NAMES, at=made.before).rows() == graph.query(NAMES, at=made.before).rows()


def test_a_rename_alone_is_no_change_and_rows_keep_their_later_names(tmp_path: Path) -> None:
    made = _evolved(tmp_path / "g", RENAMED)
    graph = made.graph
    assert [(each.type, each.op) for each in graph.diff(made.before, made.after)] == [("Old", "delete")]
    change = Change("node:Human", pa.table({"name": ["a"], "years": pa.array([5], pa.int32())}), Mode.MERGE)
    graph.write([change])
    for types in (["Human"], ["Person"]):
        (update,) = graph.diff(made.before, "main", types=types)
        assert (update.type, update.changed) == ("Human", ("years",))
        assert update.before == {"properties": {"years": 1, "name": "a", "nick": None}}
        assert update.after == {"properties": {"years": 5, "name": "a", "nick": None}}
    (back,) = graph.diff("main", made.before, kinds=["node"], ops=["update"])
    assert (back.type, back.changed) == ("Person", ("age",))


def test_a_widened_property_is_compared_by_value(tmp_path: Path) -> None:
    made = _evolved(tmp_path / "g", WIDENED)
    assert list(made.graph.diff(made.before, made.after)) == []
    rows = pa.table({"name": ["a"], "age": pa.array([2**40], pa.int64())})
    made.graph.write([Change("node:Person", rows, Mode.MERGE)])
    (update,) = made.graph.diff(made.before, "main")
    assert update.before is not None and update.before["properties"]["age"] == 1
    assert update.after is not None and update.after["properties"]["age"] == 2**40


@pytest.mark.parametrize("schema", [GROWN, SHRUNK], ids=["a property more", "a property less"])
def test_states_with_other_properties_are_not_compared(tmp_path: Path, schema: str) -> None:
    made = _evolved(tmp_path / "g", schema)
    graph = made.graph
    with pytest.raises(ChangeSchemaBoundary) as caught:
        graph.diff(made.before, made.after)
    assert caught.value.details["type_name"] == "Person"
    assert list(graph.diff(made.before, made.after, types=["Knows"])) == []
    with pytest.raises(ChangeSchemaBoundary) as caught:
        graph.commit_changes(made.after)
    assert caught.value.details["graph_commit_id"] == made.after
    graph.write([Change("node:Person", pa.table({"name": ["c"]}))])
    assert [each.id for each in graph.diff(made.after, "main")] == ["c"]


def test_a_feed_stops_before_a_schema_boundary_and_goes_on_behind_it(tmp_path: Path) -> None:
    made = _evolved(tmp_path / "g", GROWN)
    graph = made.graph
    graph.write([Change("node:Person", pa.table({"name": ["c"]}))])
    page = graph.changes("beginning")
    assert len(page.blocks) == 1 and not page.caught_up and page.cursor is not None
    with pytest.raises(ChangeSchemaBoundary) as caught:
        graph.changes(page.cursor)
    assert f"after:{made.after}" in (caught.value.hint or "")
    rest = graph.changes(f"after:{made.after}")
    assert [[change.id for change in block.changes] for block in rest] == [["c"]]
    assert rest.caught_up


def test_a_feed_across_renames_and_drops_rebuilds_the_graph(tmp_path: Path) -> None:
    made = _evolved(tmp_path / "g", RENAMED)
    graph = made.graph
    graph.write([Change("node:Human", pa.table({"name": ["c"]}))])
    by_id: Model = {}
    for block in graph.changes("beginning"):
        for change in block.changes:
            renamed = {"Person": "Human"}.get(change.type, change.type)
            place = (change.kind, renamed, change.id)
            by_id.pop(place, None)
            if change.after is not None:
                by_id[place] = change.after
    first = graph.commits.list()[-1].id
    assert by_id.keys() == model_of(graph.diff(first, "main")).keys()


def test_a_type_without_rows_may_change_its_properties(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", FIRST)
    first = graph.commits.head().id
    graph.schema.apply(GROWN)
    graph.write([Change("node:Person", pa.table({"name": ["a"]}))])
    model: Model = {}
    apply(model, graph.diff(first, "main"))
    assert model == {("node", "Person", "a"): {"properties": {"age": None, "mail": None, "name": "a", "nick": None}}}


def test_rows_that_were_given_up_are_reclaimed_and_not_half_there(tmp_path: Path) -> None:
    made = _evolved(tmp_path / "g", SHRUNK, allow_data_loss=True)
    graph = og.open(made.graph.uri)
    for read in (
        lambda: graph.export(at=made.before),
        lambda: graph.diff(made.before, made.after),
        lambda: graph.commit_changes(made.after),
        lambda: graph.query(NAMES, at=made.before),
    ):
        with pytest.raises(HistoricalVersionReclaimed) as caught:
            read()
        assert caught.value.details["type"] == "Person"
        assert caught.value.details["commit_id"] in (made.before, made.after)
        assert "nodes/" not in str(caught.value)
    with pytest.raises(ChangeFeedGap):
        graph.changes("beginning")


def test_a_commit_of_a_deleted_branch_is_not_taken_from_its_successor(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.branches.create("side")
    graph.write([persons("b")], branch="side")
    lost = graph.commits.head("side").id
    graph.branches.merge("side")
    graph.branches.delete("side")
    for remake in (False, True):
        if remake:
            graph.branches.create("side", at=graph.commits.list()[-1].id)
            graph.write([persons("x")], branch="side")
        with pytest.raises(OmniGraphError) as caught:
            graph.snapshot(at=lost)
        assert isinstance(caught.value, HistoricalVersionReclaimed | CommitNotFound)


def test_a_commit_must_belong_to_a_branch_that_is_named(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        old = graph.commits.head().id
        for name in ("a", "b"):
            graph.branches.create(name)
            graph.load({"Person": [{"handle": name}]}, "append", branch=name)
        own = graph.commits.head("a").id
        text = "query q() { match { $p: Person } return { count($p) as n } }"
        reads: list[Any] = [
            lambda **state: graph.query(text, **state).scalar(),
            lambda **state: len(graph.explain(text, run=True, **state).to_dict()["steps"]) and 2,
            lambda **state: graph.snapshot(**state).count("Person"),
            lambda **state: graph.export(types=["Person"], **state).nodes["Person"],
            lambda **state: graph.catalog_of(**state).nodes and 2,
        ]
        for read in reads:
            assert read(at=own) == read(branch="a", at=own) == 2
            for branch in ("b", "main"):
                with pytest.raises(CommitNotFound, match=f"is not in the history of branch '{branch}'") as caught:
                    read(branch=branch, at=own)
                assert caught.value.hint == "leave branch= out to read a commit of any branch"
        assert graph.snapshot("b", old).count("Person") == graph.snapshot("main", old).count("Person") == 1
        graph.branches.merge("a")
        assert graph.snapshot("main", own).count("Person") == 2, "what was merged is history of the target"
        with pytest.raises(CommitNotFound):
            graph.snapshot("b", "manifest:a:v99")
