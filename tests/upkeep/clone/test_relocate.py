"""Moved graphs: main works as before, branches say what is wrong, and `relocate` puts them in order."""

from __future__ import annotations

import shutil
from pathlib import Path

import obstore
import pytest

import omnigraph as og
from omnigraph.errors import GraphMoved, GraphNotFound
from omnigraph.storage.objects.object_store import open_store, parse_location
from tests.support.whole_graphs import content, files, know, whole_graph


def test_a_moved_graph_refuses_its_branches_until_it_is_relocated(tmp_path: Path) -> None:
    with whole_graph(tmp_path / "one") as graph:
        before = content(graph)
    shutil.move(tmp_path / "one", tmp_path / "two")
    with og.open(tmp_path / "two", mode="ro") as graph:
        assert graph.export().text == before["main"]["head"]
        assert graph.branches.list() == list(before)
        for use in (
            lambda: graph.export(branch="review/a"),
            lambda: graph.diff("main", "review/b"),
            lambda: graph.snapshot("again").arrow("Person"),
            lambda: graph.commits.list("quiet"),
        ):
            with pytest.raises(GraphMoved, match=f"{tmp_path}/one/__manifest") as caught:
                use()
            assert caught.value.hint == f"run `omnigraph relocate {tmp_path}/two`"
        report = graph.verify()
        assert not report.ok
        assert all("still name the place" in problem.message for problem in report.problems if not problem.harmless)
    done = og.relocate(tmp_path / "two")
    assert done.files == done.changed > 10
    assert done.to_dict() == {"files": done.files, "changed": done.files}
    assert og.relocate(tmp_path / "two").changed == 0
    with og.open(tmp_path / "two") as graph:
        assert content(graph) == before
        know(graph, "p1", "p1002", "review/b")
        graph.branches.merge("review/b", "review/a", delete_branch=True)
        assert graph.verify(deep=True).ok


def test_a_copied_graph_never_reads_the_rows_of_its_original(tmp_path: Path) -> None:
    with whole_graph(tmp_path / "one"):
        pass
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with og.open(tmp_path / "two", mode="ro") as graph, pytest.raises(GraphMoved):
        graph.export(branch="review/a")
    og.relocate(tmp_path / "two")
    before = files(tmp_path / "one")
    with og.open(tmp_path / "two") as graph:
        know(graph, "p1", "p1002", "review/a")
    assert files(tmp_path / "one") == before


def test_a_graph_without_branches_may_be_moved_as_it_is(tmp_path: Path) -> None:
    og.init(tmp_path / "one", "node A { k: String @key }").close()
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert og.relocate(tmp_path / "two") == og.RelocateResult(0, 0)
    with og.open(tmp_path / "two") as graph:
        assert graph.mutate('query q() { insert A { k: "a" } }').affected_nodes == 1
    with pytest.raises(GraphNotFound):
        og.relocate(tmp_path / "one")


@pytest.mark.parametrize("name", ["Straße und mehr", "a%20b#c", "x" * 180])
def test_a_graph_may_move_to_and_from_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    with og.init(tmp_path / "one", "node A { k: String @key }") as graph:
        graph.branches.create("b")
        graph.mutate('query q() { insert A { k: "a" } }', branch="b")
        graph.branches.create("c", "b")
        graph.mutate('query q() { insert A { k: "c" } }', branch="c")
        before = content(graph)
    for source, target in (("one", name), (name, "two")):
        shutil.move(tmp_path / source, tmp_path / target)
        og.relocate(tmp_path / target)
        with og.open(tmp_path / target, mode="ro") as graph:
            assert content(graph) == before
            assert graph.verify(deep=True).ok


@pytest.mark.s3
def test_a_prefix_that_was_copied_is_relocated(tmp_path: Path, s3_root: str) -> None:
    with whole_graph(f"{s3_root}/one") as graph:
        before = content(graph)
    source, target = (open_store(parse_location(f"{s3_root}/{name}")) for name in ("one", "two"))
    for page in obstore.list(source):
        for entry in page:
            obstore.put(target, entry["path"], bytes(obstore.get(source, entry["path"]).bytes()))
    with og.open(f"{s3_root}/two", mode="ro") as graph, pytest.raises(GraphMoved, match="/one/__manifest"):
        graph.export(branch="review/a")
    assert og.relocate(f"{s3_root}/two").changed > 10
    og.clone(f"{s3_root}/two", tmp_path / "three")
    with og.open(tmp_path / "three", mode="ro") as graph:
        assert content(graph) == before
