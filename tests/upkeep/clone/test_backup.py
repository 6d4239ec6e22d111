"""Backups: brought up to date by what is new, readable all the time, written to by nobody else, brought back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import AlreadyInitialized, ConflictError, ReadOnly
from tests.support.whole_graphs import content, files, know, people, whole_graph


def _assert_same(one: object, other: object) -> None:
    with og.open(str(one), mode="ro") as left, og.open(str(other), mode="ro") as right:
        assert content(right) == content(left)
        assert right.verify(deep=True).ok


def _assert_heads(graph: og.Graph, safe: str, *branches: str) -> None:
    with og.open(safe, mode="ro") as backup:
        for branch in branches:
            assert backup.export(branch=branch).text == graph.export(branch=branch).text
        assert backup.verify().ok


def _follow(uri: str, safe: str, back: str) -> None:
    with whole_graph(uri) as graph:
        graph.recover()  # nothing is left to be copied in the background
        first = og.backup(uri, safe)
        assert (first.copied_files, first.removed_files) == (first.files, 0)
        assert og.backup(uri, safe).copied_files == 0
        know(graph, "p1", "p7")
        graph.recover()
        grown = og.backup(uri, safe)
        assert 0 < grown.copied_files < 20 and grown.files > first.files
        _assert_heads(graph, safe, "main", "review/b", "again")
        graph.branches.delete("review/b")
        graph.branches.delete("again")
        graph.branches.create("again", "review/a")
        graph.write([people(8000, 2)], branch="again")
        graph.recover()
        kept = og.backup(uri, safe)
        assert kept.branches == 4
        _assert_heads(graph, safe, "main", "again", "review/a")
        pruned = og.backup(uri, safe, prune=True)
        assert pruned.copied_files == 0
        _assert_same(uri, safe)
    with pytest.raises(ReadOnly, match="is a backup of") as refused:
        og.open(safe)
    assert refused.value.hint is not None and "clone it" in refused.value.hint
    og.clone(safe, back)
    with og.open(back) as graph:
        assert graph.verify(deep=True).ok
        know(graph, "p1", "p8", "again")


def test_a_backup_follows_its_graph_and_is_brought_back(tmp_path: Path) -> None:
    _follow(str(tmp_path / "g"), str(tmp_path / "safe"), str(tmp_path / "back"))


@pytest.mark.s3
def test_a_backup_on_s3_follows_a_graph_on_a_disk(tmp_path: Path, s3_root: str) -> None:
    _follow(str(tmp_path / "g"), s3_root, str(tmp_path / "back"))


@pytest.mark.s3
def test_a_backup_on_a_disk_follows_a_graph_on_s3(tmp_path: Path, s3_root: str) -> None:
    _follow(s3_root, str(tmp_path / "safe"), str(tmp_path / "back"))


def test_a_branch_that_the_source_deleted_stays_in_the_backup_until_it_is_pruned(tmp_path: Path) -> None:
    with whole_graph(tmp_path / "g") as graph:
        og.backup(tmp_path / "g", tmp_path / "safe")
        before = graph.export(branch="review/b").text
        graph.branches.delete("review/b")
    og.backup(tmp_path / "g", tmp_path / "safe")
    with og.open(tmp_path / "safe", mode="ro") as backup:
        assert backup.export(branch="review/b").text == before
    assert og.backup(tmp_path / "g", tmp_path / "safe", prune=True).removed_files > 0
    with og.open(tmp_path / "safe", mode="ro") as backup:
        assert "review/b" not in backup.branches.list()


def test_a_backup_takes_nothing_from_another_graph_or_from_one_that_was_set_back(tmp_path: Path) -> None:
    schema = "node A { k: String @key }"
    add = "query q($k: String) { insert A { k: $k } }"
    graph, safe = tmp_path / "g", tmp_path / "safe"
    with og.init(graph, schema) as open_graph:
        open_graph.mutate(add, {"k": "a"})
        shutil.copytree(graph, tmp_path / "earlier")
        open_graph.mutate(add, {"k": "b"})
    og.backup(graph, safe)
    before = files(safe)
    og.init(tmp_path / "other", schema).close()
    with pytest.raises(ConflictError, match=f"backup of {graph}"):
        og.backup(tmp_path / "other", safe)
    shutil.move(graph, tmp_path / "aside")
    shutil.move(tmp_path / "earlier", graph)
    with pytest.raises(ConflictError, match="was set back"):
        og.backup(graph, safe)
    with og.open(graph) as open_graph:
        for key in ("c", "d", "e"):
            open_graph.mutate(add, {"k": key})
    with pytest.raises(ConflictError, match="was set back"):
        og.backup(graph, safe)
    assert {path: known for path, known in files(safe).items() if path in before} == before
    with og.open(safe, mode="ro") as backup:
        assert backup.snapshot().count("A") == 2
    with pytest.raises(AlreadyInitialized):
        og.backup(graph, tmp_path / "aside")


def test_a_damaged_list_of_files_costs_time_and_nothing_else(tmp_path: Path) -> None:
    with whole_graph(tmp_path / "g"):
        pass
    og.backup(tmp_path / "g", tmp_path / "safe")
    (tmp_path / "safe" / "__recovery" / "backup.files").write_text("[[1]]", "utf-8")
    assert og.backup(tmp_path / "g", tmp_path / "safe").copied_files == 0


def test_a_backup_that_lost_a_file_gets_it_again(tmp_path: Path) -> None:
    with whole_graph(tmp_path / "g"):
        pass
    og.backup(tmp_path / "g", tmp_path / "safe")
    lost, cut = sorted((tmp_path / "safe").glob("nodes/*/data/*.lance"))[:2]
    lost.unlink()
    os.truncate(cut, 10)
    assert og.backup(tmp_path / "g", tmp_path / "safe").copied_files == 2
    _assert_same(tmp_path / "g", tmp_path / "safe")
