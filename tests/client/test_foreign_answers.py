"""Something that is no server of graphs answers: a proxy, a login page, a server of another make."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import (
    BranchNotFound,
    ConflictError,
    DeniedError,
    InputError,
    KeyConflict,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknown,
    PreconditionFailed,
    ResourceLimitExceeded,
    ServerUnavailable,
    TooManyRequests,
    Unauthenticated,
    UnknownAnswer,
)

Answers = list[tuple[int, dict[str, str], bytes]]


@contextmanager
def answering(answers: Answers) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers one after the other, the last one for ever. Notes what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(f"{self.command} {self.path}")
            status, headers, body = answers[0] if len(answers) == 1 else answers.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/graphs/people", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


BRANCHES: tuple[int, dict[str, str], bytes] = (200, {}, b'{"branches":["main"]}')


def told(status: int, body: bytes, **headers: str) -> tuple[OmniGraphError, list[str]]:
    """What a read says to an answer, and what was asked."""
    with answering([BRANCHES, (status, headers, body)]) as (url, asked), og.open(url) as graph:
        with pytest.raises(OmniGraphError) as caught:
            graph.commits.list()
        return caught.value, asked


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InputError),
        (401, Unauthenticated),
        (403, DeniedError),
        (404, NotFoundError),
        (409, ConflictError),
        (412, PreconditionFailed),
        (429, TooManyRequests),
        (500, UnknownAnswer),
        (302, UnknownAnswer),
    ],
)
def test_a_page_is_an_error_by_its_status(status: int, kind: type[OmniGraphError]) -> None:
    error, _ = told(status, b"<html>no</html>", **{"X-Request-Id": "r1", "Location": "http://elsewhere/"})
    assert isinstance(error, kind)
    assert (error.details["status"], error.details["request_id"]) == (status, "r1")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_server_is_asked_again(status: int) -> None:
    error, asked = told(status, b"<html>bad gateway</html>")
    assert isinstance(error, ServerUnavailable)
    assert len(asked) == 1 + limits.CLIENT_ATTEMPTS


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"[]", b'{"commits": 3}', b'{"commits": [{}]}', b"\xff"])
def test_an_answer_that_cannot_be_understood_is_told_so(body: bytes) -> None:
    error, asked = told(200, body)
    assert isinstance(error, UnknownAnswer) and error.details["status"] == 200
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "envelope", "kind"),
    [
        (404, {"error": "branch 'x' not found", "code": "not_found"}, NotFoundError),
        (409, {"error": "e", "key_conflict": {"entity_kind": "node", "type_name": "T", "entity_id": "x"}}, KeyConflict),
        (412, {"error": "e", "precondition_failure": {"expected": "a", "actual": "b"}}, PreconditionFailed),
        (413, {"error": "e", "resource_limit": {"resource": "r", "limit": 1, "actual": 2}}, ResourceLimitExceeded),
        (
            404,
            {"error": "e", "problem": {"code": "not_found.branch.odd", "message": "m", "details": {}}},
            BranchNotFound,
        ),
    ],
)
def test_another_server_of_the_contract_is_understood(
    status: int, envelope: dict[str, Any], kind: type[OmniGraphError]
) -> None:
    error, _ = told(status, json.dumps(envelope).encode())
    assert type(error) is kind


def test_a_busy_server_is_asked_again_when_it_says_when() -> None:
    busy = json.dumps({"error": "busy", "code": "too_many_requests"}).encode()
    commits: tuple[int, dict[str, str], bytes] = (200, {}, b'{"commits":[]}')
    with answering([BRANCHES, (429, {"Retry-After": "0"}, busy), commits]) as (url, asked), og.open(url) as graph:
        assert graph.commits.list() == []
        assert len(asked) == 3
    error, asked = told(429, busy, **{"Retry-After": "60"})
    assert isinstance(error, TooManyRequests) and len(asked) == 2  # nobody waits a minute unasked


def test_a_write_through_a_failing_proxy_is_unknown() -> None:
    with answering([BRANCHES, (502, {}, b"<html>")]) as (url, asked), og.open(url) as graph:
        with pytest.raises(OutcomeUnknown) as caught:
            graph.mutate("query q() { delete Person }")
        assert len(asked) == 1 + limits.CLIENT_ATTEMPTS  # by the id of its commit it is done once
        assert caught.value.details["commit_id"] in str(caught.value)
        with pytest.raises(OutcomeUnknown):
            graph.revert("tag:x")
        assert len(asked) == 2 + limits.CLIENT_ATTEMPTS


def test_a_redirect_is_not_followed_with_the_token() -> None:
    with answering([(200, {}, b'{"branches":["main"]}')]) as (elsewhere, asked):
        answers: Answers = [(307, {"Location": elsewhere}, b"")]
        with answering(answers) as (url, _), pytest.raises(UnknownAnswer):
            og.open(url, token="secret")
        assert asked == []
