"""A file that is missing or cut is said to be that, with its name, whoever reads it and wherever the graph lies."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import CorruptGraph, HistoricalVersionReclaimed, StoreUnavailable
from omnigraph.write.change import Mode
from tests.support.fault_proxy import READS, Fault, FaultProxy
from tests.support.moto_server import MotoServer
from tests.support.small_graphs import knows, people, persons

BRANCH = "side"

#: Every way to need rows that are stored already.
VERBS: dict[str, Callable[[og.Graph, Path], object]] = {
    "query": lambda graph, _: graph.query("query q() { match { $p: Person } return { $p.age as age } }").rows(),
    "look up": lambda graph, _: graph.query(
        'query q() { match { $p: Person { handle: "a" } } return { $p.age } }'
    ).rows(),
    "arrow": lambda graph, _: graph.snapshot().arrow("Person"),
    "export": lambda graph, folder: graph.export(folder / "out.jsonl"),
    "insert": lambda graph, _: graph.write([persons("a")]),
    "edge": lambda graph, _: graph.write([knows(("a", "b"))]),
    "update": lambda graph, _: graph.mutate('query q() { update Person set { age: 9 } where handle = "a" }'),
    "delete": lambda graph, _: graph.mutate('query q() { delete Person where handle = "a" }'),
    "merge": lambda graph, _: graph.branches.merge(BRANCH),
    "diff": lambda graph, _: list(graph.diff("main", BRANCH)),
}


def _graph(root: object) -> og.Graph:
    """People on main, and a branch that changed one of those whom main changed others of."""
    with people(root, "a", "b") as made:
        made.branches.create(BRANCH)
        made.write([persons("a", mode=Mode.MERGE, age=[5])], branch=BRANCH)
        made.write([persons("b", mode=Mode.MERGE, age=[7])])
    graph: og.Graph = og.open(root)  # type: ignore[call-overload]
    return graph


class Disk:
    """The files of a graph on a local disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def files(self, part: str) -> list[str]:
        return sorted(str(path) for path in self.root.rglob("*") if part in str(path) and path.is_file())

    def remove(self, file: str) -> None:
        os.remove(file)

    def cut(self, file: str, share: float = 0.5) -> None:
        os.truncate(file, int(os.path.getsize(file) * share))


class Bucket:
    """The objects of a graph in an S3 bucket."""

    def __init__(self, server: MotoServer, root: str) -> None:
        self.client, self.bucket, self.prefix = server.client(), server.bucket, root.rpartition("/")[2]

    def files(self, part: str) -> list[str]:
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/")["Contents"]
        return sorted(each["Key"] for each in listed if part in each["Key"])

    def remove(self, file: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=file)

    def cut(self, file: str, share: float = 0.5) -> None:
        content = self.client.get_object(Bucket=self.bucket, Key=file)["Body"].read()
        self.client.put_object(Bucket=self.bucket, Key=file, Body=content[: int(len(content) * share)])


def _damage(place: Disk | Bucket, how: str) -> list[str]:
    """Damage the data files of all nodes and edges; returns their names."""
    files = [file for kind in ("/nodes/", "/edges/") for file in place.files(kind) if "/data/" in file]
    for file in files:
        place.remove(file) if how == "missing" else place.cut(file, 0.0 if how == "empty" else 0.5)
    return [file.rpartition("/")[2] for file in files]


def _assert_named(error: BaseException, names: list[str], how: str) -> None:
    assert any(name in str(error) for name in names), error
    assert ("is missing" if how == "missing" else "is cut or damaged") in str(error)


@pytest.mark.parametrize("how", ["missing", "cut", "empty"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_data_file_is_named_to_everybody_who_needs_it(verb: str, how: str, tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    names = _damage(Disk(tmp_path / "g"), how)
    with pytest.raises(CorruptGraph) as caught:
        VERBS[verb](graph, tmp_path)
    _assert_named(caught.value, names, how)


@pytest.mark.s3
@pytest.mark.parametrize("how", ["missing", "cut"])
@pytest.mark.parametrize("verb", ["query", "arrow", "update", "merge"])
def test_a_damaged_object_is_named_too(verb: str, how: str, tmp_path: Path, s3: MotoServer, s3_root: str) -> None:
    graph = _graph(s3_root)
    names = _damage(Bucket(s3, s3_root), how)
    with pytest.raises(CorruptGraph) as caught:
        VERBS[verb](graph, tmp_path)
    _assert_named(caught.value, names, how)


def _large(root: object) -> og.Graph:
    """A table whose only file is too large to be read in one go, and a reader that knows its footer."""
    texts = [random.Random(1).randbytes(40).hex() + str(number) for number in range(20_000)]
    with people(root) as made:
        made.write([persons(*texts, email=pa.array(texts))])
    graph: og.Graph = og.open(root)  # type: ignore[call-overload]
    assert graph.snapshot().arrow("Person", ["age"]).num_rows == 20_000
    return graph


@pytest.mark.parametrize("share", [0.9, 0.3, 0.0])
def test_a_large_file_that_was_cut_is_named(share: float, tmp_path: Path) -> None:
    graph, disk = _large(tmp_path / "g"), Disk(tmp_path / "g")
    [file] = [file for file in disk.files("/nodes/") if "/data/" in file]
    disk.cut(file, share)
    for reader in (graph, og.open(tmp_path / "g", mode="ro")):
        with pytest.raises(CorruptGraph, match=re.escape(Path(file).name)):
            reader.snapshot().arrow("Person")


@pytest.mark.s3
@pytest.mark.parametrize("share", [0.9, 0.3, 0.0])
def test_a_large_object_that_was_cut_is_named(share: float, s3: MotoServer, s3_root: str) -> None:
    graph, bucket = _large(s3_root), Bucket(s3, s3_root)
    [file] = [file for file in bucket.files("/nodes/") if "/data/" in file]
    bucket.cut(file, share)
    for reader in (graph, og.open(s3_root, mode="ro")):
        with pytest.raises(CorruptGraph, match=re.escape(Path(file).name)):
            reader.snapshot().arrow("Person")


@pytest.mark.parametrize("verb", ["query", "arrow", "export", "update", "merge", "diff"])
def test_the_newest_version_of_a_table_that_is_missing_was_not_cleaned_up(verb: str, tmp_path: Path) -> None:
    _graph(tmp_path / "g").close()
    disk = Disk(tmp_path / "g")
    for path in {file.rpartition("/")[0] for file in disk.files("/nodes/") if "/_versions/" in file}:
        if "/tree/" not in path and len(disk.files(path)) > 2:
            disk.remove(next(file for file in disk.files(path) if file.endswith(".manifest")))
    with pytest.raises(CorruptGraph, match=r"version 3 of table nodes/\S+, which holds .*'Person', is missing"):
        VERBS[verb](og.open(tmp_path / "g"), tmp_path)


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_a_version_that_is_cut_was_not_cleaned_up(share: float, tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    commit = graph.commits.list()[-1]
    disk = Disk(tmp_path / "g")
    for file in disk.files("/_versions/"):
        if "/nodes/" in file and file.endswith(".manifest"):
            disk.cut(file, share)
    for at in (None, commit.id):
        with pytest.raises(CorruptGraph, match=r"version \d of table nodes/\S+ cannot be read"):
            og.open(tmp_path / "g", mode="ro").snapshot(at=at).arrow("Person")


def test_an_old_version_that_is_gone_is_reclaimed_still(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    graph.write([persons("c")])
    old = graph.commits.list()[1]
    disk = Disk(tmp_path / "g")
    versions = [file for file in disk.files("/_versions/") if "/nodes/" in file and "/tree/" not in file]
    for file in versions:
        newest = min(each for each in versions if each.rpartition("/")[0] == file.rpartition("/")[0])
        if file != newest and file.endswith(".manifest"):
            disk.remove(file)
    reader = og.open(tmp_path / "g", mode="ro")
    with pytest.raises(HistoricalVersionReclaimed, match="choose a newer commit"):
        reader.snapshot(at=old.id).arrow("Person")
    assert reader.snapshot().arrow("Person").num_rows == 3


def test_a_manifest_that_went_back_is_noticed_by_whoever_saw_it(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    version = graph.snapshot().version
    disk = Disk(tmp_path / "g")
    disk.remove(next(file for file in disk.files("/__manifest/_versions/") if file.endswith(".manifest")))
    with pytest.raises(CorruptGraph, match=f"version {version} of table __manifest is missing"):
        graph.snapshot()


def test_rows_of_a_branch_that_is_deleted_while_they_are_read_are_gone_not_damaged(tmp_path: Path) -> None:
    graph = _graph(tmp_path / "g")
    state = graph.snapshot(BRANCH)
    state.arrow("Person", ["age"])
    og.open(tmp_path / "g").branches.delete(BRANCH)
    with pytest.raises(HistoricalVersionReclaimed):
        state.arrow("Person")


@pytest.mark.s3
def test_a_clock_that_the_store_refuses_is_named(s3: MotoServer, s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    people(s3_root, "a").close()
    proxy = FaultProxy(s3.endpoint)
    with proxy.serve() as address, proxy.armed(Fault("skew", times=1_000, methods=READS)):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(StoreUnavailable, match="the clock of this machine differs from the store's"):
            og.open(s3_root)
