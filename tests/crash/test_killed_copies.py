"""Clones, backups and relocations that are killed half-way: no half graph, and a second run does the rest."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import obstore
import pytest

import omnigraph as og
from omnigraph.errors import GraphMoved, GraphNotFound, ReadOnly
from omnigraph.storage.objects.object_store import open_store, parse_location
from tests.support.children import running
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_module
from tests.support.whole_graphs import content, files, know, people, whole_graph

_INVISIBLE = ("clone.after_claim", "clone.between_files", "clone.after_data", "clone.before_names", "clone.before_main")
_VISIBLE = ("clone.before_schema", "clone.before_claim_removed")
_BACKUP = ("clone.between_files", "clone.after_data", "clone.before_main", "clone.before_schema", "backup.before_files")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody writes to."""
    path = tmp_path_factory.mktemp("source") / "g"
    whole_graph(path).close()
    return path


def _kill(point: str, verb: str, *places: Any, nth: int = 1) -> None:
    command = run_module("tests.support.clone_child", verb, *map(str, places))
    with running(command, {"OMNIGRAPH_FAILPOINTS": f"{point}=kill@{nth}"}) as child:
        said = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == -signal.SIGKILL, f"{point} was not reached: {said}"


def _assert_same(one: Any, other: Any) -> None:
    with og.open(one, mode="ro") as left, og.open(other, mode="ro") as right:
        assert content(right) == content(left)
        assert right.verify().ok


@pytest.mark.parametrize("point", [*_INVISIBLE, *_VISIBLE])
def test_a_killed_clone_is_no_graph_and_is_continued(source: Path, tmp_path: Path, point: str) -> None:
    twin = tmp_path / "twin"
    _kill(point, "clone", source, twin, nth=40 if point == "clone.between_files" else 1)
    for mode in ("ro", "rw") if point != "clone.before_claim_removed" else ("rw",):
        with pytest.raises(GraphNotFound, match="unfinished clone of"):
            og.open(twin, mode=mode)
    before = files(twin)
    result = og.clone(source, twin)
    assert result.copied_files <= result.files - len(before) + 1
    _assert_same(source, twin)
    with og.open(twin) as graph:
        graph.write([people(9000, 3)], branch="review/b")
        assert graph.verify().ok


_DECISIVE = ("clone.between_files", "clone.before_main", "clone.before_schema")


@pytest.mark.s3
@pytest.mark.parametrize(
    "point",
    [
        point if point in _DECISIVE else pytest.param(point, marks=pytest.mark.torture)
        for point in (*_INVISIBLE, *_VISIBLE)
    ],
)
def test_a_killed_clone_on_s3_is_continued(source: Path, s3_root: str, point: str) -> None:
    _kill(point, "clone", source, s3_root, nth=40 if point == "clone.between_files" else 1)
    with pytest.raises(GraphNotFound, match="unfinished clone of"):
        og.open(s3_root)
    og.clone(source, s3_root)
    _assert_same(source, s3_root)


def test_a_continued_clone_has_what_the_source_has_then(source: Path, tmp_path: Path) -> None:
    mine, twin = tmp_path / "mine", tmp_path / "twin"
    og.clone(source, mine)
    _kill("clone.before_main", "clone", mine, twin)
    with og.open(mine) as graph:
        graph.branches.delete("again")
        graph.branches.create("again", "review/a")
        know(graph, "p1", "p2", "again")
        graph.branches.delete("quiet")
        know(graph, "p1", "p6")
        graph.recover()
    _kill("clone.between_removals", "clone", mine, twin)
    assert og.clone(mine, twin).removed_files > 0
    _assert_same(mine, twin)


def _grow(graph: og.Graph) -> None:
    """Every kind of change that a backup has to follow."""
    graph.write([people(6000, 4)])
    know(graph, "p1", "p1002", "review/a")
    graph.branches.delete("again")
    graph.branches.create("again", "review/a")
    know(graph, "p1", "p2", "again")
    graph.branches.delete("quiet")
    graph.branches.create("fresh", "review/b")
    graph.write([people(7000, 4)], branch="fresh")
    graph.recover()


@pytest.mark.parametrize("point", _BACKUP)
def test_a_killed_backup_shows_whole_states_and_is_continued(source: Path, tmp_path: Path, point: str) -> None:
    mine, safe = tmp_path / "mine", tmp_path / "safe"
    og.clone(source, mine)
    og.backup(mine, safe)
    with og.open(mine) as graph:
        before = content(graph)
        _grow(graph)
        after = content(graph)
    _kill(point, "backup", mine, safe, nth=200 if point == "clone.between_files" else 1)
    with og.open(safe, mode="ro") as graph:
        found = content(graph)
        assert found["main"] in (before["main"], after["main"])
        for branch in ("review/a", "review/b"):
            assert {**after[branch], **found[branch], "head": ""} == {**after[branch], "head": ""}
        assert found.get("again", after["again"]) in (before["again"], after["again"])
        assert graph.verify().ok
    with pytest.raises(ReadOnly):
        og.open(safe)
    og.backup(mine, safe)
    with og.open(safe, mode="ro") as graph:
        assert content(graph) == {**after, "quiet": before["quiet"]}
    _kill("clone.between_removals", "prune", mine, safe)
    og.backup(mine, safe, prune=True)
    _assert_same(mine, safe)
    assert og.backup(mine, safe, prune=True).removed_files == 0


def test_a_killed_relocation_is_continued(source: Path, tmp_path: Path) -> None:
    og.clone(source, tmp_path / "one")
    shutil.move(tmp_path / "one", tmp_path / "two")
    for nth in (1, 4, 6):
        _kill("relocate.between_files", "relocate", tmp_path / "two", nth=nth)
        with og.open(tmp_path / "two", mode="ro") as graph, pytest.raises(GraphMoved):
            graph.export(branch="review/b")
    assert og.relocate(tmp_path / "two").changed > 0
    assert og.relocate(tmp_path / "two").changed == 0
    _assert_same(source, tmp_path / "two")


@pytest.mark.s3
@pytest.mark.torture
@pytest.mark.parametrize("point", _BACKUP)
def test_a_killed_backup_on_s3_is_continued(source: Path, tmp_path: Path, s3_root: str, point: str) -> None:
    mine = tmp_path / "mine"
    og.clone(source, mine)
    og.backup(mine, s3_root)
    with og.open(mine) as graph:
        _grow(graph)
    _kill(point, "backup", mine, s3_root, nth=200 if point == "clone.between_files" else 1)
    with og.open(s3_root, mode="ro") as graph:
        assert graph.verify().ok
    og.backup(mine, s3_root, prune=True)
    _assert_same(mine, s3_root)


@pytest.mark.s3
@pytest.mark.torture
def test_a_killed_relocation_on_s3_is_continued(source: Path, s3_root: str) -> None:
    og.clone(source, f"{s3_root}/one")
    location = parse_location(s3_root)
    store = open_store(location)
    for page in obstore.list(store, "one/"):
        for entry in page:
            obstore.copy(store, entry["path"], entry["path"].replace("one/", "two/", 1))
    for nth in (1, 4, 6):
        _kill("relocate.between_files", "relocate", f"{s3_root}/two", nth=nth)
        with og.open(f"{s3_root}/two", mode="ro") as graph, pytest.raises(GraphMoved):
            graph.export(branch="review/b")
    assert og.relocate(f"{s3_root}/two").changed > 0
    assert og.relocate(f"{s3_root}/two").changed == 0
    _assert_same(source, f"{s3_root}/two")
