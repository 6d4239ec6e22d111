"""A graph comes into being as a whole or not at all, and touches nothing that is not its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import AlreadyInitialized, CorruptGraph, GraphNotFound, SchemaSyntaxError, StorageError
from omnigraph.schema import stable_ids
from omnigraph.write.change import Change
from tests.support.foreign_writer import MANIFEST_SCHEMA
from tests.support.s3_server import S3Server
from tests.support.small_graphs import PEOPLE, files_below, ids_of, listing, people, persons, run_child, start_child
from tests.support.waiting import wait_until

BEFORE_THE_MANIFEST = [
    "init.after_schema_pg_written",
    "init.after_schema_contract_written",
    "init.after_tables_created",
]
INIT = "import omnigraph as og, sys\nfrom tests.support.small_graphs import PEOPLE\nog.init(sys.argv[1], PEOPLE)\n"


def _is_lock(name: str) -> bool:
    return name.endswith((".lock", ".lease"))


def test_the_files_of_a_new_graph_are_those_of_the_layout(tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    names = {name for name in os.listdir(tmp_path / "g") if name != "__recovery"}
    assert names == {
        "_schema.pg",
        "_schema.ir.json",
        "__schema_state.json",
        "__manifest",
        "nodes",
        "edges",
        "_graph_commits.lance",
        "_graph_commit_actors.lance",
    }
    assert all(_is_lock(name) for name in os.listdir(tmp_path / "g" / "__recovery"))
    assert os.listdir(tmp_path / "g" / "edges") and "40d76f1f51639ec0" in os.listdir(tmp_path / "g" / "nodes")
    assert (tmp_path / "g" / "_schema.pg").read_text() == PEOPLE


def test_the_first_manifest_version_is_complete(tmp_path: Path) -> None:
    people(tmp_path / "g", actor="act-anna").close()
    manifest = lance.dataset(str(tmp_path / "g" / "__manifest"))
    first = manifest.checkout_version(1)
    assert first.schema.equals(MANIFEST_SCHEMA, check_metadata=False)
    assert [field.nullable for field in first.schema] == [field.nullable for field in MANIFEST_SCHEMA]
    assert first.schema.field("object_id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert first.schema.metadata == {b"omnigraph:internal_schema_version": b"3"}
    assert manifest.has_stable_row_ids and manifest.data_storage_version == "2.2"
    assert manifest.config()["table_version_management"] == "true"
    assert not [key for key in manifest.config() if "auto_cleanup" in key]
    rows = {row["object_id"]: row for row in first.to_table().to_pylist()}
    person = rows["node:Person"]
    assert (person["object_type"], person["location"], person["table_version"], person["row_count"]) == (
        "table",
        "nodes/40d76f1f51639ec0",
        1,
        0,
    )
    version = rows["node:Person$00000000000000000001"]
    assert (version["object_type"], version["table_version"], version["row_count"]) == ("table_version", 1, 0)
    assert (version["location"], version["table_branch"], version["base_objects"]) == (None, None, None)
    details = json.loads(version["metadata"])
    path = f"{tmp_path}/g/nodes/40d76f1f51639ec0/_versions/18446744073709551614.manifest"
    assert (details["manifest_path"].lstrip("/"), details["naming_scheme"]) == (path.lstrip("/"), "V2")
    assert set(details) >= {"manifest_path", "manifest_size", "e_tag", "naming_scheme"}
    assert os.path.exists("/" + details["manifest_path"].lstrip("/"))
    genesis = next(row for row in rows.values() if row["object_type"] == "graph_commit")
    assert (genesis["table_key"], genesis["table_version"], genesis["table_branch"]) == ("", 1, None)
    assert set(json.loads(genesis["metadata"])) == {"actor_id", "created_at", "kind"}
    head = json.loads(rows["graph_head:main"]["metadata"])
    assert (head["head_commit_id"], rows["graph_head:main"]["table_key"]) == (genesis["object_id"], "")
    assert len(rows) == 4 * 2 + 2


def test_every_table_has_stable_row_ids_and_the_agreed_file_format(tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    places = [*(tmp_path / "g" / "nodes").iterdir(), *(tmp_path / "g" / "edges").iterdir()]
    places += [tmp_path / "g" / name for name in ("_graph_commits.lance", "_graph_commit_actors.lance")]
    assert len(places) == 6
    for place in places:
        table = lance.dataset(str(place))
        assert (table.has_stable_row_ids, table.data_storage_version) == (True, "2.2"), place
    person = lance.dataset(str(tmp_path / "g" / "nodes" / "40d76f1f51639ec0"))
    assert person.schema.names == ["id", "age", "email", "handle"]
    assert not person.schema.field("id").nullable


def test_a_second_init_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    people(tmp_path / "g", "a").close()
    before = files_below(tmp_path / "g")
    for force in (False, True):
        with pytest.raises(AlreadyInitialized) as caught:
            og.init(tmp_path / "g", "node Other { x: String }", force=force)
        assert caught.value.details["uri"] == str(tmp_path / "g")
    assert files_below(tmp_path / "g") == before
    assert ids_of(og.open(tmp_path / "g"), "Person") == {"a"}


def test_schema_files_without_a_graph_need_force(tmp_path: Path) -> None:
    (tmp_path / "_schema.pg").write_text("node Old { x: String }")
    with pytest.raises(AlreadyInitialized):
        people(tmp_path)
    assert (tmp_path / "_schema.pg").read_text() == "node Old { x: String }"
    with og.init(tmp_path, PEOPLE, force=True) as graph:
        graph.write([persons("a")])
    assert (tmp_path / "_schema.pg").read_text() == PEOPLE


@pytest.mark.parametrize("text", ["node", "node A { x: Strin }", ""])
def test_a_wrong_schema_writes_nothing(tmp_path: Path, text: str) -> None:
    root = tmp_path / "g"
    try:
        og.init(root, text)
    except og.OmniGraphError:
        assert not root.exists()
    else:
        assert text == "" and og.open(root).snapshot().tables == {}, "an empty schema is a schema"


def test_a_schema_file_is_named_in_its_error(tmp_path: Path) -> None:
    (tmp_path / "bad.pg").write_text("node A {")
    with pytest.raises(SchemaSyntaxError, match=r"bad\.pg"):
        og.init(tmp_path / "g", tmp_path / "bad.pg")


@pytest.mark.parametrize("failpoint", BEFORE_THE_MANIFEST)
def test_a_failed_init_leaves_the_directory_as_it_was(tmp_path: Path, failpoint: str) -> None:
    root = tmp_path / "g"
    root.mkdir()
    (root / "mine.txt").write_text("keep")
    (root / "nodes").mkdir()
    (root / "nodes" / "note.txt").write_text("keep")
    failpoints.arm(f"{failpoint}=raise")
    try:
        with pytest.raises(og.OmniGraphError):
            people(root)
    finally:
        failpoints.arm("")
    assert {name for name in files_below(root) if not _is_lock(name)} == {"mine.txt", "nodes/note.txt"}
    with pytest.raises(GraphNotFound):
        og.open(root)
    with people(root, "a") as graph:
        assert ids_of(graph, "Person") == {"a"}
    assert (root / "nodes" / "note.txt").read_text() == "keep"


@pytest.mark.parametrize("failpoint", BEFORE_THE_MANIFEST)
def test_a_killed_init_is_cleared_by_the_next(tmp_path: Path, failpoint: str) -> None:
    root = tmp_path / "g"
    child = run_child(INIT, str(root), env={"OMNIGRAPH_FAILPOINTS": f"{failpoint}=kill"})
    assert child.returncode == -9, child.stderr
    for mode in ("rw", "ro"):
        with pytest.raises(GraphNotFound):
            og.open(root, mode=mode)
    with og.init(root, "node Other { x: String @key }") as graph:
        graph.write([Change("node:Other", pa.table({"x": ["a"]}))])
        assert set(graph.snapshot().tables) == {"node:Other"}
    assert [path.name for path in (root / "nodes").iterdir() if any(path.rglob("*.lance"))] != []
    assert not [name for name in files_below(root) if "40d76f1f51639ec0" in name], "the dead init's table is left"


@pytest.mark.parametrize("action", ["raise", "kill"])
def test_after_the_manifest_the_graph_exists(tmp_path: Path, action: str) -> None:
    root = tmp_path / "g"
    child = run_child(INIT, str(root), env={"OMNIGRAPH_FAILPOINTS": f"init.post_manifest_create={action}"})
    assert child.returncode != 0
    if action == "raise":
        assert "initialised, but" in child.stderr
    with og.open(root) as graph:
        graph.write([persons("a")])
        assert ids_of(graph, "Person") == {"a"}
        assert len(graph.commits.list()) == 2
    with pytest.raises(AlreadyInitialized):
        people(root)
    assert lance.dataset(str(root / "_graph_commits.lance")).count_rows() == 2


def test_two_inits_at_once_have_one_winner(tmp_path: Path) -> None:
    root, meeting = tmp_path / "g", tmp_path / "meeting"
    slow = start_child(INIT, str(root), env={"OMNIGRAPH_FAILPOINTS": f"init.after_tables_created=pause:{meeting}"})
    wait_until(meeting.with_name("meeting.reached").exists, timeout=60, what="the first init to be in the middle")
    second = start_child(INIT, str(root))
    meeting.with_name("meeting.release").touch()
    outcomes = [child.communicate(timeout=60)[1] for child in (slow, second)]
    codes = [slow.returncode, second.returncode]
    assert sorted(codes) == [0, 1], outcomes
    assert codes[0] == 0, "the first holds the section"
    assert "AlreadyInitialized" in outcomes[1]
    assert og.open(root).snapshot().count("Person") == 0


def test_an_init_beside_a_running_one_times_out_with_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, meeting = tmp_path / "g", tmp_path / "meeting"
    slow = start_child(INIT, str(root), env={"OMNIGRAPH_FAILPOINTS": f"init.after_tables_created=pause:{meeting}"})
    wait_until(meeting.with_name("meeting.reached").exists, timeout=60, what="the first init to be in the middle")
    monkeypatch.setenv("OMNIGRAPH_LOCK_TIMEOUT", "0.1")
    with pytest.raises(og.errors.LockTimeout):
        people(root)
    with pytest.raises(GraphNotFound):
        og.open(root, mode="ro")
    meeting.with_name("meeting.release").touch()
    assert slow.communicate(timeout=60)[1] == ""


def test_foreign_files_where_a_table_would_go_stop_the_init_and_survive(tmp_path: Path) -> None:
    place = tmp_path / "g" / "nodes" / "40d76f1f51639ec0"
    place.mkdir(parents=True)
    (place / "treasure").write_text("keep")
    with pytest.raises(StorageError, match="belongs to no graph"):
        people(tmp_path / "g")
    assert {name for name in files_below(tmp_path / "g") if not _is_lock(name)} == {"nodes/40d76f1f51639ec0/treasure"}


def test_two_types_with_one_hash_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_ids, "table_path", lambda kind, name: f"{kind}s/0000000000000000")
    with pytest.raises(StorageError, match="rename one of them"):
        og.init(tmp_path / "g", "node A { x: String }\nnode B { x: String }")
    assert not [name for name in files_below(tmp_path) if not _is_lock(name)]


def test_a_node_type_and_an_edge_type_of_one_name_live_side_by_side(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node Likes { k: String @key }\nedge Likes: Likes -> Likes") as made:
        made.write(
            [
                Change("node:Likes", pa.table({"k": ["a"]})),
                Change("edge:Likes", pa.table({"src": ["a"], "dst": ["a"]})),
            ]
        )
        assert {pin.row_count for pin in made.snapshot().tables.values()} == {1}


NAMES = [
    "a b",
    "a~b",
    "a*b",
    "{a}",
    "<a>",
    "a|b",
    "a^b",
    "a`b",
    "ünïcödé-図",
    "a#b",
    "a%20b",
    "a'b",
    'a"b',
    "a\\b",
    "a&b=c",
    "a+b",
    "a:b",
    "[x]",
    "x" * 200,
    "$HOME",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_lives_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    with people(root, "a") as graph:
        graph.branches.create("side/x")
        graph.write([persons("b")], branch="side/x")
        graph.ensure_indices()
        graph.write([persons("a", age=[3], mode=og.write.change.Mode.MERGE)])
    with og.open(root) as graph:
        assert (ids_of(graph, "Person"), ids_of(graph, "Person", "side/x")) == ({"a"}, {"a", "b"})
    assert [path.name for path in tmp_path.iterdir()] == [name], "something landed outside the root"


@pytest.mark.s3
@pytest.mark.parametrize("name", ["a#b", "ü %20"])
def test_a_graph_lives_below_a_prefix_of_any_name(s3: S3Server, s3_root: str, name: str) -> None:
    with people(f"{s3_root}/{name}/g", "a") as graph:
        graph.branches.create("side/x")
        graph.write([persons("b")], branch="side/x")
    with og.open(f"{s3_root}/{name}/g", mode="ro") as graph:
        assert (ids_of(graph, "Person"), ids_of(graph, "Person", "side/x")) == ({"a"}, {"a", "b"})
    prefix = s3_root.removeprefix(f"{s3.url}/")
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=s3.bucket)
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    outside = {key for key in keys if prefix in key and not key.startswith(f"{prefix}/{name}/g/")}
    assert not outside
    assert not [key for key in keys if key.startswith(("a/", "a b", "nodes", "__manifest"))]


def test_a_very_deep_path_works_or_says_why(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["d" * 100] * 12)
    with people(root, "a") as graph:
        assert ids_of(graph, "Person") == {"a"}
    with pytest.raises(og.errors.StoreUnavailable):
        people(tmp_path / ("n" * 300))


def test_reading_makes_no_graph_and_no_directory(tmp_path: Path) -> None:
    for mode in ("rw", "ro"):
        with pytest.raises(GraphNotFound):
            og.open(tmp_path / "nothing", mode=mode)
        with pytest.raises(GraphNotFound):
            og.open(tmp_path, mode=mode)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_handle_writes_nothing_at_all(tmp_path: Path) -> None:
    root = tmp_path / "g"
    with people(root, "a") as graph:
        graph.branches.create("side")
        head = graph.commits.head().id
    before = listing(root)
    with og.open(root, mode="ro") as graph:
        assert ids_of(graph, "Person") == ids_of(graph, "Person", "side") == ids_of(graph, "Person", at=head) == {"a"}
        assert graph.branches.list() == ["main", "side"]
        assert (len(graph.commits.list()), graph.recoveries) == (2, [])
        for write in (
            lambda: graph.write([persons("b")]),
            lambda: graph.branches.create("x"),
            lambda: graph.branches.delete("side"),
            lambda: graph.ensure_indices(),
            lambda: graph.recover(),
        ):
            with pytest.raises(og.errors.ReadOnly, match="mode='rw'"):
                write()
    assert listing(root) == before


def test_a_read_only_open_during_an_interrupted_write_sees_the_old_state_and_repairs_nothing(tmp_path: Path) -> None:
    root = tmp_path / "g"
    people(root, "a").close()
    code = (
        "import sys, omnigraph as og\nfrom tests.support.small_graphs import persons\n"
        "og.open(sys.argv[1]).write([persons('b')])\n"
    )
    child = run_child(code, str(root), env={"OMNIGRAPH_FAILPOINTS": "write.after_all_table_commits=kill"})
    assert child.returncode == -9
    before = listing(root)
    with og.open(root, mode="ro") as graph:
        assert ids_of(graph, "Person") == {"a"}
    assert listing(root) == before
    with og.open(root) as graph:
        assert ids_of(graph, "Person") == {"a", "b"}


@pytest.mark.parametrize("mode", ["", "r", "RW", "w", None])
def test_an_unknown_mode_is_refused(tmp_path: Path, mode: Any) -> None:
    people(tmp_path / "g").close()
    with pytest.raises(og.errors.InputError, match="mode"):
        og.open(tmp_path / "g", mode=mode)


def test_a_directory_with_a_question_mark_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(og.errors.InvalidUri, match="question mark"):
        people(tmp_path / "a?b")
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_claim_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "__recovery").mkdir()
    (tmp_path / "__recovery" / "init.claim").write_text("{")
    with pytest.raises(CorruptGraph, match=r"init\.claim"):
        people(tmp_path)


def test_a_graph_can_be_moved(tmp_path: Path) -> None:
    with people(tmp_path / "old", "a") as graph:
        graph.write([persons("b")])
        before = graph.commits.list()
    (tmp_path / "old").rename(tmp_path / "new")
    with og.open(tmp_path / "new") as graph:
        graph.write([persons("c")])
        graph.branches.create("side")
        graph.write([persons("d")], branch="side")
        assert (ids_of(graph, "Person"), ids_of(graph, "Person", "side")) == ({"a", "b", "c"}, {"a", "b", "c", "d"})
        assert graph.commits.list()[1:] == before
    assert not (tmp_path / "old").exists()


def test_rows_that_a_moved_branch_inherits_are_missing_with_a_typed_error(tmp_path: Path) -> None:
    """Lance records where a branch came from as an absolute path, so this is as much as a moved graph can say."""
    with people(tmp_path / "old", "a") as graph:
        graph.branches.create("side")
        graph.write([persons("b")], branch="side")
    (tmp_path / "old").rename(tmp_path / "new")
    with og.open(tmp_path / "new") as graph:
        with pytest.raises(StorageError):
            ids_of(graph, "Person", "side")
        with pytest.raises(StorageError):
            graph.write([persons("a")], branch="side")
        graph.write([persons("c")])
        assert ids_of(graph, "Person") == {"a", "c"}
