"""The source of a load as a stream of bytes: what goes in comes out, and nothing else is taken for a load."""

from __future__ import annotations

import io
from pathlib import Path

import httpx2
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.client.upload import upload_of
from omnigraph.errors import InputError, ResourceLimitExceeded
from omnigraph.server.operations.parts_route import NamedPart
from omnigraph.wire.load_parts import MEDIA_TYPE, PartHead, received, written
from tests.support.served import Served


def test_parts_come_out_as_they_went_in(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000  # longer than a frame
    heads = [PartHead("ä/people.csv", None, "file"), PartHead("<T>", "T", "rows"), PartHead("", "node:T", "file")]
    stream = b"".join(written([(heads[0], iter([content, b"", b"x"])), (heads[1], iter([])), (heads[2], iter([b"y"]))]))
    found = received(io.BytesIO(stream), tmp_path)
    assert [part.head for part in found] == heads
    assert [part.path.read_bytes() for part in found] == [content + b"x", b"", b"y"]


@pytest.mark.parametrize("cut", [0, 5, 17, 20, 40, -1])
def test_a_stream_that_is_cut_is_no_load(cut: int, tmp_path: Path) -> None:
    stream = b"".join(written([(PartHead("a", None, "file"), iter([b"content"]))]))
    with pytest.raises(InputError, match="ends before the end"):
        received(io.BytesIO(stream[:cut]), tmp_path)


@pytest.mark.parametrize(
    "frames",
    [b"D\0\0\0\1x", b"X\0\0\0\0", b"P\0\0\0\2{}", b"P\0\0\0\4null", b"P\xff\xff\xff\xff", b"P\0\0\0\1{"],
)
def test_frames_that_make_no_sense_are_refused(frames: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        received(io.BytesIO(b"omnigraph-load 1\n" + frames + b"E\0\0\0\0"), tmp_path)


def test_received_files_are_open_only_while_they_are_read(tmp_path: Path) -> None:
    stream = b"".join(written((PartHead(f"{number}", None, "file"), iter([b"content"])) for number in range(50)))
    parts = [NamedPart(part) for part in received(io.BytesIO(stream), tmp_path)]
    before = len(list(Path("/dev/fd").iterdir()))
    assert {(part.read(3), part.tell(), part.seek(-2, io.SEEK_END), part.read(), part.read()) for part in parts} == {
        (b"con", 3, 5, b"nt", b"")
    }
    assert len(list(Path("/dev/fd").iterdir())) < before + len(parts)


def test_a_load_of_too_many_parts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOAD_PARTS", 3)
    stream = b"".join(written((PartHead("x", None, "file"), iter([])) for _ in range(4)))
    with pytest.raises(ResourceLimitExceeded, match="load_parts"):
        received(io.BytesIO(stream), tmp_path)


def test_a_text_that_is_no_unicode_is_refused_before_it_is_sent(server: Served) -> None:
    with og.open(server.graph_url()) as graph, pytest.raises(InputError, match="half of a character"):
        graph.query("query q() { match { $p: Person } return { $p.handle } }\ud800")


def test_a_file_is_read_in_pieces_and_as_often_as_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "big.jsonl"
    file.write_bytes(b"x" * (3 * limits.CLIENT_PIECE_BYTES + 5))
    upload = upload_of(file, None)
    for _ in range(2):
        pieces = list(upload.pieces())
        assert max(map(len, pieces)) <= limits.CLIENT_PIECE_BYTES
        assert b"".join(piece for piece in pieces if piece[:1] == b"x") == file.read_bytes()
    assert upload.is_repeatable


def test_what_can_be_read_once_is_sent_once() -> None:
    table = pa.table({"handle": ["a"]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert not upload_of({"Person": reader}, None).is_repeatable
    assert upload_of({"Person": table}, None).is_repeatable


@pytest.mark.parametrize("body", [b"", b"nonsense", b"omnigraph-load 1\n", b"omnigraph-load 1\nP\0\0\0\2{}"])
def test_a_server_refuses_a_body_that_is_no_load(body: bytes, server: Served) -> None:
    url = f"{server.graph_url()}/load/parts?mode=append"
    answer = httpx2.post(url, content=body, headers={"content-type": MEDIA_TYPE})
    assert answer.status_code == 400
    assert answer.json()["problem"]["code"] in ("input", "request")


def test_rows_that_lie_about_their_offsets_are_refused(server: Served) -> None:
    sink = io.BytesIO()
    batch = pa.record_batch({"handle": pa.array(["aaaa", "bbbb"])})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = sink.getvalue().replace(b"\4\0\0\0\x08\0\0\0", b"\xff\xff\xff\x7f\x08\0\0\0")
    assert content != sink.getvalue()
    body = b"".join(written([(PartHead("<Person>", "Person", "rows"), iter([content]))]))
    url = f"{server.graph_url()}/load/parts?mode=append&shape=mapping"
    answer = httpx2.post(url, content=body, headers={"content-type": MEDIA_TYPE})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_no_file_of_the_server_is_opened_by_its_name(server: Served, place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"type":"Person","data":{"handle":"leak","name":"L"}}\n', "utf-8")
    body = b"".join(written([(PartHead(str(secret), None, "file"), iter([]))]))
    url = f"{server.graph_url()}/load/parts?mode=append"
    answer = httpx2.post(url, content=body, headers={"content-type": MEDIA_TYPE})
    assert (answer.status_code, answer.json()["total_entities"]) == (200, 0)
    with og.open(place) as graph:
        assert len(graph.query('query q() { match { $p: Person { handle: "leak" } } return { $p.name } }')) == 0
