"""Requests that are no requests: smuggled, too large, too slow, too deep. Sent as bytes."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Iterator

import pytest
import zstandard

from tests.server.security.places import BELOW, TOKENS, Place, place
from tests.support.http_call import raw, statuses
from tests.support.waiting import wait_until

_AUTH = f"Authorization: Bearer {TOKENS['act-all']}\r\n"
_ASK = json.dumps({"query": "query q() { match { $p: Person } return { $p.name } }"})
_HIDDEN = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Hidden: 1\r\nConnection: close\r\n\r\n"


def _post(headers: str, body: str) -> bytes:
    first = f"POST {BELOW}/query HTTP/1.1\r\nHost: localhost\r\n{_AUTH}Content-Type: application/json\r\n"
    return f"{first}{headers}\r\n{body}".encode("latin-1")


SMUGGLED = {
    "two lengths": _post(f"Content-Length: {len(_ASK)}\r\nContent-Length: 4\r\n", _ASK + _HIDDEN),
    "two lengths in one": _post(f"Content-Length: {len(_ASK)}, 4\r\n", _ASK + _HIDDEN),
    "length and chunks": _post(f"Content-Length: {len(_ASK)}\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + _HIDDEN),
    "chunks and length": _post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n" + _HIDDEN),
    "strange encoding": _post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + _HIDDEN),
    "chunked is not last": _post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n" + _HIDDEN),
    "signed length": _post(f"Content-Length: +{len(_ASK)}\r\n", _ASK + _HIDDEN),
    "negative length": _post("Content-Length: -1\r\n", _ASK + _HIDDEN),
    "hexadecimal length": _post("Content-Length: 0x10\r\n", _ASK + _HIDDEN),
    "length with a blank inside": _post("Content-Length: 1 0\r\n", _ASK + _HIDDEN),
    "endless length": _post(f"Content-Length: {'9' * 40}\r\n", _ASK + _HIDDEN),
    "blank before the colon": _post(f"Content-Length : {len(_ASK)}\r\n", _ASK + _HIDDEN),
    "chunk without a size": _post("Transfer-Encoding: chunked\r\n", "zz\r\n\r\n" + _HIDDEN),
    "endless chunk": _post("Transfer-Encoding: chunked\r\n", "f" * 30 + "\r\n\r\n" + _HIDDEN),
    "NUL in a header": _post(f"X-A: a\x00b\r\nContent-Length: {len(_ASK)}\r\n", _ASK + _HIDDEN),
    "bare return in a header": _post(f"X-A: a\rX-B: b\r\nContent-Length: {len(_ASK)}\r\n", _ASK + _HIDDEN),
    "unknown method": f"GET\x00 /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n{_HIDDEN}".encode(),
    "tunnel": b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n" + _HIDDEN.encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_request_that_can_be_read_in_two_ways_is_read_in_none(policy_place: Place, name: str) -> None:
    answers = raw(policy_place.port, SMUGGLED[name], ends=True)
    assert len(statuses(answers)) <= 1, answers
    assert all(400 <= status < 500 for status in statuses(answers)), answers
    assert policy_place.ask("GET", "/healthz").status == 200


def test_nothing_follows_a_request_without_a_version(policy_place: Place) -> None:
    answers = raw(policy_place.port, f"GET /healthz\r\nHost: localhost\r\n\r\n{_HIDDEN}".encode(), ends=True)
    assert len(statuses(answers)) <= 1 and b"X-Hidden" not in answers


def test_a_line_that_goes_on_is_no_second_header(policy_place: Place) -> None:
    told = _post(
        f"X-A: a\r\n {_AUTH.replace('Bearer', 'Bearer x')}Content-Length: {len(_ASK)}\r\nConnection: close\r\n", _ASK
    )
    answers = statuses(raw(policy_place.port, told, ends=True))
    assert len(answers) == 1 and answers[0] in (200, 400)


def test_what_a_client_names_comes_back_only_if_it_is_sane(policy_place: Place) -> None:
    for name, comes_back in (("req-1", True), ("x" * 128, True), ("x" * 129, False), ("a\tb", False), ("é", False)):
        reply = policy_place.ask("GET", "/healthz", headers={"X-Request-Id": name})
        assert (reply.headers["x-request-id"] == name) is comes_back, name


@pytest.mark.parametrize("what", ["one header", "many headers", "address", "query"])
def test_headers_and_addresses_have_an_end(policy_place: Place, what: str) -> None:
    lines = {
        "one header": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + "x" * 1_000_000 + "\r\n\r\n",
        "many headers": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        + "".join(f"X-{n}: {n}\r\n" for n in range(60_000))
        + "\r\n",
        "address": "GET /" + "x" * 1_000_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "query": f"GET {BELOW}/snapshot?branch=" + "x" * 1_000_000 + f" HTTP/1.1\r\nHost: localhost\r\n{_AUTH}\r\n",
    }
    try:
        answers = raw(policy_place.port, lines[what].encode(), ends=True)
    except OSError:  # it closed the connection while we were sending
        answers = b""
    assert all(status in (400, 404, 413, 414, 431) for status in statuses(answers)), answers[:200]
    assert policy_place.ask("GET", "/healthz").status == 200


_QUERY = "query q() { match { $p: Person } return { $p.name } }"
DEEP = {
    "lists": "[" * 200_000,
    "closed lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 100_000,
    "params": f'{{"query": "{_QUERY}", "params": {{"a": ' + "[" * 200_000,
    "closed params": f'{{"query": "{_QUERY}", "params": {{"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    "unknown field": f'{{"query": "{_QUERY}", "zz": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep query": json.dumps({"query": "query q() { match { " + "not { " * 20_000}),
    "deep expression": json.dumps({"query": "query q() { match { $p: Person } return { " + "(" * 20_000 + "1"}),
    "many keys": json.dumps({"query": _QUERY, "params": {f"k{n}": n for n in range(60_000)}}),
    "many unknown keys": json.dumps({"query": "x", **{f"k{n}": n for n in range(60_000)}}),
    "long number": '{"query": "x", "params": {"a": ' + "9" * 500_000 + "}}",
    "long exponent": '{"query": "x", "params": {"a": 1e' + "9" * 500_000 + "}}",
    "not UTF-8": '{"query": "\xff\xfe"}',
    "half a pair": '{"query": "\\ud800"}',
    "same key": '{"query": "x", "query": "y"}',
    "no object": "[1]",
    "null": "null",
    "empty": "",
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("path", ["/query", "/mutate", "/schema/apply", "/branches/merge", "/queries/people"])
def test_a_body_of_a_strange_shape_is_an_error_of_the_client(policy_place: Place, path: str, name: str) -> None:
    reply = policy_place.ask("POST", BELOW + path, DEEP[name].encode("latin-1"))
    assert reply.status in (400, 413) or (path == "/queries/people" and reply.status == 200), reply.text[:300]


def test_a_million_keys_are_above_the_limit(policy_place: Place) -> None:
    body = ("{" + ",".join(f'"{n}":0' for n in range(1_000_000)) + "}").encode()
    reply = policy_place.ask("POST", f"{BELOW}/query", body)
    assert reply.status == 413 and reply.json()["resource_limit"]["limit"] == 1024**2


LINES = {
    "deep": '{"type": "Person", "data": {"name": ' + "[" * 100_000 + "]" * 100_000 + "}}\n",
    "open": '{"type": "Person", "data": {"name": ' + "[" * 100_000,
    "many keys": '{"type": "Person", "data": {' + ",".join(f'"k{n}": 0' for n in range(100_000)) + "}}\n",
    "no text": "\x00\x01\x02",
    "half a line": '{"type": "Person", "da',
    "array": "[]\n",
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("path", ["/load", "/load/ndjson", "/ingest"])
def test_lines_of_a_strange_shape_are_an_error_of_the_client(policy_place: Place, path: str, name: str) -> None:
    if path == "/load/ndjson":
        reply = policy_place.ask("POST", BELOW + path, LINES[name].encode(), {"Content-Type": "application/x-ndjson"})
    else:
        reply = policy_place.ask("POST", BELOW + path, {"data": LINES[name]})
    assert reply.status in (400, 413), reply.text[:300]


def _zeros(size: int) -> Iterator[bytes]:
    for _ in range(size >> 20):
        yield bytes(1 << 20)


def _gzip_bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(map(packer.compress, _zeros(200 << 20))) + packer.flush()


def _zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join(map(packer.compress, _zeros(1 << 30))) + packer.flush()


@pytest.mark.parametrize(("path", "type_"), [("/query", "application/json"), ("/load/ndjson", "application/x-ndjson")])
def test_a_bomb_is_only_unpacked_up_to_the_limit(policy_place: Place, path: str, type_: str) -> None:
    before = _most_memory(policy_place.process)
    for encoding, bomb in (("gzip", _gzip_bomb()), ("zstd", _zstd_bomb())):
        reply = policy_place.ask("POST", BELOW + path, bomb, {"Content-Type": type_, "Content-Encoding": encoding})
        assert reply.status == 413, reply.text[:300]
    assert _most_memory(policy_place.process) - before < 200 << 20


def _most_memory(process: int) -> int:
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


_WIDE = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
PACKED = {
    "half": ("gzip", gzip.compress(_ASK.encode())[:-6], 400),
    "nothing": ("gzip", b"", 400),
    "no gzip": ("gzip", _ASK.encode(), 400),
    "no zstd": ("zstd", _ASK.encode(), 400),
    "twice": ("gzip, gzip", gzip.compress(gzip.compress(_ASK.encode())), 415),
    "unknown": ("br", _ASK.encode(), 415),
    "more behind": ("gzip", gzip.compress(_ASK.encode()) + b"rest", 400),
    "large window": ("zstd", zstandard.ZstdCompressor(compression_params=_WIDE).compress(bytes(300 << 20)), (400, 413)),
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_a_damaged_compression_is_an_error_of_the_client(policy_place: Place, name: str) -> None:
    encoding, body, wanted = PACKED[name]
    reply = policy_place.ask("POST", f"{BELOW}/query", body, {"Content-Encoding": encoding})
    assert reply.status in (wanted if isinstance(wanted, tuple) else (wanted,)), reply.text


def test_a_packed_body_is_taken(policy_place: Place) -> None:
    for encoding, body in (("gzip", gzip.compress(_ASK.encode())), ("zstd", zstandard.compress(_ASK.encode()))):
        reply = policy_place.ask("POST", f"{BELOW}/query", body, {"Content-Encoding": encoding})
        assert reply.status == 200, reply.text


JSON_LIMIT, LOAD_LIMIT = 8_192, 65_536


@pytest.fixture(scope="module")
def small_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with low limits, that nobody else is slowed down by."""
    limits = {"json_body_bytes": JSON_LIMIT, "load_body_bytes": LOAD_LIMIT, "body_seconds": 1}
    with place(tmp_path_factory.mktemp("small"), tokens=False, policy=False, limits=limits) as found:
        yield found


def _json_of(size: int, body: dict[str, str]) -> bytes:
    text = json.dumps(body)
    return (text[:-1] + " " * (size - len(text)) + "}").encode()


SIZED = {
    "/query": (JSON_LIMIT, "application/json", {"query": "query q() { match { $p: Person } return { $p.name } }"}),
    "/mutate": (JSON_LIMIT, "application/json", {"query": 'query q() { delete Person where name = "no" }'}),
    "/export": (JSON_LIMIT, "application/json", {"branch": "main"}),
    "/branches/merge": (JSON_LIMIT, "application/json", {"source": "main"}),
    "/schema/plan": (JSON_LIMIT, "application/json", {"schema_source": "node A { name: String @key }"}),
    "/queries/people": (JSON_LIMIT, "application/json", {"branch": "main"}),
    "/load": (LOAD_LIMIT, "application/json", {"data": ""}),
    "/ingest": (LOAD_LIMIT, "application/json", {"data": ""}),
    "/load/ndjson": (LOAD_LIMIT, "application/x-ndjson", None),
}


@pytest.mark.parametrize("path", SIZED)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_be_as_long_as_the_limit(small_place: Place, path: str, chunked: bool) -> None:
    limit, type_, body = SIZED[path]
    for size, is_allowed in ((limit - 1, True), (limit, True), (limit + 1, False)):
        content = b"\n" * size if body is None else _json_of(size, body)
        headers = {"Content-Type": type_}
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
            content = b"%x\r\n" % len(content) + content + b"\r\n0\r\n\r\n"
        reply = small_place.ask("POST", BELOW + path, content, headers)
        assert (reply.status != 413) is is_allowed, (size, reply.text)
        if not is_allowed:
            told = reply.json()["resource_limit"]
            assert told["limit"] == limit and told["actual"] > limit


@pytest.mark.parametrize("sent", ["", "{"])
def test_a_body_that_does_not_come_is_not_waited_for(small_place: Place, sent: str) -> None:
    told = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100"
    head = f"POST {BELOW}/query HTTP/1.1\r\n{told}\r\n\r\n{sent}"
    with socket.create_connection(("127.0.0.1", small_place.port), 30) as slow:
        slow.sendall(head.encode())
        # Others are served meanwhile.
        assert small_place.ask("GET", "/healthz").status == 200
        found = b""
        while more := slow.recv(65_536):
            found += more
    assert statuses(found) == [408], found


def test_headers_that_do_not_end_are_not_waited_for(small_place: Place) -> None:
    with socket.create_connection(("127.0.0.1", small_place.port), 30) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert small_place.ask("GET", "/healthz").status == 200
        found = b""
        while more := slow.recv(65_536):
            found += more
    assert all(status in (400, 408) for status in statuses(found))


def test_many_slow_bodies_hold_up_nobody(small_place: Place) -> None:
    told = "Host: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n"
    head = f"POST {BELOW}/load/ndjson HTTP/1.1\r\n{told}\r\n"
    slow = [socket.create_connection(("127.0.0.1", small_place.port), 30) for _ in range(100)]
    try:
        for each in slow:
            each.sendall(head.encode())
        assert small_place.ask("POST", f"{BELOW}/query", _ASK.encode()).status == 200
        mutation = {"query": 'query q() { insert Person { name: "quick" } }'}
        assert small_place.ask("POST", f"{BELOW}/mutate", mutation).status == 200
    finally:
        for each in slow:
            each.close()
    wait_until(lambda: small_place.ask("GET", "/healthz").status == 200, timeout=20, what="the server to answer")
