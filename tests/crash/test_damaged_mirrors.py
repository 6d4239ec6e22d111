"""The copies of the commits and the list of recoveries may be damaged in any way: nobody is stopped by that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.recovery.repair_mirrors import mend_mirrors
from tests.support.crash_checks import assert_mirrored, assert_whole
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, SCHEMA, perform
from tests.support.foreign_writer import old_graph
from tests.support.kill_runner import Target, kill_child
from tests.support.ledger import Ledger

COMMITS, ACTORS, RECOVERIES = "_graph_commits.lance", "_graph_commit_actors.lance", "_graph_commit_recoveries.lance"


@pytest.fixture(autouse=True)
def nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VERIFY_PATIENCE_SECONDS", (0.0,))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commits on main and on a branch, all of them copied, and one recovery."""
    root = tmp_path_factory.mktemp("copied")
    graph = og.init(root / "g", SCHEMA, actor=ACTOR)
    ledger = Ledger(root / "ledger.jsonl")
    perform(graph, "seed", MAIN, ledger, "seed")
    graph.branches.create(BRANCH)
    for branch, op in ((MAIN, "one"), (BRANCH, "two"), (MAIN, "three"), (BRANCH, "four")):
        perform(graph, "insert_one", branch, ledger, op)
    graph.close()
    kill_child(Target(graph.uri, MAIN, root / "ledger.jsonl"), "insert_one=five", "write.after_table_commit")
    with og.open(graph.uri, actor=ACTOR) as healed:
        assert len(healed.recoveries) == 1
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(original, tmp_path / "c")) / "g"
    og.relocate(copied)
    return copied


def _newest(folder: Path) -> Path:
    return min(folder.glob("*.manifest"))


def without_version(table: Path) -> None:
    _newest(table / "_versions").unlink()


def without_versions(table: Path) -> None:
    shutil.rmtree(table / "_versions")


def cut(table: Path) -> None:
    for file in (table / "data").iterdir():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flipped_footers(table: Path) -> None:
    for file in (table / "data").iterdir():
        content = bytearray(file.read_bytes())
        content[-12] ^= 0xFF
        file.write_bytes(content)


def without_data(table: Path) -> None:
    shutil.rmtree(table / "data")


def gone(table: Path) -> None:
    shutil.rmtree(table)


def garbage_version(table: Path) -> None:
    _newest(table / "_versions").write_bytes(b"garbage" * 40)


def garbage_names(table: Path) -> None:
    (table / "_versions" / "garbage.manifest").write_bytes(b"x")


DAMAGES = [without_version, without_versions, cut, flipped_footers, without_data, gone, garbage_version, garbage_names]


@pytest.mark.parametrize("table", [COMMITS, f"{COMMITS}/tree/{BRANCH}", ACTORS])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_mirror_stops_nobody_and_is_made_anew(root: Path, damage: Callable[[Path], None], table: str) -> None:
    damage(root / table)
    ledger = Ledger(root.parent / "ledger.jsonl")
    with og.open(root, actor=ACTOR) as graph:
        report = graph.verify()
        assert report.ok, report
        assert all("omnigraph recover" in problem.message for problem in report.problems if problem.check == "mirrors")
        for branch in (MAIN, BRANCH):
            perform(graph, "insert_one", branch, ledger, f"after on {branch}")
        graph.branches.create("other")
        graph.branches.delete("other")
        graph.recover()
    with og.open(root, actor=ACTOR) as graph:
        for branch in (MAIN, BRANCH):
            assert_mirrored(graph, branch)
        assert graph.verify().problems == ()
        perform(graph, "insert_one", BRANCH, ledger, "once more")
        graph._store.mirror.flush()
        assert_mirrored(graph, BRANCH)
        assert_whole(graph)
        assert mend_mirrors(graph._store) == 0


@pytest.mark.parametrize("damage", [cut, garbage_version])
def test_a_damaged_mirror_that_holds_what_nothing_else_records_is_left_alone(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Other software keeps its commits there and nowhere else."""
    root = old_graph(tmp_path / "g", "2")
    damage(Path(root, COMMITS))
    before = {path: path.read_bytes() for path in Path(root, COMMITS).rglob("*") if path.is_file()}
    with og.open(root, actor=ACTOR) as graph:
        assert [problem.check for problem in graph.verify().problems if not problem.harmless]
        with pytest.raises(og.errors.CorruptGraph, match="recorded nowhere else"):
            graph.recover()
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_list_of_recoveries_stops_nobody(root: Path, damage: Callable[[Path], None]) -> None:
    damage(root / RECOVERIES)
    ledger = root.parent / "ledger.jsonl"
    kill_child(Target(str(root), MAIN, ledger), "insert_one=six", "write.after_table_commit")
    with og.open(root, actor=ACTOR) as graph:
        perform(graph, "insert_one", MAIN, Ledger(ledger), "seven")
        assert graph.recover() == 0
        assert_whole(graph)
        try:
            assert len(graph.recoveries) <= 2
        except og.errors.CorruptGraph as error:
            assert RECOVERIES in str(error)
