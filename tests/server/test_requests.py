"""What a server makes of paths, headers, parameters and bodies."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from omnigraph.server.server_limits import ServerLimits
from tests.support.http_call import call, raw, statuses
from tests.support.served import Served

Start = Callable[..., Served]
HERE = "/graphs/people"


@pytest.fixture
def port(serve_probes: Start) -> int:
    return serve_probes(limits=ServerLimits(json_body_bytes=100_000, spool_bytes=1000, body_seconds=2)).port


def head(line: str, *more: str) -> bytes:
    return "\r\n".join([line, "Host: localhost", *more, "", ""]).encode()


def test_an_encoded_slash_is_part_of_its_segment(port: int) -> None:
    assert call(port, "DELETE", f"{HERE}/branches/review%2Fx%20y").json() == {"branch": "review/x y"}
    unpacked = call(port, "DELETE", f"{HERE}/branches/review/x")
    assert (unpacked.status, unpacked.json()["problem"]["hint"]) == (404, "write / in a name as %2F")
    found = call(port, "GET", f"{HERE}/words/a%2Fand%2Fb/and/%E2%82%AC").json()
    assert found["path"] == {"first": "a/and/b", "second": "€"}


def test_a_word_of_a_path_is_no_name(port: int) -> None:
    answer = call(port, "DELETE", f"{HERE}/branches/merge")
    assert (answer.status, answer.json()["code"], answer.headers["allow"]) == (405, "method_not_allowed", "POST")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/", 404),
        ("/query", 404),
        ("/graphs/", 400),
        ("/graphs/people", 404),
        ("/graphs/people/", 404),
        ("/graphs/people/nothing", 404),
        ("/graphs/people/echo/", 404),
        ("/graphs/people//echo", 404),
        ("/graphs/other/echo", 404),
        ("/graphs/policies/echo", 400),
        ("/graphs/a_b/echo", 400),
        ("/graphs/" + "a" * 65 + "/echo", 400),
        ("/graphs/%70eople/strict", 200),
        ("/graphs/%FF/strict", 400),
        ("/graphs/people/words/%FF/and/x", 400),
        ("/graphs/..%2Fpeople/strict", 400),
        ("/GRAPHS/people/strict", 404),
        ("/graphs/people/echo", 405),
    ],
)
def test_paths(port: int, target: str, status: int) -> None:
    answer = call(port, "GET", target)
    assert answer.status == status
    if status != 200:
        assert set(answer.json()) == {"error", "code", "problem"}


def test_query_parameters_become_values(port: int) -> None:
    found = call(port, "GET", f"{HERE}/words/a/and/b?word=x%20y&number=7&many=1&many=2").json()
    assert (found["word"], found["number"], found["many"]) == ("x y", 7, ["1", "2"])


@pytest.mark.parametrize(
    "query", ["word=1&word=2", "number=x", "number=1.5", "word=%FF", "&".join("many=1" for _ in range(2000))]
)
def test_wrong_query_parameters_are_refused(port: int, query: str) -> None:
    answer = call(port, "GET", f"{HERE}/words/a/and/b?{query}")
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")


def test_unknown_query_parameters_and_fields_are_errors(port: int) -> None:
    answer = call(port, "GET", f"{HERE}/words/a/and/b?wrod=1")
    assert answer.status == 400 and "'wrod'" in answer.json()["error"] and "word" in answer.json()["error"]


def test_the_id_of_a_request_is_the_clients_if_it_can_be_shown(port: int) -> None:
    assert call(port, "GET", "/healthz", headers={"X-Request-Id": "my id 1"}).headers["x-request-id"] == "my id 1"
    for wrong in ("", "x" * 129, "a\tb"):
        found = call(port, "GET", "/healthz", headers={"X-Request-Id": wrong}).headers["x-request-id"]
        assert found != wrong and len(found) == 26


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "the body is empty (send a JSON object)"),
        (b" \r\n", "the body is empty"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'"text"', "another shape"),
        (b"null", "another shape"),
        (b"{}", "`text`"),
        (b'{"text": 3}', "`$.text`"),
        (b'{"text": "a", "params": 3}', "`$.params`"),
        (b'{"text": "a", "params": {"n": ' + b"9" * 50_000 + b"}}", "out of range"),
        (b'{"text": "a", "params": {"n": 1e999}}', "out of range"),
        (b'{"text": "a", "params": {"n": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}", "too deeply"),
        (b"[" * 50_000, ""),
        (b'{"text": "\xff"}', "not JSON"),
        (b'{"text": "\\ud800"}', "not JSON"),
    ],
    ids=range(15),
)
def test_bodies_of_another_shape_are_refused_with_the_place(port: int, body: bytes, named: str) -> None:
    answer = call(port, "POST", f"{HERE}/echo", body)
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")
    assert named in answer.json()["error"]


def test_many_keys_are_only_many(port: int) -> None:
    body = {"text": "a", "params": {f"k{place}": place for place in range(5_000)}}
    assert call(port, "POST", f"{HERE}/echo", body).json()["params"] == body["params"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "multipart/form-data", "application/jsonx"])
def test_a_body_that_says_that_it_is_something_else_is_refused(port: int, kind: str) -> None:
    answer = call(port, "POST", f"{HERE}/echo", {"text": "a"}, {"Content-Type": kind})
    assert (answer.status, answer.json()["code"]) == (415, "bad_request")


def test_a_charset_behind_the_type_is_fine(port: int) -> None:
    answer = call(port, "POST", f"{HERE}/echo", {"text": "a"}, {"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.json()["text"] == "a"


def test_a_body_that_is_too_long_is_refused_however_it_comes(port: int) -> None:
    long = json.dumps({"text": "x" * 200_000}).encode()
    told = call(port, "POST", f"{HERE}/echo", long)
    limit = {"resource": "request_body_bytes", "limit": 100_000, "actual": len(long)}
    assert (told.status, told.json()["resource_limit"]) == (413, limit)
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (long[:90_000], long[90_000:])) + b"0\r\n\r\n"
    lines = ("Transfer-Encoding: chunked", "Content-Type: application/json", "Connection: close")
    assert statuses(raw(port, head(f"POST {HERE}/echo HTTP/1.1", *lines) + chunked)) == [413]
    for packed, name in ((gzip.compress(long), "gzip"), (zstandard.compress(long), "zstd")):
        assert len(packed) < 1000
        assert call(port, "POST", f"{HERE}/echo", packed, {"Content-Encoding": name}).status == 413


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_packed_bodies_are_unpacked(port: int, pack: Callable[[bytes], bytes]) -> None:
    name = "gzip" if pack is gzip.compress else "zstd"
    packed = pack(json.dumps({"text": "x" * 50_000}).encode())
    assert call(port, "POST", f"{HERE}/echo", packed, {"Content-Encoding": name}).json()["text"] == "x" * 50_000
    assert call(port, "POST", f"{HERE}/echo", packed[:-3], {"Content-Encoding": name}).status == 400
    assert call(port, "POST", f"{HERE}/echo", b"nonsense", {"Content-Encoding": name}).status == 400
    lines = pack(b"x" * 60_000)
    kind = {"Content-Encoding": name, "Content-Type": "application/x-ndjson"}
    assert call(port, "POST", f"{HERE}/count", lines, kind).json()["bytes"] == 60_000


@pytest.mark.parametrize("name", ["br", "gzip, gzip", "x-odd"])
def test_other_packings_are_refused(port: int, name: str) -> None:
    answer = call(port, "POST", f"{HERE}/echo", b"{}", {"Content-Encoding": name})
    assert (answer.status, answer.json()["code"]) == (415, "bad_request")


def test_a_raw_body_is_spooled_and_counted(port: int) -> None:
    body = b"x" * 90_000
    kind = {"Content-Type": "application/x-ndjson"}
    assert call(port, "POST", f"{HERE}/count", body, kind).json()["bytes"] == len(body)
    told = call(port, "POST", f"{HERE}/count", body * 2, kind)
    assert (told.status, told.json()["resource_limit"]["resource"]) == (413, "graph_batch_request_bytes")
    assert call(port, "POST", f"{HERE}/count", body, {"Content-Type": "application/json"}).status == 415


def test_a_raw_body_is_not_read_for_somebody_who_may_not_send_it(serve_probes: Start) -> None:
    port = serve_probes(tokens={"act-ana": "tok"}).port
    lines = ("Content-Type: application/x-ndjson", "Content-Length: 1000000", "Connection: close")
    answers = raw(port, head(f"POST {HERE}/count HTTP/1.1", "Authorization: Bearer tok", *lines))
    assert statuses(answers) == [403]


def test_a_slow_body_is_given_up(port: int) -> None:
    lines = ("Content-Type: application/json", "Content-Length: 1000")
    answer = raw(port, head(f"POST {HERE}/echo HTTP/1.1", *lines) + b"{")
    assert statuses(answer) == [408] and b'"bad_request"' in answer


def test_a_slow_head_is_given_up(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as place:
        place.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        with contextlib.suppress(ConnectionResetError):
            assert place.recv(1000) == b""


def test_a_head_that_is_too_long_is_refused(port: int) -> None:
    for long in (
        head("GET /healthz HTTP/1.1", *(f"X-{place}: {'y' * 900}" for place in range(100))),
        head(f"GET /{'a' * 70_000} HTTP/1.1"),
    ):
        answer = raw(port, long, ends=True)
        assert statuses(answer) == [431] and b'"request_header_bytes"' in answer


def test_what_is_no_http_is_refused_in_the_envelope(port: int) -> None:
    answer = raw(port, b"\x16\x03\x01 hello\r\n\r\n")
    assert statuses(answer) == [400] and json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


def test_a_failure_inside_tells_nothing(port: int) -> None:
    answer = call(port, "GET", f"{HERE}/fail")
    assert (answer.status, answer.json()["code"]) == (500, "internal")
    assert b"s3cret" not in answer.body and answer.headers["x-request-id"] in answer.json()["error"]


@pytest.mark.parametrize(
    ("accepted", "packing"),
    [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, zstd", "zstd"),
        ("gzip;q=1, zstd;q=0", "gzip"),
        ("br", None),
        ("", None),
    ],
)
def test_answers_are_packed_as_the_client_likes(port: int, accepted: str, packing: str | None) -> None:
    answer = call(port, "GET", f"{HERE}/long", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == packing and answer.headers["vary"] == "accept-encoding"
    unpack: dict[str | None, Any] = {"gzip": gzip.decompress, "zstd": _unzstd, None: bytes}
    assert unpack[packing](answer.body) == b"long " * 10_000
    assert int(answer.headers["content-length"]) == len(answer.body)
    short = call(port, "GET", "/healthz", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in short.headers and short.json()["status"] == "ok"


def _unzstd(body: bytes) -> bytes:
    found: bytes = zstandard.ZstdDecompressor().decompressobj().decompress(body)
    return found


def test_answers_in_pieces_have_their_length(port: int) -> None:
    whole = call(port, "GET", f"{HERE}/pieces", headers={"Accept-Encoding": "gzip"})
    assert (whole.headers["content-length"], len(whole.body)) == ("1500000", 1_500_000)
    assert "content-encoding" not in whole.headers and whole.headers["etag"] == '"1"'
    only_head = call(port, "HEAD", f"{HERE}/pieces")
    assert (only_head.status, only_head.headers["content-length"], only_head.body) == (200, "1500000", b"")
    unchanged = call(port, "GET", f"{HERE}/unchanged")
    assert (unchanged.status, unchanged.headers["content-length"], unchanged.body) == (304, "1500000", b"")
