"""Routes that give out blobs: whole or in ranges, under the conditions of HTTP. See `blob_headers.py`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from urllib.parse import quote

import msgspec

from omnigraph.errors import BlobRangeError, ConflictError
from omnigraph.graph.blob_value import Blob
from omnigraph.policy.audit_log import REQUEST_ID
from omnigraph.server.operation import Answer, Call, Content, HttpOperation, Need, Pieces
from omnigraph.server.operations.asked_branch import branch_of, commit_id_of, state_of
from omnigraph.server.operations.blob_headers import asked_range, fails_match, is_known
from omnigraph.server.operations.refused_name import unknown_type_is_400
from omnigraph.wire import requests
from omnigraph.wire.problems import problem_of

#: Bytes that are read at a time.
_CHUNK_BYTES = 4 * 1024**2

#: Left alone in the address of an external value; whatever else is no plain ASCII is written with percent signs.
_SAFE = "%:/?#[]@!$&'()*+,;=~-._"


def _blob(call: Call) -> Answer:
    return _answer(call, is_head=False)


def _head(call: Call) -> Answer:
    return _answer(call, is_head=True)


def _answer(call: Call, *, is_head: bool) -> Answer:
    asked: requests.BlobQuery = call.query
    whole = requests.StateQuery(asked.branch)
    snapshot = call.graph.snapshot(**state_of(whole, asked.snapshot))
    blob = snapshot.blob(f"{asked.entity}:{asked.type}", asked.id, asked.property)
    headers = {"Omnigraph-Snapshot-Id": snapshot.commit_id}
    if blob.uri is not None:
        headers |= {"Location": quote(blob.uri, safe=_SAFE), "Cache-Control": "no-store"}
        return Content(b"", "application/octet-stream", 302, headers, compressible=False)
    return _managed(call, blob, headers, is_head=is_head)


def _managed(call: Call, blob: Blob, headers: dict[str, str], *, is_head: bool) -> Answer:
    etag, size = f'"{blob.etag}"', blob.size
    headers |= {"ETag": etag, "Accept-Ranges": "bytes"}
    if fails_match(call.headers.get("if-match", []), etag):
        error = ConflictError("the value is not the one that If-Match names", hint="read it again")
        return _refused(error, 412, headers)
    if is_known(call.headers.get("if-none-match", []), etag):
        return Pieces(iter(()), size, status=304, headers=headers)
    if is_head:
        return Pieces(iter(()), size, headers=headers)
    wanted = asked_range(call.headers.get("range", []), call.headers.get("if-range", []), etag, size)
    if wanted is None:
        return Pieces(_pieces(blob, 0, size), size, headers=headers)
    if wanted.length is None:
        return _refused(BlobRangeError(wanted.start, None, size), 416, {"Content-Range": f"bytes */{size}"})
    end = wanted.start + wanted.length
    headers["Content-Range"] = f"bytes {wanted.start}-{end - 1}/{size}"
    return Pieces(_pieces(blob, wanted.start, end), wanted.length, status=206, headers=headers)


def _pieces(blob: Blob, start: int, end: int) -> Iterator[bytes]:
    """Some bytes, a few megabytes at a time. The first of them are read at once, so that what fails is told."""
    first = blob.read(start, min(_CHUNK_BYTES, end - start))
    rest = (blob.read(at, min(_CHUNK_BYTES, end - at)) for at in range(start + len(first), end, _CHUNK_BYTES))
    return chain([first], rest)


def _refused(error: ConflictError | BlobRangeError, status: int, headers: dict[str, str]) -> Content:
    """An error with headers of its own."""
    problem = problem_of(error, REQUEST_ID.get())
    return Content(msgspec.json.encode(problem.envelope), status=status, headers=headers)


def _reads(call: Call) -> tuple[Need, ...]:
    asked: requests.BlobQuery = call.query
    if asked.snapshot is not None:
        commit_id_of(asked.snapshot)
        return ()
    return (Need("read", branch_of(asked.branch)),)


BLOB_ROUTES = (
    HttpOperation(
        "GET",
        "/blob",
        "getBlob",
        "blobs",
        "Get a large value, or a range of it",
        unknown_type_is_400(_blob),
        _reads,
        query=requests.BlobQuery,
        media_types=("application/octet-stream",),
        statuses=(412, 416, 424),
    ),
    HttpOperation(
        "HEAD",
        "/blob",
        "headBlob",
        "blobs",
        "Ask about a large value",
        unknown_type_is_400(_head),
        _reads,
        query=requests.BlobQuery,
        statuses=(412, 424),
    ),
)
