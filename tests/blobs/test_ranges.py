"""One blob of one row: its size, ranges of its bytes, and what is said when there is none."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BlobNotFound, BlobRangeError, InputError, NotABlob, RowNotFound, TypeNotFound
from tests.blobs.blob_graphs import EVERY, SIZES, bodies, doc_graph, put


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return doc_graph(tmp_path_factory.mktemp("blobs") / "g", EVERY)


@pytest.mark.parametrize("name", SIZES)
def test_any_range_of_a_blob_of_any_size_can_be_read(graph: og.Graph, name: str) -> None:
    blob, content = graph.blob("Doc", name, "body"), SIZES[name]
    assert (blob.size, blob.kind, blob.uri) == (len(content), "managed", None)
    assert blob.read() == content
    middle = len(content) // 2
    for offset, length in ((0, 1), (0, 0), (3, 4), (middle, 3), (len(content) - 1, 1), (len(content), 5), (2, None)):
        end = len(content) if length is None else offset + length
        assert blob.read(offset, length) == content[offset:end]
    assert blob.read(len(content) - 2, 100) == content[-2:]


def test_an_empty_blob_is_there_and_null_is_not(graph: og.Graph) -> None:
    empty = graph.blob("Doc", "empty", "body")
    assert (empty.size, empty.read(), empty.read(0, 9), empty.open().read()) == (0, b"", b"", b"")
    with pytest.raises(BlobNotFound, match="'body' of 'node:Doc' 'null' is null"):
        graph.blob("Doc", "null", "body")


def test_a_range_behind_the_end_says_how_long_the_blob_is(graph: og.Graph) -> None:
    with pytest.raises(BlobRangeError, match="the blob has 10 bytes, and byte 11 is behind its end") as refused:
        graph.blob("Doc", "inline", "body").read(11, 4)
    assert refused.value.details == {"start": 11, "end": 15, "length": 10}
    with pytest.raises(InputError, match="offset is -1, which is less than 0"):
        graph.blob("Doc", "inline", "body").read(-1)
    with pytest.raises(InputError, match="length is a whole number"):
        graph.blob("Doc", "inline", "body").read(0, 1.5)  # type: ignore[arg-type]


def test_what_does_not_exist_is_named(graph: og.Graph) -> None:
    with pytest.raises(TypeNotFound, match="type 'Dock' does not exist"):
        graph.blob("Dock", "inline", "body")
    with pytest.raises(RowNotFound, match="'node:Doc' has no row with the id 'nobody'"):
        graph.blob("Doc", "nobody", "body")
    for property_ in ("stars", "id", "bodi"):
        with pytest.raises(NotABlob, match=f"'node:Doc' has no Blob property '{property_}'"):
            graph.blob("Doc", "inline", property_)
    with pytest.raises(RowNotFound):
        graph.blob("Cites", "inline", "note")


def test_an_open_blob_is_a_file_that_can_be_moved_in(graph: og.Graph) -> None:
    content = SIZES["dedicated"]
    with graph.blob("Doc", "dedicated", "body").open() as file:
        assert file.read(5) == content[:5]
        assert (file.seek(-4, io.SEEK_END), file.read()) == (len(content) - 4, content[-4:])
        assert (file.seek(7), file.tell(), file.read(2)) == (7, 7, content[7:9])
        file.seek(0)
        assert hashlib.file_digest(file, "sha256").digest() == hashlib.sha256(content).digest()  # type: ignore[arg-type]
        assert (file.seek(len(content) + 5), file.read()) == (len(content) + 5, b"")
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_a_range_of_a_large_blob_does_not_read_the_rest(tmp_path: Path) -> None:
    graph = doc_graph(tmp_path / "g", {"big": SIZES["dedicated"]})
    [file] = (tmp_path / "g").rglob("*.blob")
    os.truncate(file, 1_000_000)  # whoever needs more fails
    blob = graph.blob("Doc", "big", "body")
    assert blob.size == len(SIZES["dedicated"])
    assert blob.read(999_000, 1000) == SIZES["dedicated"][999_000:1_000_000]
    with pytest.raises(og.errors.CorruptGraph, match="could not read a blob"):
        blob.read()


def test_a_blob_is_saved_as_a_file_whole_or_in_part(graph: og.Graph, tmp_path: Path) -> None:
    content = SIZES["dedicated"]
    blob = graph.blob("Doc", "dedicated", "body")
    assert blob.save(tmp_path / "whole") == len(content)
    assert (tmp_path / "whole").read_bytes() == content
    assert blob.save(tmp_path / "part", 5_000_000, 9_000_000) == 9_000_000
    assert (tmp_path / "part").read_bytes() == content[5_000_000:14_000_000]
    with pytest.raises(BlobRangeError):
        blob.save(tmp_path / "part", len(content) + 1)
    assert (tmp_path / "part").stat().st_size == 9_000_000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["part", "whole"]
    target = io.BytesIO()
    assert (graph.blob("Doc", "empty", "body").save(target), target.getvalue()) == (0, b"")


def test_a_pipe_is_written_to_and_stays_a_pipe(graph: og.Graph, tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    graph.blob("Doc", "inline", "body").save(pipe)
    reader.join()
    assert (got, pipe.is_fifo()) == ([SIZES["inline"]], True)


def test_an_edge_has_blobs_and_a_number_is_an_id(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node N { k: I64 @key  b: Blob? }\nedge N2: N -> N { b: Blob }") as graph:
        graph.load([{"k": 7, "b": b"seven"}], "append", type="N")
        graph.load([{"id": "e", "from": "7", "to": "7", "b": b"edge"}], "append", type="N2")
        assert graph.blob("N", 7, "b").read() == graph.blob("node:N", "7", "b").read() == b"seven"
        assert graph.blob("edge:N2", "e", "b").read() == b"edge"
        with pytest.raises(InputError, match="an id is a whole number"):
            graph.blob("N", 7.0, "b")  # type: ignore[arg-type]


def test_a_blob_stays_that_of_its_state(tmp_path: Path) -> None:
    graph = doc_graph(tmp_path / "g", {"a": b"first"})
    first = graph.commits.head().id
    held = graph.blob("Doc", "a", "body")
    graph.branches.create("side")
    put(graph, {"a": b"other"}, "merge", "side")
    put(graph, {"a": b"second"}, "merge")
    assert (held.read(), graph.blob("Doc", "a", "body").read()) == (b"first", b"second")
    assert graph.blob("Doc", "a", "body", branch="side").read() == b"other"
    assert graph.blob("Doc", "a", "body", at=first).read() == b"first"
    assert held.snapshot.commit_id == first
    graph.mutate('query q() { delete Doc where name = "a" }')
    with pytest.raises(RowNotFound):
        graph.blob("Doc", "a", "body")
    assert held.read() == b"first"


def test_the_etag_tells_contents_apart(tmp_path: Path) -> None:
    graph = doc_graph(tmp_path / "g", {"a": b"12345", "b": b"54321", "c": SIZES["packed"]})
    tags = {name: graph.blob("Doc", name, "body").etag for name in "abc"}
    assert len(set(tags.values())) == 3 and None not in tags.values()
    put(graph, {"a": b"67890"}, "merge")
    assert graph.blob("Doc", "a", "body").etag != tags["a"]
    assert {name: graph.blob("Doc", name, "body").etag for name in "bc"} == {name: tags[name] for name in "bc"}
    assert og.open(tmp_path / "g").blob("Doc", "b", "body").etag == tags["b"]


def test_blobs_are_read_in_ranges_on_s3(s3_root: str) -> None:
    graph = doc_graph(s3_root, EVERY)
    assert bodies(graph) == EVERY
    content = SIZES["dedicated"]
    assert graph.blob("Doc", "dedicated", "body").read(15_000_000, 7) == content[15_000_000:15_000_007]
    put(graph, {"inline": SIZES["packed"], "packed": None}, "merge")
    graph.optimize()
    assert bodies(graph) == {**EVERY, "inline": SIZES["packed"], "packed": None}
