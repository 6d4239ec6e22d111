"""Init, branch control and migrations that die or fail half-way: all of it or nothing, and the name is free again."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import BranchExists, GraphNotFound, OmniGraphError, StorageError, StoreUnavailable
from tests.crash.table import POINTS, Case, arrange
from tests.support.crash_checks import assert_sound, files, settled
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, SCHEMA, marks, perform
from tests.support.foreign_writer import manifest_uri, old_graph, stamp_on_disk
from tests.support.kill_runner import Target, kill_child, kill_opening
from tests.support.ledger import Ledger

_BEFORE_MANIFEST = (
    "init.after_schema_pg_written",
    "init.after_schema_contract_written",
    "init.after_tables_created",
)
_ANY = next(point for point in POINTS if point.name == "write.after_stage")


def _target(uri: str, folder: Path) -> Target:
    return Target(uri, MAIN, folder / "ledger.jsonl")


def _content(uri: str) -> list[str]:
    """What lies in a root, without the locks and leases that outlive their owners."""
    return [path for path in files(uri) if not path.endswith((".lock", ".lease"))]


def _ledger_of_main(ledger: Path) -> Path:
    """The ledger without what was done on the branch that is gone."""
    again = ledger.with_name("again.jsonl")
    lines = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
    again.write_text("".join(line for line in lines if "earlier" not in line), encoding="utf-8")
    return again


@pytest.mark.parametrize("point", _BEFORE_MANIFEST)
def test_an_init_killed_before_its_manifest_leaves_no_graph_and_can_be_repeated(tmp_path: Path, point: str) -> None:
    _kill_init(str(tmp_path / "g"), tmp_path, point)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("point", _BEFORE_MANIFEST)
def test_an_init_killed_on_s3_leaves_no_graph_and_can_be_repeated(s3_root: str, tmp_path: Path, point: str) -> None:
    _kill_init(s3_root, tmp_path, point)


def _kill_init(uri: str, folder: Path, point: str) -> None:
    kill_opening(_target(uri, folder), point, "init=graph")
    for mode in ("rw", "ro"):
        with pytest.raises(GraphNotFound):
            og.open(uri, mode=mode)
    with og.init(uri, SCHEMA + "node Later { name: String @key }", actor=ACTOR) as graph:
        assert "node:Later" in graph.snapshot().tables
        perform(graph, "seed", MAIN, Ledger(folder / "ledger.jsonl"), "seed")
        assert_sound(graph, MAIN, folder / "ledger.jsonl")
    assert not any(path.endswith("init.claim") for path in files(uri))


@pytest.mark.parametrize("point", _BEFORE_MANIFEST)
def test_an_init_that_fails_before_its_manifest_leaves_the_root_empty(tmp_path: Path, point: str) -> None:
    uri = str(tmp_path / "g")
    failpoints.arm(f"{point}=raise")
    with pytest.raises(StoreUnavailable):
        og.init(uri, SCHEMA)
    failpoints.arm("")
    assert _content(uri) == []
    og.init(uri, SCHEMA).close()


def test_an_init_that_fails_leaves_the_files_of_others_alone(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "notes.txt").write_text("mine")
    failpoints.arm("init.after_tables_created=raise")
    with pytest.raises(StoreUnavailable):
        og.init(tmp_path / "g", SCHEMA)
    failpoints.arm("")
    assert _content(str(tmp_path / "g")) == ["notes.txt"]


def test_an_init_killed_after_its_manifest_left_a_graph(tmp_path: Path) -> None:
    _kill_late_init(str(tmp_path / "g"), tmp_path)


@pytest.mark.torture
@pytest.mark.s3
def test_an_init_killed_on_s3_after_its_manifest_left_a_graph(s3_root: str, tmp_path: Path) -> None:
    _kill_late_init(s3_root, tmp_path)


def _kill_late_init(uri: str, folder: Path) -> None:
    target = _target(uri, folder)
    kill_opening(target, "init.post_manifest_create", "init=graph")
    with settled(uri, MAIN, target.ledger) as graph:
        assert graph.commits.head().actor == ACTOR
        perform(graph, "seed", MAIN, Ledger(target.ledger), "seed")
        assert_sound(graph, MAIN, target.ledger)
    with pytest.raises(OmniGraphError, match="already"):
        og.init(uri, SCHEMA)


def test_an_init_that_fails_after_its_manifest_says_that_the_graph_exists(tmp_path: Path) -> None:
    failpoints.arm("init.post_manifest_create=raise")
    with pytest.raises(StorageError, match="the graph is initialised"):
        og.init(tmp_path / "g", SCHEMA)
    failpoints.arm("")
    with og.open(tmp_path / "g", actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, Ledger(tmp_path / "ledger.jsonl"), "seed")
        assert_sound(graph, MAIN, tmp_path / "ledger.jsonl")


@pytest.mark.parametrize("point", ["branch_create.before_ref", "branch_create.after_ref", "branch_create.after_entry"])
def test_a_branch_whose_creation_was_killed_is_complete_or_absent(tmp_path: Path, point: str) -> None:
    _kill_create(str(tmp_path / "g"), tmp_path, point)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("point", ["branch_create.after_ref", "branch_create.after_entry"])
def test_a_branch_whose_creation_was_killed_on_s3_is_complete_or_absent(
    s3_root: str, tmp_path: Path, point: str
) -> None:
    _kill_create(s3_root, tmp_path, point)


def _is_made(uri: str, point: str) -> bool:
    """On a disk a ref without an entry is a branch, as other software makes one."""
    return point == "branch_create.after_entry" or (point == "branch_create.after_ref" and "://" not in uri)


def _kill_create(uri: str, folder: Path, point: str) -> None:
    ledger = arrange(uri, folder, Case(_ANY, "main", "insert_one")).target.ledger
    kill_child(Target(uri, BRANCH, ledger), "create=", point)
    with og.open(uri, actor=ACTOR) as graph:
        assert (BRANCH in graph.branches) == _is_made(uri, point)
        if BRANCH not in graph.branches:
            graph.branches.create(BRANCH)
        with pytest.raises(BranchExists):
            graph.branches.create(BRANCH)
        perform(graph, "upsert_delete", BRANCH, Ledger(ledger), "next")
        assert_sound(graph, BRANCH, ledger)


@pytest.mark.parametrize("action", ["raise", "lose"])
@pytest.mark.parametrize("point", ["branch_create.before_ref", "branch_create.after_ref", "branch_create.after_entry"])
def test_a_branch_whose_creation_failed_is_complete_or_absent(tmp_path: Path, point: str, action: str) -> None:
    uri = str(tmp_path / "g")
    ledger = arrange(uri, tmp_path, Case(_ANY, "main", "insert_one")).target.ledger
    with og.open(uri, actor=ACTOR) as graph:
        failpoints.arm(f"{point}={action}")
        with pytest.raises((StoreUnavailable, ConnectionError)):
            graph.branches.create(BRANCH)
        failpoints.arm("")
        assert (BRANCH in graph.branches) == _is_made(uri, point)
        if BRANCH not in graph.branches:
            graph.branches.create(BRANCH)
        perform(graph, "insert_many", BRANCH, Ledger(ledger), "next")
        assert_sound(graph, BRANCH, ledger)


def test_a_tree_without_a_ref_is_no_branch_and_the_name_is_free(tmp_path: Path) -> None:
    """The creation of a branch writes its tree first and its ref last; here it died in between."""
    uri = str(tmp_path / "g")
    ledger = arrange(uri, tmp_path, Case(_ANY, "later", "insert_one")).target.ledger
    for ref in Path(uri).rglob("_refs/branches/*.json"):
        ref.unlink()
    with og.open(uri, actor=ACTOR) as graph:
        assert graph.branches.list() == [MAIN]
        graph.branches.create(BRANCH)
        again = _ledger_of_main(ledger)
        perform(graph, "insert_many", BRANCH, Ledger(again), "next")
        assert_sound(graph, BRANCH, again)


@pytest.mark.parametrize("lineage", ["fork", "later"])
def test_a_branch_whose_deletion_was_killed_is_gone_and_its_name_is_free(tmp_path: Path, lineage: str) -> None:
    _kill_delete(str(tmp_path / "g"), tmp_path, lineage)


@pytest.mark.s3
def test_a_branch_whose_deletion_was_killed_on_s3_is_gone_and_its_name_is_free(s3_root: str, tmp_path: Path) -> None:
    _kill_delete(s3_root, tmp_path, "later")


def _kill_delete(uri: str, folder: Path, lineage: str) -> None:
    target = arrange(uri, folder, Case(_ANY, lineage, "insert_one")).target
    kill_child(target, "delete=", "branch_delete.before_table_cleanup")
    again = _ledger_of_main(target.ledger)
    with og.open(uri, actor=ACTOR) as graph:
        assert graph.branches.list() == [MAIN]
        graph.branches.create(BRANCH)
        assert marks(graph, BRANCH) == marks(graph, MAIN)
        perform(graph, "insert_many", BRANCH, Ledger(again), "next")
        assert_sound(graph, BRANCH, again)
    with settled(uri, BRANCH, again) as graph:
        assert graph.recoveries == []


@pytest.mark.parametrize("point", ["branch_rename.after_new_entry", "branch_rename.after_decision"])
def test_a_branch_whose_rename_was_killed_has_one_name_and_all_its_rows(tmp_path: Path, point: str) -> None:
    _kill_rename(str(tmp_path / "g"), tmp_path, point)


@pytest.mark.s3
@pytest.mark.parametrize("point", ["branch_rename.after_new_entry", "branch_rename.after_decision"])
def test_a_branch_whose_rename_was_killed_on_s3_has_one_name_and_all_its_rows(
    s3_root: str, tmp_path: Path, point: str
) -> None:
    _kill_rename(s3_root, tmp_path, point)


def _kill_rename(uri: str, folder: Path, point: str) -> None:
    target = arrange(uri, folder, Case(_ANY, "later", "insert_one")).target
    with og.open(uri, mode="ro") as reader:
        before = marks(reader, BRANCH)
    kill_child(target, "rename=moved", point)
    name, other = ("moved", BRANCH) if point.endswith("decision") else (BRANCH, "moved")
    with og.open(uri, actor=ACTOR) as graph:
        assert graph.branches.list() == [MAIN, *sorted([name])]
        assert marks(graph, name) == before
        graph.branches.create(other)
        assert marks(graph, other) == marks(graph, MAIN)
        assert graph.branches.list() == [MAIN, *sorted([name, other])]
        with pytest.raises(BranchExists):
            graph.branches.rename(name, other)
        graph.branches.delete(other)
        assert marks(graph, name) == before
        graph.branches.rename(name, other)
        assert (graph.branches.list(), marks(graph, other)) == ([MAIN, other], before)
        assert graph.verify().ok


def test_a_branch_deleted_with_a_dead_write_on_it_takes_the_write_along(tmp_path: Path) -> None:
    point = next(point for point in POINTS if point.name == "write.after_all_table_commits")
    case = Case(point, "later", "insert_many")
    target = arrange(str(tmp_path / "g"), tmp_path, case).target
    with og.open(target.uri, actor=ACTOR) as graph:
        kill_child(target, "insert_many=victim", point.name)
        graph.branches.delete(BRANCH)
        assert graph.branches.list() == [MAIN]
        assert not [path for path in files(target.uri) if path.startswith("__recovery/") and path.endswith(".json")]
        graph.branches.create(BRANCH)
        assert marks(graph, BRANCH) == marks(graph, MAIN)


@pytest.mark.parametrize("stamp", [None, "2"], ids=["stamp 1", "stamp 2"])
def test_a_migration_killed_between_its_work_and_its_stamp_is_repeated(tmp_path: Path, stamp: str | None) -> None:
    root = old_graph(tmp_path / "g", stamp, runs=2)
    target = _target(str(root), tmp_path)
    kill_opening(target, "migrate.between_work_and_stamp")
    assert stamp_on_disk(root) == stamp
    if stamp is None:
        kill_opening(target, "migrate.between_work_and_stamp", nth=2)
        assert stamp_on_disk(root) == "2"
    with og.open(root, mode="ro") as reader:
        assert reader.snapshot().count("Person") == 2
    with og.open(root, actor=ACTOR) as graph:
        assert graph.snapshot().count("Person") == 2
        assert graph.branches.list() == [MAIN]
    assert stamp_on_disk(root) == "3"
    assert list(lance.dataset(manifest_uri(root)).branches.list()) == []
    before = files(str(root))
    og.open(root, actor=ACTOR).close()
    assert files(str(root)) == before


@pytest.mark.parametrize("stamp", [None, "2"], ids=["stamp 1", "stamp 2"])
def test_a_migration_that_fails_is_repeated_by_the_next_open(tmp_path: Path, stamp: str | None) -> None:
    root = old_graph(tmp_path / "g", stamp, runs=1)
    failpoints.arm("migrate.between_work_and_stamp=raise")
    with pytest.raises(StoreUnavailable):
        og.open(root)
    failpoints.arm("")
    assert stamp_on_disk(root) == stamp
    og.open(root).close()
    assert stamp_on_disk(root) == "3"
