"""Blobs over HTTP: conditions, ranges, values outside the graph."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from lance.blob import Blob

from tests.blobs.blob_graphs import add_reference, doc_graph
from tests.server.operations.api import Api, lines, person, refused
from tests.support.http_call import Reply
from tests.support.served import served

VALUE = b"hello world"
PHOTO = "entity=node&type=Person&id=Alice&property=photo"


def blob(shared: Api, method: str = "GET", query: str = PHOTO, **headers: str) -> Reply:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return shared.send(method, f"/blob?{query}", headers=given)


def test_a_value_is_given_with_what_is_known_of_it(shared: Api) -> None:
    reply = blob(shared)
    assert (reply.status, reply.body) == (200, VALUE)
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["content-length"] == "11" and reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["etag"].startswith('"') and reply.headers["etag"].endswith('"')
    assert reply.headers["omnigraph-snapshot-id"] == shared.head()
    head = blob(shared, "HEAD", Range="bytes=0-1", If_Range="x")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "11")
    assert head.headers["etag"] == reply.headers["etag"]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-4", 0, 5),
        ("bytes=6-", 6, 11),
        ("bytes=-5", 6, 11),
        ("bytes=-500", 0, 11),
        ("bytes=10-10", 10, 11),
        ("bytes=3-99999999999999999999", 3, 11),
        ("BYTES = 0-0", 0, 1),
    ],
)
def test_one_range_is_given(shared: Api, asked: str, start: int, end: int) -> None:
    reply = blob(shared, Range=asked)
    assert (reply.status, reply.body) == (206, VALUE[start:end])
    assert reply.headers["content-range"] == f"bytes {start}-{end - 1}/11"
    assert reply.headers["content-length"] == str(end - start)


@pytest.mark.parametrize("asked", ["bytes=0-1,3-4", "bytes=5-2", "lines=0-1", "bytes=a-b", "bytes=", "bytes=-", "0-4"])
def test_what_is_no_range_is_passed_over(shared: Api, asked: str) -> None:
    reply = blob(shared, Range=asked)
    assert (reply.status, reply.body) == (200, VALUE)


@pytest.mark.parametrize("asked", ["bytes=11-", "bytes=99-100", "bytes=-0"])
def test_a_range_behind_the_end_is_416(shared: Api, asked: str) -> None:
    reply = blob(shared, Range=asked)
    assert refused(reply, 416, "bad_request")["blob_range"]["length"] == 11
    assert reply.headers["content-range"] == "bytes */11"


def test_a_range_can_depend_on_the_value(shared: Api) -> None:
    etag = blob(shared).headers["etag"]
    assert blob(shared, Range="bytes=0-0", If_Range=etag).status == 206
    for other in ('"other"', f"W/{etag}", f"{etag}, {etag}", "*", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert blob(shared, Range="bytes=0-0", If_Range=other).status == 200


def test_a_value_that_must_be_another_one(shared: Api) -> None:
    etag = blob(shared).headers["etag"]
    for known in (etag, f"W/{etag}", f'"x" , {etag}', "*", f",, {etag} ,"):
        for method in ("GET", "HEAD"):
            reply = blob(shared, method, If_None_Match=known)
            assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
            assert reply.headers["content-length"] == "11"
    for other in ('"x"', "x", f"{etag} {etag}", '"'):
        assert blob(shared, If_None_Match=other).status == 200


def test_a_value_that_must_be_this_one(shared: Api) -> None:
    etag = blob(shared).headers["etag"]
    for known in (etag, f'"x", {etag}', "*"):
        assert blob(shared, If_Match=known).status == 200
    for other in ('"x"', f"W/{etag}", "x", f"{etag} x", ""):
        reply = blob(shared, If_Match=other)
        refused(reply, 412, "conflict")
        assert reply.headers["etag"] == etag
    assert blob(shared, "HEAD", If_Match='"x"').status == 412
    assert blob(shared, If_Match='"x"', If_None_Match=etag).status == 412


def test_a_list_of_blanks_and_commas_is_read_at_once(shared: Api) -> None:
    assert blob(shared, If_None_Match='"a"' + ", \t" * 8000 + "x").status == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        (PHOTO.replace("Alice", "Nobody"), 404),
        (PHOTO.replace("Alice", "Bob"), 404),
        (PHOTO.replace("photo", "name"), 400),
        (PHOTO.replace("photo", "nothing"), 400),
        (PHOTO.replace("Person", "Nothing"), 400),
        (PHOTO.replace("entity=node", "entity=edge"), 400),
        (PHOTO.replace("entity=node", "entity=both"), 400),
        (PHOTO.replace("entity=node&", ""), 400),
        (PHOTO + "&branch=nope", 404),
        (PHOTO + "&branch=main&snapshot=x", 400),
        (PHOTO + "&snapshot=tag:x", 400),
        (PHOTO + "&snapshot=01ARZ3NDEKTSV4RRFFQ69G5FAV", 404),
        (PHOTO + "&id=Bob", 400),
    ],
)
def test_what_is_wrong_with_a_request_is_said(shared: Api, query: str, status: int) -> None:
    refused(blob(shared, query=query), status, "not_found" if status == 404 else "bad_request")
    assert blob(shared, "HEAD", query).status == status


def test_an_earlier_value_is_read_at_its_commit(shared: Api, branch: str) -> None:
    before = shared.head(branch)
    etag = blob(shared, query=f"{PHOTO}&branch={branch}").headers["etag"]
    shared.done("/load", data=lines(person("Alice", photo="base64:bmV3")), branch=branch)
    now = blob(shared, query=f"{PHOTO}&branch={branch}")
    assert (now.body, now.headers["omnigraph-snapshot-id"]) == (b"new", shared.head(branch))
    assert now.headers["etag"] != etag
    then = blob(shared, query=f"{PHOTO}&snapshot={before}")
    assert (then.body, then.headers["etag"]) == (VALUE, etag)


def test_an_empty_value_is_one(shared: Api, branch: str) -> None:
    shared.done("/load", data=lines(person("Eve", photo="base64:")), branch=branch)
    query = PHOTO.replace("Alice", "Eve") + f"&branch={branch}"
    assert (blob(shared, query=query).status, blob(shared, query=query).body) == (200, b"")
    assert blob(shared, query=query, Range="bytes=0-").status == 416


def test_a_large_value_comes_whole(shared: Api, branch: str) -> None:
    value = os.urandom(9 * 1024**2)
    text = lines(person("Eve", photo=f"base64:{base64.b64encode(value).decode()}"))
    shared.done("/load", data=text, branch=branch)
    query = PHOTO.replace("Alice", "Eve") + f"&branch={branch}"
    whole = shared.send("GET", f"/blob?{query}", headers={"Accept-Encoding": "gzip, zstd"})
    assert whole.body == value and "content-encoding" not in whole.headers
    assert blob(shared, query=query, Range="bytes=4194300-4194310").body == value[4194300:4194311]


def test_a_value_outside_the_graph_is_a_redirect(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/a \u00e4%20.bin"
    with doc_graph(tmp_path / "docs.omni", {"mine": b"x"}) as graph:
        pin = graph.snapshot().tables["node:Doc"]
    add_reference(tmp_path / "docs.omni", pin, "theirs", Blob.from_uri(uri))
    with served({"docs": tmp_path / "docs.omni"}) as server:
        docs = Api(server, graph_id="docs")
        for method in ("GET", "HEAD"):
            reply = blob(
                docs, method, "entity=node&type=Doc&id=theirs&property=body", If_Match='"x"', Range="bytes=0-0"
            )
            assert (reply.status, reply.body, reply.headers["cache-control"]) == (302, b"", "no-store")
            assert reply.headers["location"] == f"file://{tmp_path}/a%20%C3%A4%20.bin"
            assert reply.headers["omnigraph-snapshot-id"] == docs.head() and "etag" not in reply.headers
