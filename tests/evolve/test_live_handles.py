"""Open handles and a schema that changes under them: they go on with the new schema, and no old shape ever lands."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeSchemaMismatch, QueryTypeError, SchemaChanged
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.write.change import Change
from tests.evolve.graphs import SCHEMA, assert_whole, content, rows, small_graph
from tests.support.kill_runner import Rendezvous
from tests.support.schema_child import start_apply
from tests.support.waiting import wait_until

CHANGED = """
node Human @rename_from("Person") { name: String @key  age: I64  alias: String? @rename_from("nick")  mail: String? }
node Place { title: String @key }
edge Knows: Human -> Human { since: I32? }
"""
_NAMES = "query q() { match { $p: Human } return { $p.name, $p.alias, $p.mail } order { $p.name asc } }"


def _apply_elsewhere(uri: str, schema: str) -> None:
    with start_apply(uri, schema) as child:
        _, complaint = child.communicate(timeout=60)
    assert child.returncode == 0, complaint


def test_a_reader_and_a_writer_of_another_process_see_the_new_schema_with_their_next_operation(tmp_path: Path) -> None:
    writer = small_graph(tmp_path / "g")
    reader = og.open(tmp_path / "g", mode="ro")
    old = reader.snapshot()
    _apply_elsewhere(writer.uri, CHANGED)

    assert reader.query(_NAMES).rows()[0] == {"p.name": "Ann", "p.alias": "A", "p.mail": None}
    assert set(reader.catalog.nodes) == {"Human", "Place"}
    assert reader.schema.text == CHANGED
    assert reader.lint(_NAMES).ok
    assert old.count("Person") == 2
    writer.mutate('query m() { insert Human { name: "Zed", age: 1099511627776, mail: "z@x" } }')
    assert reader.query(_NAMES).rows()[2] == {"p.name": "Zed", "p.alias": None, "p.mail": "z@x"}
    with pytest.raises(QueryTypeError, match="Person"):
        writer.mutate('query m() { insert Person { name: "Yan", age: 1 } }')
    assert_whole(writer)


def test_a_load_through_an_old_handle_has_the_new_shape(tmp_path: Path) -> None:
    graph, other = small_graph(tmp_path / "g"), og.open(tmp_path / "g")
    graph.schema.apply(CHANGED)
    other.load({"Human": pa.table({"name": ["Eva"], "age": [5], "mail": ["e@x"]})}, "append", engine="embedded")
    assert [row["mail"] for row in rows(graph, "Human") if row["id"] == "Eva"] == ["e@x"]
    assert_whole(graph)


def test_rows_that_were_made_for_the_old_schema_are_refused(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    old = graph.catalog
    before = graph.schema.apply(SCHEMA.replace("  note: String?", "")).commit
    late: Write[None] = Write(
        "main", WriterKind.LOAD, None, lambda _: pytest.fail("rows of the old schema are staged"), schema=old.hash
    )
    with pytest.raises(SchemaChanged, match="the schema changed while this write was prepared"):
        run(graph._store, late)
    people = pa.table({"name": ["Zed"], "age": pa.array([1], pa.int32()), "note": ["late"]})
    with pytest.raises(og.OmniGraphError, match="unknown input field 'note'"):
        graph.write([Change("node:Person", people)])
    assert graph.commits.head() == before
    assert_whole(graph)


def test_writers_that_wait_for_a_schema_change_write_the_new_shape_or_nothing(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    meeting = Rendezvous(tmp_path / "meeting")
    ends: dict[str, object] = {}

    def insert(name: str, properties: str) -> None:
        try:
            ends[name] = graph.mutate(f"query m() {{ insert {properties} }}").commit
        except og.OmniGraphError as error:
            ends[name] = error

    with start_apply(graph.uri, CHANGED, f"write.after_table_commit[SchemaApply]={meeting.action}") as child:
        meeting.wait(child)
        writers = [
            threading.Thread(target=insert, args=("kept", 'Knows { from: "Bob", to: "Ann" }')),
            threading.Thread(target=insert, args=("renamed", 'Person { name: "Zed", age: 1 }')),
            threading.Thread(target=insert, args=("other", 'Place { title: "Oslo" }')),
        ]
        for writer in writers:
            writer.start()
        assert content(graph, at=graph.commits.head().id), "readers do not wait"
        meeting.release()
        assert child.wait(timeout=60) == 0
        for writer in writers:
            writer.join(timeout=60)
    assert isinstance(ends["renamed"], QueryTypeError)
    assert isinstance(ends["kept"], Commit)
    assert isinstance(ends["other"], Commit)
    assert len(rows(graph, "Knows")) == 2
    assert {row["id"] for row in rows(graph, "Human")} == {"Ann", "Bob"}
    assert_whole(graph)


def test_writers_in_a_row_of_schema_changes_lose_nothing(tmp_path: Path) -> None:
    """A property comes and goes while others insert: every acknowledged row is there, every schema was applied."""
    graph = small_graph(tmp_path / "g")
    other = og.open(tmp_path / "g", actor="act-ben")
    written: list[str] = []
    stop = threading.Event()

    def insert() -> None:
        number = 0
        while not stop.is_set():
            name = f"p{number}"
            other.mutate("query m($n: String) { insert Person { name: $n, age: 1 } }", params={"n": name})
            written.append(name)
            number += 1

    def wrote_more_than(seen: int) -> bool:
        return len(written) > seen or not writer.is_alive()

    writer = threading.Thread(target=insert)
    writer.start()
    try:
        for turn in range(4):
            seen = len(written)
            extra = "note: String?  mail: String?" if turn % 2 == 0 else "note: String?"
            assert graph.schema.apply(SCHEMA.replace("note: String?", extra)).applied
            wait_until(partial(wrote_more_than, seen), timeout=60, what="a write")
    finally:
        stop.set()
        writer.join(timeout=60)
    assert len(written) >= 4
    assert {row["id"] for row in rows(graph, "Person")} == {"Ann", "Bob", *written}
    assert_whole(graph)


def test_a_branch_from_before_a_change_keeps_its_schema_and_cannot_be_merged_across_it(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    before = graph.commits.head().id
    graph.schema.apply(CHANGED)
    graph.branches.create("past", at=before)
    graph.mutate('query m() { insert Person { name: "Zed", age: 1, note: "old" } }', branch="past")
    found = graph.query('query q() { match { $p: Person { name: "Zed" } } return { $p.note } }', branch="past")
    assert found.rows() == [{"p.note": "old"}]
    assert [row["id"] for row in rows(graph, "Human")] == ["Ann", "Bob"]
    for source, target in (("past", "main"), ("main", "past")):
        with pytest.raises(MergeSchemaMismatch):
            graph.branches.merge(source, target)
    graph.branches.create("twin", "past")
    graph.mutate('query m() { insert Person { name: "Yan", age: 2 } }', branch="twin")
    graph.branches.merge("twin", "past")
    assert {row["id"] for row in graph.snapshot("past").arrow("Person").to_pylist()} == {"Ann", "Bob", "Zed", "Yan"}
    assert_whole(graph)


def test_a_handle_reads_no_schema_file_again_while_the_schema_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, other = small_graph(tmp_path / "g"), og.open(tmp_path / "g")
    asked: list[str] = []
    read = ObjectStore.read

    def noted(objects: ObjectStore, path: str) -> bytes | None:
        asked.append(path)
        return read(objects, path)

    monkeypatch.setattr(ObjectStore, "read", noted)
    query = "query q() { match { $p: Person } return { $p.name } }"
    for number in range(3):
        graph.mutate("query m($n: String) { insert Person { name: $n, age: 1 } }", params={"n": f"p{number}"})
        assert len(graph.query(query)) == 3 + number
        assert len(other.query(query)) == 3 + number
    assert [path for path in asked if "schema" in path] == []
    graph.schema.apply(SCHEMA.replace("note: String?", "note: String?  mail: String?"))
    asked.clear()
    for _ in range(3):
        assert other.query("query q() { match { $p: Person } return { $p.mail } }").rows()[0] == {"p.mail": None}
    assert len([path for path in asked if "schema" in path]) == 1
