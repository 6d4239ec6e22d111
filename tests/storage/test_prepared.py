"""Publishes that show more than table commits: pins as they are, merges, labels; also when somebody else ends them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints, ids
from omnigraph.errors import ConflictError, InternalError, RecoveryRequired, UnreadableSidecar
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.preparation import Merged, Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, manifest
from omnigraph.storage.metadata.commit_note import RowCounts
from omnigraph.storage.metadata.manifest import Commit, Pin, fold
from omnigraph.storage.tables.datasets import TableVersion, as_dataset
from omnigraph.storage.tables.stage_columns import stage_new
from omnigraph.storage.tables.stage_rows import stage_overwrite
from omnigraph.write.change import Change

SCHEMA = "node Person { name: String @key }\nnode Place { title: String @key }"


def _graph(root: Path) -> og.Graph:
    graph = og.init(root, SCHEMA)
    graph.write([Change("node:Person", pa.table({"name": ["Ann"]}))])
    return graph


def _run(
    store: GraphStore, prepare: Callable[[Workspace], Prepared[None]], kind: WriterKind = WriterKind.BRANCH_MERGE
) -> Commit:
    commit = run(store, Write(ids.MAIN, kind, "act-anna", prepare, message="why", done="restore")).commit
    assert commit is not None
    return commit


def _both_ways(store: GraphStore) -> None:
    """The newest fragment and the whole history tell the same present."""
    shown = store.snapshot(ids.MAIN)
    folded = fold(shown.handle, ids.MAIN)
    assert (folded.pins, folded.hidden, folded.head) == (shown.pins, shown.hidden, shown.head)


def _emptied(workspace: Workspace, key: str) -> dict[str, PreparedTable]:
    pin, handle = workspace.writable(key)
    return {key: PreparedTable(pin, handle, stage_overwrite(handle, handle.schema.empty_table()), reads_rows=True)}


def _new(key: str, location: str) -> PreparedTable:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)])
    metadata = manifest.pin_metadata(location, 0, None)
    return PreparedTable(Pin(key, location, 0, None, 0, metadata), None, stage_new(schema), reads_rows=False)


def _always(prepared: Prepared[None]) -> Callable[[Workspace], Prepared[None]]:
    return lambda _: prepared


def test_nothing_prepared_is_nothing_committed_and_labels_alone_are_no_change(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    before = graph.commits.head()
    for prepared in (Prepared(None), Prepared(None, labels={"job": "7"})):
        assert run(graph._store, Write(ids.MAIN, WriterKind.LOAD, None, _always(prepared))).commit is None
    assert graph.commits.head() == before


def test_a_merge_with_no_table_moved_is_one_commit_that_keeps_the_commits_of_its_source(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    graph.branches.create("side")
    graph.write([Change("node:Place", pa.table({"title": ["Rome"]}))], branch="side")
    source, target = graph.commits.head("side"), graph.commits.head()
    merged = Prepared(None, merged=Merged(source.id, (source,)))
    commit = _run(graph._store, lambda _: merged)
    assert (commit.parent, commit.merged_parent, commit.version) == (target.id, source.id, target.version + 1)
    graph.branches.delete("side")
    assert graph.commits.get(source.id) == source
    assert [each.id for each in graph.commits.list()][:2] == [commit.id, target.id]
    snapshot = graph._store.snapshot(ids.MAIN)
    assert source.id in commit_log.commits_of(graph._store.tables, snapshot)
    assert source.id not in {each.id for each in commit_log.own_commits(graph._store.tables, snapshot)}
    graph._store.mirror.flush()
    assert source.id not in {each.id for each in commit_log.mirrored_commits(graph._store.tables, ids.MAIN)}
    again = _run(graph._store, lambda _: merged)
    assert again.parent == commit.id
    assert as_dataset(graph._store.snapshot(ids.MAIN).handle).count_rows(f"object_id = '{source.id}'") == 1


def test_labels_are_kept_in_the_commit_and_find_it(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    store = graph._store
    commit = _run(store, lambda ws: Prepared(None, _emptied(ws, "node:Person"), labels={"job": "j'1"}), WriterKind.LOAD)
    assert commit.labels == {"job": "j'1"}
    assert graph.commits.get(commit.id) == commit
    assert commit.to_dict()["labels"] == {"job": "j'1"}
    assert "labels" not in graph.commits.list()[-1].to_dict()
    graph.write([Change("node:Person", pa.table({"name": ["Bob"]}))])
    assert commit_log.find_by_label(store.tables, store.snapshot(ids.MAIN), "job", "j'1") == commit
    assert commit_log.find_by_label(store.tables, store.snapshot(ids.MAIN), "job", "j") is None


def test_a_pointer_shows_a_version_as_it_is_and_a_tombstone_hides_a_key(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    pin = graph.snapshot().tables["node:Person"]
    renamed = replace(pin, table_key="node:Human")
    _run(
        graph._store,
        lambda _: Prepared(None, pointers={"node:Human": renamed}, tombstones={"node:Person": pin.version + 1}),
    )
    assert set(graph.snapshot().tables) == {"node:Human", "node:Place"}
    assert graph.snapshot().tables["node:Human"] == renamed
    assert graph.snapshot().arrow("Human").num_rows == 1
    _both_ways(graph._store)


def test_a_pointer_to_an_older_version_is_refused(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    pin = graph.snapshot().tables["node:Person"]
    before = graph.commits.head()
    with pytest.raises(InternalError, match="does not follow"):
        _run(graph._store, lambda _: Prepared(None, pointers={"node:Person": replace(pin, version=1, row_count=0)}))
    with pytest.raises(ConflictError, match="lies at"):
        elsewhere = replace(pin, location="nodes/elsewhere", version=9)
        _run(graph._store, lambda _: Prepared(None, pointers={"node:Person": elsewhere}))
    assert graph.commits.head() == before
    assert sidecar.pending(graph._store.objects) == []


def test_a_version_that_is_handed_to_another_lineage_has_one_row(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    pin = graph.snapshot().tables["node:Person"]
    graph._store.tables.fork(TableVersion(pin.location, None, pin.version), "side")
    handed = replace(pin, branch="side")
    _run(graph._store, lambda _: Prepared(None, pointers={"node:Person": handed}))
    assert graph.snapshot().tables["node:Person"] == handed
    _both_ways(graph._store)
    row = manifest.version_id("node:Person", pin.version)
    assert as_dataset(graph._store.snapshot(ids.MAIN).handle).count_rows(f"object_id = '{row}'") == 1


def test_a_new_table_is_made_by_the_commit_that_shows_it(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    made = Prepared(None, {"node:City": _new("node:City", "nodes/city")})
    _run(graph._store, lambda _: made, WriterKind.SCHEMA_APPLY)
    pin = graph.snapshot().tables["node:City"]
    assert (pin.version, pin.row_count, pin.location) == (1, 0, "nodes/city")
    handle = graph._store.tables.newest("nodes/city")
    assert handle.read_transaction(1).uuid == pin.origin
    assert handle.has_stable_row_ids
    with pytest.raises(ConflictError, match="lies at nodes/city"):
        _run(
            graph._store,
            lambda _: Prepared(None, {"node:City": _new("node:City", "nodes/other")}),
            WriterKind.SCHEMA_APPLY,
        )
    assert sidecar.pending(graph._store.objects) == []
    _both_ways(graph._store)


@pytest.mark.parametrize("point", ["write.after_table_commit", "publish.before_commit", "publish.lost_ack"])
def test_whoever_finishes_an_interrupted_publish_shows_exactly_the_same(tmp_path: Path, point: str) -> None:
    graph = _graph(tmp_path / "g")
    graph.branches.create("side")
    graph.write([Change("node:Place", pa.table({"title": ["Rome"]}))], branch="side")
    source, place = graph.commits.head("side"), graph.snapshot().tables["node:Place"]
    spot = replace(place, table_key="node:Spot")

    def prepare(workspace: Workspace) -> Prepared[None]:
        tables = {**_emptied(workspace, "node:Person"), "node:City": _new("node:City", "nodes/city")}
        return Prepared(
            None,
            tables,
            pointers={"node:Spot": spot},
            tombstones={"node:Place": place.version + 1},
            merged=Merged(source.id, (source,)),
            labels={"job": "7"},
        )

    failpoints.arm(f"{point}=raise")
    with pytest.raises((RecoveryRequired, og.OmniGraphError)):
        _run(graph._store, prepare)
    failpoints.arm("")
    (operation,) = sidecar.pending(graph._store.objects)
    record = sidecar.read(graph._store.objects, operation)
    assert record is not None and record.commit is not None
    assert sidecar.from_json(sidecar.to_json(record), operation) == record
    assert graph.recover() == 1
    head = graph.commits.head()
    assert (head.id, head.actor, head.labels) == (record.commit.id, "act-anna", {"job": "7"})
    assert (head.kind, head.message, head.rows) == ("restore", "why", {"node:Person": RowCounts(deleted=1)})
    assert head.merged_parent == source.id
    graph.branches.delete("side")
    assert graph.commits.get(source.id) == source
    tables = graph.snapshot().tables
    assert set(tables) == {"node:Person", "node:City", "node:Spot"}
    assert (tables["node:Spot"], tables["node:City"].version, tables["node:Person"].row_count) == (spot, 1, 0)
    _both_ways(graph._store)


def test_a_record_that_does_not_say_where_its_tables_lie_is_finished_too(tmp_path: Path) -> None:
    """Older software left that to the graph, and recorded no schema."""
    graph = _graph(tmp_path / "g")
    failpoints.arm("write.after_table_commit=raise")
    with pytest.raises(RecoveryRequired):
        graph.write([Change("node:Person", pa.table({"name": ["Bob"]}))])
    failpoints.arm("")
    (path,) = (tmp_path / "g" / "__recovery").glob("*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["tables"][0]["location"]
    record["intent"]["base"].pop("schema_ir_hash")
    path.write_text(json.dumps(record), encoding="utf-8")
    assert graph.recover() == 1
    assert {row["id"] for row in graph.snapshot().arrow("Person").to_pylist()} == {"Ann", "Bob"}
    assert graph._store.snapshot(ids.MAIN).schema == graph.schema.hash


@pytest.mark.parametrize("location", ["/etc", "../outside", "nodes/../../outside"])
def test_a_record_that_leads_out_of_the_graph_is_not_followed(tmp_path: Path, location: str) -> None:
    graph = _graph(tmp_path / "g")
    failpoints.arm("write.after_table_commit=raise")
    with pytest.raises(RecoveryRequired):
        graph.write([Change("node:Person", pa.table({"name": ["Bob"]}))])
    failpoints.arm("")
    (path,) = (tmp_path / "g" / "__recovery").glob("*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    record["tables"][0]["location"] = location
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(UnreadableSidecar):
        graph.recover()
    assert not (tmp_path / "outside").exists()
