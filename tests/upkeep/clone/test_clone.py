"""Clones: whole, apart from their source, from and to disks and object stores, and refused where they would do harm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import AlreadyInitialized, ConflictError, GraphNotFound, InputError, InvalidUri, OmniGraphError
from tests.support.whole_graphs import content, files, know, people, whole_graph


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody writes to."""
    path = tmp_path_factory.mktemp("source") / "g"
    whole_graph(path).close()
    return path


def assert_same(source: Any, clone: Any) -> None:
    with og.open(source, mode="ro") as one, og.open(clone, mode="ro") as other:
        assert content(other) == content(one)
        report = other.verify(deep=True)
        assert report.ok and not report.problems, report


def assert_free(source: Any, clone: Any) -> None:
    """Everything can be done to a clone, and the source does not notice."""
    before = files(source)
    with og.open(clone) as graph:
        for branch in graph.branches.list():
            graph.write([people(9000, 3)], branch=branch)
            know(graph, "p1", "p9001", branch)
        graph.branches.create("new", "review/b")
        graph.write([people(9100, 3)], branch="new")
        graph.branches.merge("new", "review/b", delete_branch=True)
        graph.branches.merge("review/b", "review/a", delete_branch=True)
        graph.branches.delete("again")
        graph.branches.create("again")
        graph.write([people(9200, 3)], branch="again")
        graph.ensure_indices()
        graph.ensure_indices("again")
        assert graph.verify(deep=True).ok
    assert files(source) == before


def test_a_clone_has_every_branch_at_every_commit_and_lives_its_own_life(source: Path, tmp_path: Path) -> None:
    result = og.clone(source, tmp_path / "twin")
    assert (result.branches, result.removed_files) == (5, 0)
    assert (result.copied_files, result.copied_bytes) == (result.files, result.bytes)
    assert result.to_dict()["commits"] == result.commits > 10
    assert_same(source, tmp_path / "twin")
    assert not (tmp_path / "twin" / "__recovery" / "copy.claim").exists()
    assert_free(source, tmp_path / "twin")


def test_a_clone_does_not_need_its_source(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "mine")
    og.relocate(tmp_path / "mine")
    with og.open(tmp_path / "mine", mode="ro") as graph:
        before = content(graph)
    og.clone(tmp_path / "mine", tmp_path / "twin")
    for path, _, names in os.walk(tmp_path / "twin"):
        assert all(os.stat(Path(path, name)).st_nlink == 1 for name in names)
    shutil.rmtree(tmp_path / "mine")
    with og.open(tmp_path / "twin", mode="ro") as graph:
        assert content(graph) == before
        assert graph.verify(deep=True).ok


@pytest.mark.s3
def test_clones_go_from_a_disk_to_s3_and_on_and_back(source: Path, tmp_path: Path, s3_root: str) -> None:
    og.clone(source, f"{s3_root}/one")
    og.clone(f"{s3_root}/one", f"{s3_root}/two")
    og.clone(f"{s3_root}/two", tmp_path / "back")
    assert_same(source, tmp_path / "back")  # what a clone on the way had lost would be missing here
    with og.open(f"{s3_root}/two", mode="ro") as graph:
        assert graph.verify().ok
    assert_free(f"{s3_root}/one", f"{s3_root}/two")
    assert_free(source, tmp_path / "back")


@pytest.mark.s3
def test_a_graph_of_s3_with_deleted_branches_is_cloned(tmp_path: Path, s3_root: str) -> None:
    with whole_graph(f"{s3_root}/one") as graph:
        assert graph.verify().ok
    og.clone(f"{s3_root}/one", f"{s3_root}/two")
    og.clone(f"{s3_root}/one", tmp_path / "three")
    og.clone(f"{s3_root}/two", tmp_path / "four")
    with og.open(f"{s3_root}/one", mode="ro") as one:
        before = content(one)
    for clone in (tmp_path / "three", tmp_path / "four"):
        with og.open(clone, mode="ro") as other:
            assert content(other) == before
    for address in (f"{s3_root}/two", tmp_path / "three"):
        assert_free(f"{s3_root}/one", address)


@pytest.mark.s3
def test_a_large_file_is_sent_in_parts(tmp_path: Path, s3_root: str) -> None:
    import pyarrow as pa

    from omnigraph.write.change import Change

    with og.init(tmp_path / "g", "node Note { key: String @key  body: Blob? }") as graph:
        graph.write([Change("node:Note", pa.table({"key": ["a"], "body": [os.urandom(20_000_000)]}))])
    og.clone(tmp_path / "g", f"{s3_root}/one")
    og.clone(f"{s3_root}/one", f"{s3_root}/two")
    og.clone(f"{s3_root}/two", tmp_path / "back")
    sizes = {path: size for path, (size, _) in files(tmp_path / "g").items() if "_versions/latest" not in path}
    assert {path: size for path, (size, _) in files(tmp_path / "back").items()} == sizes
    with og.open(tmp_path / "g", mode="ro") as one, og.open(tmp_path / "back", mode="ro") as other:
        assert other.snapshot().arrow("Note").equals(one.snapshot().arrow("Note"))


@pytest.mark.parametrize("name", ["with blank", "Straße", "100% of it", "a#b", "a=b,c"])
def test_a_clone_may_lie_in_a_directory_of_any_name(source: Path, tmp_path: Path, name: str) -> None:
    og.clone(source, tmp_path / name)
    og.clone(tmp_path / name, tmp_path / "plain")
    with og.open(source, mode="ro") as one:
        for clone in (tmp_path / name, tmp_path / "plain"):
            with og.open(clone, mode="ro") as other:
                assert other.export(branch="review/b").text == one.export(branch="review/b").text
                assert other.verify().ok


def test_hints_locks_records_and_drafts_stay_with_the_source(source: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    og.clone(source, mine)
    with og.open(mine) as graph:
        know(graph, "p1", "p2")
    strays = ["notes.txt", "__recovery/01JZZZZZZZZZZZZZZZZZZZZZZZ.lease", "_schema.pg.staging", "nodes/x#1"]
    for name in strays:
        (mine / name).write_text("{}", "utf-8")
    og.clone(mine, tmp_path / "twin")
    kept = set(files(tmp_path / "twin"))
    assert not kept & set(strays)
    assert not any("latest_version_hint" in path or "__recovery" in path for path in kept)


def test_a_clone_is_refused_where_it_would_do_harm(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("x", "utf-8")
    og.init(tmp_path / "other", "node A { k: String @key }").close()
    cases: list[tuple[Any, Any, type[OmniGraphError], str]] = [
        (tmp_path / "missing", tmp_path / "new", GraphNotFound, "there is no graph"),
        (tmp_path / "full", tmp_path / "new", GraphNotFound, "there is no graph"),
        (tmp_path / "file", tmp_path / "new", InvalidUri, "is a file"),
        (source, tmp_path / "file", InvalidUri, "is a file"),
        (source, source, InputError, "both the source and the target"),
        (source, source / "nodes" / "twin", InputError, "lies inside"),
        (source, source.parent, InputError, "lies inside"),
        (source, tmp_path / "full", InputError, "is not empty"),
        (source, tmp_path / "other", AlreadyInitialized, "there is a graph"),
        (source, "gopher://x", InvalidUri, "unknown scheme"),
    ]
    for one, other, kind, said in cases:
        with pytest.raises(kind, match=said) as caught:
            og.clone(one, other)
        assert caught.value.hint or kind is InvalidUri
    assert not (tmp_path / "new").exists()
    assert os.listdir(tmp_path / "full") == ["thing"]


def test_a_place_of_another_clone_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "twin" / "__recovery").mkdir(parents=True)
    (tmp_path / "twin" / "__recovery" / "copy.claim").write_text('{"kind": "clone", "source": "/elsewhere"}', "utf-8")
    with pytest.raises(ConflictError, match="clone of /elsewhere"):
        og.clone(source, tmp_path / "twin")
    with pytest.raises(GraphNotFound, match="unfinished clone of /elsewhere"):
        og.clone(tmp_path / "twin", tmp_path / "new")


def test_a_file_that_cannot_be_read_ends_a_clone_and_leaves_no_graph(source: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    og.clone(source, mine)
    broken = next(path for path in sorted(mine.glob("__manifest/tree/**/*.manifest")))
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-3])
    with pytest.raises(OmniGraphError):
        og.clone(mine, tmp_path / "twin")
    with pytest.raises(GraphNotFound):
        og.open(tmp_path / "twin")
    broken.write_bytes(whole)
    og.clone(mine, tmp_path / "twin")
    assert_same(mine, tmp_path / "twin")


def test_a_resumed_clone_copies_what_is_missing_and_what_differs(source: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    whole = og.clone(source, twin)
    (twin / "_schema.pg").unlink()
    (twin / "__recovery" / "copy.claim").write_text(f'{{"kind": "clone", "source": "{source}"}}', "utf-8")
    data, gone = sorted(twin.glob("nodes/*/data/*.lance"))[:2]
    version = sorted(twin.glob("__manifest/tree/review/a/_versions/*.manifest"))[0]
    data.write_bytes(bytes(data.stat().st_size))
    version.write_bytes(bytes(version.stat().st_size))
    gone.unlink()
    (twin / "__branches" / "dead.json").write_text("{}", "utf-8")
    again = og.clone(source, twin)
    assert again.copied_files == 4
    assert (again.files, again.bytes, again.removed_files) == (whole.files, whole.bytes, 1)
    assert_same(source, twin)
