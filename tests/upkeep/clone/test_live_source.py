"""Clones of graphs that are written to meanwhile: one state of every branch, and all of them fit together."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.objects.file_tree import FileTree
from tests.support.children import running
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_code

SCHEMA = "node A { k: String @key }\nnode B { k: String @key }\nedge To: A -> A"
ADD = "query q($k: String) { insert A { k: $k } }"


def _graph(uri: Any, *branches: str) -> og.Graph:
    graph = og.init(uri, SCHEMA)
    graph.mutate(ADD, {"k": "first"})
    for branch in branches:
        graph.branches.create(branch)
        graph.mutate(ADD, {"k": f"of {branch}"}, branch=branch)
    graph.recover()
    return graph


def _before_first(kind: type, method: str, happens: Callable[[Any], bool]) -> Any:
    """The method, with something that happens once, before the first call for which it says so."""
    original = getattr(kind, method)
    lock = threading.RLock()  # what happens may call the method itself
    waiting = [happens]

    def called(self: Any, *arguments: Any, **named: Any) -> Any:
        with lock:
            if waiting and not waiting.pop()(arguments):
                waiting.append(happens)
        return original(self, *arguments, **named)

    return called


def test_a_branch_has_what_others_know_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph(tmp_path / "g", "a", "z")

    def merge_before_z_is_read(arguments: tuple[Any, ...]) -> bool:
        if arguments[0].name != "z":
            return False
        graph.mutate(ADD, {"k": "late"}, branch="a")
        graph.branches.merge("a", "z")
        return True

    monkeypatch.setattr(GraphStore, "read_lineage", _before_first(GraphStore, "read_lineage", merge_before_z_is_read))
    og.clone(tmp_path / "g", tmp_path / "twin")
    with og.open(tmp_path / "twin") as clone:
        assert clone.commits.head("a") == graph.commits.head("a")
        assert clone.export(branch="z").text == graph.export(branch="z").text
        clone.mutate(ADD, {"k": "own"}, branch="a")
        clone.branches.merge("a", "z")
        assert clone.verify().ok


def test_what_is_committed_during_a_clone_is_in_it_wholly_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _graph(tmp_path / "g", "a")
    before = {branch: graph.export(branch=branch).text for branch in graph.branches.list()}

    def write(_: tuple[Any, ...]) -> bool:
        graph.mutate(ADD, {"k": "late"})
        graph.mutate(ADD, {"k": "late"}, branch="a")
        graph.branches.create("new", "a")
        graph.mutate(ADD, {"k": "of new"}, branch="new")
        graph.recover()
        return True

    monkeypatch.setattr(FileTree, "copy", _before_first(FileTree, "copy", write))
    og.clone(tmp_path / "g", tmp_path / "twin")
    with og.open(tmp_path / "twin") as clone:
        assert {branch: clone.export(branch=branch).text for branch in clone.branches.list()} == before
        report = clone.verify(deep=True)
        assert report.ok and not report.problems, report
        clone.mutate(ADD, {"k": "own"}, branch="a")
        clone.branches.create("new")
        clone.mutate(ADD, {"k": "own"}, branch="new")
        assert clone.verify().ok


@pytest.mark.parametrize("moment", ["read_lineage", "copy"])
def test_a_branch_that_is_renamed_during_a_clone_is_in_it_under_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    graph = _graph(tmp_path / "g", "a", "z")
    before = {branch: graph.export(branch=branch).text for branch in ("a", "z")}

    def rename(_: tuple[Any, ...]) -> bool:
        graph.branches.rename("a", "b")
        return True

    kind = GraphStore if moment == "read_lineage" else FileTree
    monkeypatch.setattr(kind, moment, _before_first(kind, moment, rename))
    og.clone(tmp_path / "g", tmp_path / "twin")
    with og.open(tmp_path / "twin") as clone:
        name = "b" if moment == "read_lineage" else "a"
        assert clone.branches.list() == ["main", name, "z"]
        assert {"a": clone.export(branch=name).text, "z": clone.export(branch="z").text} == before
        clone.mutate(ADD, {"k": "own"}, branch=name)
        clone.branches.rename(name, "c")
        assert clone.verify(deep=True).ok


@pytest.mark.parametrize("again", [False, True])
def test_a_branch_that_is_deleted_during_a_clone_is_not_half_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    graph = _graph(tmp_path / "g", "a", "z")

    def delete(arguments: tuple[Any, ...]) -> bool:
        if "/tree/a/" not in arguments[1]:
            return False
        graph.branches.delete("a")
        if again:
            graph.branches.create("a", "z")
            graph.mutate(ADD, {"k": "other"}, branch="a")
        graph.recover()
        return True

    monkeypatch.setattr(FileTree, "copy", _before_first(FileTree, "copy", delete))
    result = og.clone(tmp_path / "g", tmp_path / "twin")
    assert result.branches == 2
    with og.open(tmp_path / "twin") as clone:
        assert clone.branches.list() == ["main", "z"]
        for branch in clone.branches.list():
            assert clone.export(branch=branch).text == graph.export(branch=branch).text
        report = clone.verify(deep=True)
        assert report.ok and not report.problems, report
        clone.branches.create("a")
        clone.mutate(ADD, {"k": "own"}, branch="a")


def test_a_table_that_is_dropped_with_its_history_during_a_clone_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _graph(tmp_path / "g")
    graph.mutate('query q() { insert B { k: "b" } }')

    def drop(_: tuple[Any, ...]) -> bool:
        graph.schema.apply("node A { k: String @key }\nedge To: A -> A", allow_data_loss=True)
        graph.recover()
        return True

    monkeypatch.setattr(FileTree, "copy", _before_first(FileTree, "copy", drop))
    og.clone(tmp_path / "g", tmp_path / "twin")
    with og.open(tmp_path / "twin") as clone:
        assert clone.export().text == graph.export().text
        assert clone.verify(deep=True).ok
        clone.mutate(ADD, {"k": "own"})


def test_a_source_that_never_rests_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _graph(tmp_path / "g").close()
    monkeypatch.setattr(FileTree, "copy", lambda *_: False)
    with pytest.raises(ConflictError, match="removed files all the time"):
        og.clone(tmp_path / "g", tmp_path / "twin")


_DIE = f"""
import omnigraph as og, sys
from omnigraph import failpoints
with og.open(sys.argv[1]) as graph:
    failpoints.arm(sys.argv[2] + "=kill")
    graph.mutate({ADD!r}, {{"k": "lost"}}, branch=sys.argv[3])
"""


@pytest.mark.parametrize("branch", ["main", "a"])
@pytest.mark.parametrize("point", ["write.after_stage", "write.after_sidecar", "publish.before_commit"])
def test_a_write_that_is_under_way_is_not_in_a_clone(tmp_path: Path, point: str, branch: str) -> None:
    _graph(tmp_path / "g", "a").close()
    with running(run_code(_DIE, str(tmp_path / "g"), point, branch), {}) as child:
        child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == -signal.SIGKILL
    og.clone(tmp_path / "g", tmp_path / "twin")
    with og.open(tmp_path / "twin") as clone:
        report = clone.verify(deep=True)
        assert report.ok and not any(problem.check in ("records", "heads") for problem in report.problems), report
        assert "lost" not in (clone.export(branch=branch).text or "")
        clone.mutate(ADD, {"k": "own"}, branch=branch)
    with og.open(tmp_path / "g") as graph:
        assert ("lost" in (graph.export(branch=branch).text or "")) is (point == "publish.before_commit")


def test_files_that_are_being_written_are_not_copied(tmp_path: Path) -> None:
    _graph(str(tmp_path / "g")).close()
    for directory, name in (("__manifest/data", ".tmpLpDGox"), ("__manifest/_versions", "1.manifest#7")):
        (tmp_path / "g" / directory / name).write_bytes(b"half a fi")
    og.clone(tmp_path / "g", tmp_path / "twin")
    assert not [path for path in (tmp_path / "twin").rglob("*") if path.name in (".tmpLpDGox", "1.manifest#7")]


def test_clones_beside_busy_writers_are_whole(tmp_path: Path) -> None:
    _clone_beside_writers(str(tmp_path / "g"), str(tmp_path / "twin"))


@pytest.mark.torture
@pytest.mark.s3
def test_clones_beside_busy_writers_on_s3_are_whole(s3_root: str) -> None:
    _clone_beside_writers(f"{s3_root}/g", f"{s3_root}/twin")


def _clone_beside_writers(uri: str, clone_uri: str) -> None:
    _graph(uri, "a", "b").close()
    ended = threading.Event()
    failed: list[BaseException] = []

    def work(branch: str) -> None:
        with og.open(uri) as graph:
            number = 0
            while not ended.is_set():
                number += 1
                try:
                    graph.mutate(ADD, {"k": f"{branch} {number}"}, branch=branch)
                    if number % 3 == 0 and branch != "main":
                        graph.branches.merge(branch, "main")
                    if number % 4 == 0:
                        graph.branches.create(f"of-{branch}", branch)
                        graph.mutate(ADD, {"k": f"side {number}"}, branch=f"of-{branch}")
                        graph.branches.delete(f"of-{branch}")
                except ConflictError:
                    continue
                except OmniGraphError as error:
                    failed.append(error)
                    return

    threads = [threading.Thread(target=work, args=(branch,)) for branch in ("main", "a", "b")]
    for thread in threads:
        thread.start()
    try:
        places = [_cloned(uri, f"{clone_uri}{number}") for number in range(3)]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failed
    with og.open(uri, mode="ro") as graph:
        for place in places:
            with og.open(place) as clone:
                assert clone.verify(deep=True).ok
                for branch in ("main", "a", "b"):
                    head = clone.commits.head(branch)
                    assert clone.export(branch=branch).text == graph.export(branch=branch, at=head.id).text
                    clone.mutate(ADD, {"k": "own"}, branch=branch)
                assert clone.verify().ok


def _cloned(uri: str, place: str) -> str:
    """Where a clone of a busy graph is whole. On S3 a branch that goes while it is copied spoils a place for good."""
    for turn in range(10):
        with contextlib.suppress(ConflictError):
            og.clone(uri, f"{place}-{turn}")
            return f"{place}-{turn}"
    raise AssertionError(f"no clone of {uri} was whole")
