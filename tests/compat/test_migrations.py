"""Graphs of older layouts: migrated when opened for writing, readable as they are, refused when newer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import CorruptGraph, NewerFormat, OmniGraphError, SchemaFilesDisagree
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.change import Change
from tests.support.foreign_writer import (
    GENESIS,
    SECOND,
    manifest_rows,
    manifest_uri,
    old_graph,
    stamp_on_disk,
)
from tests.support.small_graphs import ids_of, listing, run_child, start_child
from tests.support.waiting import wait_until

OLD = pytest.mark.parametrize("stamp", [None, "1", "2"], ids=["no stamp", "stamp 1", "stamp 2"])
OPEN = "import omnigraph as og, sys\nwith og.open(sys.argv[1]) as g:\n    print(g.snapshot().count('Person'))\n"


def _add(graph: og.Graph, name: str, branch: str = "main") -> Commit:
    done = graph.write([Change("node:Person", pa.table({"name": [name]}))], branch=branch).commit
    assert done is not None
    return done


def _assert_migrated(root: Path) -> None:
    manifest = lance.dataset(manifest_uri(root))
    assert stamp_on_disk(root) == "3"
    assert manifest.schema.field("object_id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert not [name for name in manifest.branches.list() if name.startswith("__run__")]


@OLD
def test_a_write_open_migrates_and_shows_what_was_there(tmp_path: Path, stamp: str | None) -> None:
    root = old_graph(tmp_path, stamp, runs=2)
    with og.open(root) as graph:
        _assert_migrated(root)
        assert ids_of(graph, "Person") == {"ann", "bob"}
        assert graph.snapshot().arrow("Knows").to_pylist() == [{"id": "e1", "src": "ann", "dst": "bob"}]
        assert graph.branches.list() == ["main"]
        versions = listing(root / "__manifest" / "_versions")
    og.open(root).close()
    assert listing(root / "__manifest" / "_versions") == versions, "a second open wrote again"


@OLD
def test_writes_continue_the_foreign_history(tmp_path: Path, stamp: str | None) -> None:
    root = old_graph(tmp_path, stamp)
    with og.open(root, actor="act-new") as graph:
        assert [commit.id for commit in graph.commits.list()] == [SECOND, GENESIS]
        first = _add(graph, "cy")
        assert first.parent == SECOND
        second = _add(graph, "di")
        chain = graph.commits.list()
        assert [commit.id for commit in chain] == [second.id, first.id, SECOND, GENESIS]
        assert [commit.actor for commit in chain] == ["act-new", "act-new", "act-old", None]
        assert chain[2].created_at == datetime(2024, 5, 2, 10, tzinfo=UTC)
        states = [ids_of(graph, "Person", at=commit.id) for commit in chain]
        assert states == [{"ann", "bob", "cy", "di"}, {"ann", "bob", "cy"}, {"ann", "bob"}, {"ann"}]
        assert ids_of(graph, "Person", at=datetime(2024, 5, 1, 12, tzinfo=UTC)) == {"ann"}
        assert graph.commits.get(GENESIS).parent is None
    mirrored = lance.dataset(str(root / "_graph_commits.lance")).to_table().to_pylist()
    assert [row["graph_commit_id"] for row in mirrored] == [GENESIS, SECOND, first.id, second.id]


def test_the_first_write_of_ours_repairs_the_rows_of_the_present(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "2")
    with og.open(root) as graph:
        _add(graph, "cy")
    rows = manifest_rows(root)
    tables = {row["object_id"]: row for row in rows if row["object_type"] == "table"}
    assert {key: (row["table_version"], row["row_count"]) for key, row in tables.items()} == {
        "node:Person": (3, 3),
        "edge:Knows": (2, 1),
    }
    assert len([row for row in rows if row["object_type"] in ("table", "graph_head")]) == 3
    before = [row["metadata"] for row in rows if row["object_id"] == "node:Person$00000000000000000002"]
    assert '"seen": "before"' in before[0]


def test_branches_of_an_old_graph_are_migrated_each_when_written(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "2")
    lance.dataset(manifest_uri(root)).create_branch("side", (None, 4))
    with og.open(root) as graph:
        assert (stamp_on_disk(root), stamp_on_disk(root, "side")) == ("3", "2")
        assert ids_of(graph, "Person", "side") == {"ann", "bob"}
        done = _add(graph, "cy", "side")
        assert done.parent == SECOND
        assert stamp_on_disk(root, "side") == "3"
        assert (ids_of(graph, "Person", "side"), ids_of(graph, "Person")) == ({"ann", "bob", "cy"}, {"ann", "bob"})


def test_a_branch_of_an_old_graph_can_be_forked(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "1")
    with og.open(root) as graph:
        graph.branches.create("early", at=GENESIS)
        assert ids_of(graph, "Person", "early") == {"ann"}
        assert _add(graph, "cy", "early").parent == GENESIS
        assert [commit.id for commit in graph.commits.list("early")][1:] == [GENESIS]


def test_a_graph_without_commit_datasets_gets_them(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "2", commits=False)
    with og.open(root) as graph:
        head = graph.commits.head()
        assert head.id == "manifest:main:v5"
        assert ids_of(graph, "Person", at=head.id) == {"ann", "bob"}
        done = _add(graph, "cy")
        assert done.parent == head.id
        assert graph.commits.list()[0] == done
    assert lance.dataset(str(root / "_graph_commits.lance")).count_rows() == 1


@OLD
def test_a_read_only_open_of_an_old_graph_reads_and_writes_nothing(tmp_path: Path, stamp: str | None) -> None:
    root = old_graph(tmp_path, stamp, runs=1)
    before = listing(root)
    with og.open(root, mode="ro") as graph:
        assert ids_of(graph, "Person") == {"ann", "bob"}
        assert ids_of(graph, "Person", at=GENESIS) == {"ann"}
        assert [commit.id for commit in graph.commits.list()] == [SECOND, GENESIS]
        assert graph.branches.list() == ["main", "__run__0"]
        assert graph.recoveries == []
    assert listing(root) == before


@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize(
    ("stamp", "error"),
    [
        ("4", NewerFormat),
        ("17", NewerFormat),
        ("abc", CorruptGraph),
        ("0", CorruptGraph),
        ("-1", CorruptGraph),
        ("", CorruptGraph),
        ("3.0", CorruptGraph),
        ("٣", CorruptGraph),
    ],
)
def test_a_stamp_that_is_not_ours_is_refused_before_any_write(
    tmp_path: Path, stamp: str, error: type[OmniGraphError], mode: Literal["rw", "ro"]
) -> None:
    root = old_graph(tmp_path, stamp, runs=1)
    before = listing(root)
    with pytest.raises(error) as caught:
        og.open(root, mode=mode)
    assert listing(root) == before
    if error is NewerFormat:
        assert "upgrade" in str(caught.value)
        assert (caught.value.details["found"], caught.value.details["supported"]) == (int(stamp), 3)


def test_an_open_handle_refuses_a_graph_that_was_upgraded_under_it(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "3")
    graph = og.open(root)
    _add(graph, "cy")
    lance.dataset(manifest_uri(root)).update_schema_metadata({"omnigraph:internal_schema_version": "4"})
    before = listing(root / "nodes")
    with pytest.raises(NewerFormat):
        _add(graph, "di")
    with pytest.raises(NewerFormat):
        graph.snapshot()
    assert listing(root / "nodes") == before


@pytest.mark.parametrize("nth", [1, 2])
def test_a_migration_that_is_killed_is_repeated_by_the_next_open(tmp_path: Path, nth: int) -> None:
    root = old_graph(tmp_path, None, runs=2)
    child = run_child(OPEN, str(root), env={"OMNIGRAPH_FAILPOINTS": f"migrate.between_work_and_stamp=kill@{nth}"})
    assert child.returncode == -9, child.stderr
    assert stamp_on_disk(root) == {1: None, 2: "2"}[nth]
    with og.open(root, mode="ro") as graph:
        assert ids_of(graph, "Person") == {"ann", "bob"}
    with og.open(root) as graph:
        _assert_migrated(root)
        assert _add(graph, "cy").parent == SECOND


@pytest.mark.parametrize("nth", [1, 2])
def test_two_processes_migrate_at_once(tmp_path: Path, nth: int) -> None:
    root = old_graph(tmp_path / "g", None, runs=2)
    meeting = tmp_path / "meeting"
    pause = {"OMNIGRAPH_FAILPOINTS": f"migrate.between_work_and_stamp=pause:{meeting}@{nth}"}
    slow = start_child(OPEN, str(root), env=pause)
    wait_until(meeting.with_name("meeting.reached").exists, timeout=60, what="the first process to be in between")
    with og.open(root) as graph:
        _assert_migrated(root)
        done = _add(graph, "cy")
    meeting.with_name("meeting.release").touch()
    out, err = slow.communicate(timeout=60)
    assert (slow.returncode, out.strip()) == (0, "3"), err
    _assert_migrated(root)
    with og.open(root) as graph:
        assert graph.commits.head() == done
        assert ids_of(graph, "Person") == {"ann", "bob", "cy"}


def test_another_primary_key_mark_is_refused(tmp_path: Path) -> None:
    root = old_graph(tmp_path, None)
    lance.dataset(manifest_uri(root)).update_field_metadata(
        {"table_key": {"lance-schema:unenforced-primary-key": "true"}}
    )
    with pytest.raises(CorruptGraph, match="primary key"):
        og.open(root)
    assert stamp_on_disk(root) is None


def test_very_old_schema_files_are_completed_from_the_source(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "2")
    texts = {name: (root / name).read_bytes() for name in ("_schema.ir.json", "__schema_state.json")}
    for name in texts:
        (root / name).unlink()
    before = listing(root)
    with og.open(root, mode="ro") as graph:
        assert ids_of(graph, "Person") == {"ann", "bob"}
    assert listing(root) == before
    with og.open(root) as graph:
        assert _add(graph, "cy").parent == SECOND
    assert {name: (root / name).read_bytes() for name in texts} == texts


def test_a_completion_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "2")
    state = (root / "__schema_state.json").read_bytes()
    (root / "__schema_state.json").unlink()
    og.open(root).close()
    assert (root / "__schema_state.json").read_bytes() == state


@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize(
    ("missing", "edited", "blamed"),
    [
        (["_schema.ir.json"], None, "_schema.ir.json"),
        (["_schema.pg"], None, "_schema.pg"),
        (["_schema.pg", "_schema.ir.json", "__schema_state.json"], None, "_schema.pg"),
        (["__schema_state.json"], "_schema.ir.json", "__schema_state.json"),
        (["__schema_state.json", "_schema.ir.json"], "_schema.pg", "_schema.ir.json"),
    ],
)
def test_schema_files_that_prove_nothing_are_refused(
    tmp_path: Path, missing: list[str], edited: str | None, blamed: str, mode: Literal["rw", "ro"]
) -> None:
    root = old_graph(tmp_path, "3")
    for name in missing:
        (root / name).unlink()
    if edited:
        (root / edited).write_text("{}")
    before = listing(root)
    with pytest.raises(SchemaFilesDisagree, match=blamed):
        og.open(root, mode=mode)
    assert {name: when for name, when in listing(root).items() if "schema" in name} == {
        name: when for name, when in before.items() if "schema" in name
    }


def test_missing_schema_files_are_not_guessed_when_there_are_branches(tmp_path: Path) -> None:
    root = old_graph(tmp_path, "2")
    lance.dataset(manifest_uri(root)).create_branch("side", (None, 4))
    for name in ("_schema.ir.json", "__schema_state.json"):
        (root / name).unlink()
    with pytest.raises(SchemaFilesDisagree):
        og.open(root)
