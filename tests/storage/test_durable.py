"""A local commit is on the disk before it is acknowledged, in an order that survives a power cut at any moment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.storage.objects import object_store
from tests.support.small_graphs import ROOT, people
from tests.support.transactions import transaction_of
from tests.write.test_blobs import blob_graph, put


def _strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


needs_strace = pytest.mark.skipif(not _strace_works(), reason="`strace true` does not run here")

WRITER = """
import os, sys
import omnigraph as og
from omnigraph import limits
from tests.support.small_graphs import knows, persons
limits.MANIFEST_RECENT_ROWS = int(sys.argv[3])
graph = og.open(sys.argv[1])
branch = sys.argv[2]
if branch != "main":
    graph.branches.create(branch)
graph.write([persons("warm")], branch=branch)
graph._store.mirror.flush()
os.mkdir(sys.argv[1] + ".begin")
graph.write([persons("a", "c", mode="merge"), knows(("a", "b"))], branch=branch)
os.mkdir(sys.argv[1] + ".acknowledged")
os._exit(0)
"""
_CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<arguments>.*)")


@dataclass(frozen=True)
class Trace:
    """System calls between the two marks, in the order in which they began or, for a sync, ended."""

    lines: tuple[str, ...]

    def position(self, pattern: str, after: int = -1) -> int:
        return next(number for number in self._all(pattern) if number > after)

    def last(self, pattern: str) -> int:
        return self._all(pattern)[-1]

    def _all(self, pattern: str) -> list[int]:
        found = [number for number, line in enumerate(self.lines) if re.search(pattern, line)]
        assert found, f"no call matches {pattern}"
        return found

    @cached_property
    def synced(self) -> list[str]:
        return [match[1] for line in self.lines if (match := re.match(r"f(?:data)?sync (.*)", line))]


def _trace(root: Path, *, branch: str = "main", fsync: str = "1", recent: int = 24) -> Trace:
    people(root, "a", "b").close()
    output = root.with_suffix(".trace")
    calls = "trace=fsync,fdatasync,mkdir,link,linkat,rename,renameat,renameat2,unlink,unlinkat"
    tracing = ["strace", "-f", "-qq", "-y", "-s", "1000", "-o", str(output), "-e", calls]
    subprocess.run(
        [*tracing, sys.executable, "-c", WRITER, str(root), branch, str(recent)],
        cwd=ROOT,
        env={**os.environ, "OMNIGRAPH_FSYNC": fsync},
        check=True,
        timeout=120,
    )
    lines = list(_completed(output.read_text().splitlines(), root))
    begin = next(number for number, line in enumerate(lines) if line.startswith("mkdir .begin"))
    end = next(number for number, line in enumerate(lines) if line.startswith("mkdir .acknowledged"))
    return Trace(tuple(lines[begin + 1 : end]))


def _completed(lines: list[str], root: Path) -> list[str]:
    """Calls as "name path" where they returned; the target of a link or a rename counts."""
    waiting: dict[str, str] = {}
    done = []
    for line in lines:
        thread = line.split(" ", 1)[0]
        if "<unfinished ...>" in line:
            waiting[thread] = line.removesuffix("<unfinished ...>")
            continue
        if "resumed>" in line:
            line = waiting.pop(thread) + line.partition("resumed>")[2]
        match = _CALL.match(line)
        if match is None or not re.search(r"= 0\s*$", line):
            continue
        paths = re.findall(rf"{re.escape(str(root))}([^\"<>]*)", match["arguments"])
        if paths:
            done.append(f"{match['name']} {paths[-1]}")
    return done


@needs_strace
@pytest.mark.parametrize(("branch", "recent"), [("main", 0), ("side/x", 24)])
def test_a_commit_is_synced_in_order_before_it_is_acknowledged(tmp_path: Path, branch: str, recent: int) -> None:
    trace = _trace(tmp_path / "g", branch=branch, recent=recent)
    tree = "" if branch == "main" else f"/tree/{branch}"
    for table in ("nodes/40d76f1f51639ec0", "edges/602a25a3bd0b455b"):
        base = f"/{table}{tree}"
        staged = [trace.last(rf"^fsync {base}/data/\w+\.lance$"), trace.position(rf"^fsync {base}/data$")]
        written = trace.last(r"^fsync /__recovery/\w+\.json#\d+$")  # an earlier one is of the fork of a table
        assert max(staged) < written, "the record promises files that are not on the disk"
        record = trace.last(r"^rename\w* /__recovery/\w+\.json$")
        assert written < record, "half a record could be found"
        moved = trace.last(rf"^link\w* {base}/_versions/\d+\.manifest$")
        assert record < trace.position(r"^fsync /__recovery$", after=record) < moved, "a table moved too early"
        published = trace.position(rf"^link\w* /__manifest{tree}/_versions/\d+\.manifest$")
        for path in (rf"{base}/_versions/\d+\.manifest", rf"{base}/_versions"):
            assert moved < trace.position(rf"^fsync {path}$", after=moved) < published, path
    deletion = trace.position(rf"^fsync /nodes/40d76f1f51639ec0{tree}/_deletions/\S+$")
    assert deletion < record
    assert trace.last(rf"^fsync /__manifest{tree}/data/\w+\.lance$") < published, "a version names unsafe rows"
    gone = [line for line in trace.lines if f"/__manifest{tree}/_deletions/" in line]
    assert bool(gone) == (recent == 0), "rows of the latest commits are taken along, or the old ones marked"
    if gone:
        assert trace.last(rf"^fsync /__manifest{tree}/_deletions/\S+$") < published
    for path in (r"_versions/\d+\.manifest", "_versions"):
        assert published < trace.position(rf"^fsync /__manifest{tree}/{path}$"), path
    assert trace.last(r"^unlink\w* /__recovery/\w+\.json$") > trace.last(rf"^fsync /__manifest{tree}/_versions$")


@needs_strace
def test_every_new_directory_is_synced_in_its_parent(tmp_path: Path) -> None:
    trace = _trace(tmp_path / "g", branch="side/x")
    made = [line.removeprefix("mkdir ") for line in trace.lines if line.startswith("mkdir /")]
    made = [path for path in made if not path.startswith("/_graph_commit")]
    assert made
    for path in made:
        assert os.path.dirname(path) in trace.synced, path


@needs_strace
def test_switched_off_nothing_is_synced(tmp_path: Path) -> None:
    trace = _trace(tmp_path / "g", fsync="0")
    assert trace.synced == []
    assert trace.position(r"^link\w* /__manifest/_versions/\d+\.manifest$") >= 0


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced, in order, without syncing; and no memory of earlier tests."""
    calls: list[str] = []
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "1")
    monkeypatch.setattr(object_store, "sync", calls.append)
    monkeypatch.setattr(object_store, "_linked", set())
    return calls


def test_a_file_is_synced_before_its_directories_up_to_the_root(synced: list[str]) -> None:
    object_store.sync_files(["/g/a/b/f"], "/g")
    assert synced == ["/g/a/b/f", "/g/a/b", "/g/a", "/g"]


def test_a_known_directory_is_synced_alone(synced: list[str]) -> None:
    object_store.sync_files(["/g/a/b/f"], "/g")
    del synced[:]
    object_store.sync_files(["/g/a/b/h"], "/g")
    assert synced == ["/g/a/b/h", "/g/a/b"]


def test_a_directory_that_came_back_is_new_again(synced: list[str]) -> None:
    object_store.sync_files(["/g/a/b/f", "/g/ab/f"], "/g")
    object_store.forget("/g/a")
    del synced[:]
    object_store.sync_files(["/g/a/b/f", "/g/ab/f"], "/g")
    assert set(synced[:2]) == {"/g/a/b/f", "/g/ab/f"}
    assert synced[2:] == ["/g/a/b", "/g/ab", "/g/a", "/g"]


def test_nothing_is_synced_when_switched_off(synced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_FSYNC", "0")
    object_store.sync_files(["/g/a/b/f"], "/g")
    object_store.sync_directories(["/g/a"], "/g")
    assert synced == []


def test_a_large_blob_is_among_the_files_of_a_write(tmp_path: Path, synced: list[str]) -> None:
    graph = blob_graph(tmp_path / "g")
    del synced[:]
    put(graph, {"a": b"x" * 300_000})
    assert [path for path in synced if path.endswith(".blob")]


def test_a_version_file_carries_its_transaction_so_the_separate_file_need_not_be_synced(tmp_path: Path) -> None:
    made = lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    made = lance.write_dataset(pa.table({"a": [2]}), tmp_path / "t.lance", mode="append")
    uuid = transaction_of(made, 2).uuid
    for file in (tmp_path / "t.lance/_transactions").iterdir():
        file.unlink()
    assert transaction_of(lance.dataset(tmp_path / "t.lance"), 2).uuid == uuid


def test_a_file_appears_whole_under_its_name_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "d/f"
    assert object_store.write_file(str(target), b"one", str(tmp_path))
    assert not object_store.write_file(str(target), b"two", str(tmp_path), replace=False)
    assert target.read_bytes() == b"one"

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        object_store.write_file(str(target), b"three", str(tmp_path))
    assert target.read_bytes() == b"one"
    assert [path.name for path in target.parent.iterdir()] == ["f"], "what was not finished is removed"


def test_a_file_in_the_place_of_a_directory_is_an_error_and_not_taken_for_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"")
    with pytest.raises(OSError, match="d"):
        object_store.write_file(str(tmp_path / "d/f"), b"one", str(tmp_path))
