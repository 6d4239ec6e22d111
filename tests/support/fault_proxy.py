"""A loopback proxy in front of an S3 server, or of a server of graphs, that makes chosen requests go wrong.

It stands on the wire, so it meets the requests of every library and of every process alike. Requests that match are
counted; from the n-th on, some in a row are answered with an error, cut off before or after their effect, or have
their effect when the client has long given up.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

WRITES = frozenset({"PUT", "POST", "DELETE"})
READS = frozenset({"GET", "HEAD"})

#: Answers of a store that did nothing: kind → status and code.
_REFUSALS = {
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
    "429": (429, "TooManyRequests"),
    "409": (409, "ConditionalRequestConflict"),
    "412": (412, "PreconditionFailed"),
    "skew": (403, "RequestTimeTooSkewed"),
}
KINDS = (*_REFUSALS, "reset_before", "reset_after", "late", "cut")

_CONDITIONS = ("If-None-Match", "If-Match")
_PER_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_LATE_SECONDS = 0.4


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and for which requests.

    Attributes:
        kind: an error status without an effect, ``reset_before`` or ``reset_after`` the effect, ``late``: the
            connection ends at once and the effect comes afterwards, ``cut``: half of an answer. The statuses 409 and
            412 are given to conditional requests only.
        first: number of the first request that it happens to, among those that match.
        times: how many in a row.
        methods, part: what matches: one of these methods, and this text in the path.
    """

    kind: str
    first: int = 1
    times: int = 1
    methods: frozenset[str] = WRITES
    part: str = ""

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind


@dataclass(slots=True)
class FaultProxy:
    """Forwards to one server; `armed` makes requests go wrong for the length of a block.

    Attributes:
        seen: requests that matched since the fault was armed.
        on_fault: called right before a fault happens, with what was asked for.
    """

    upstream: str
    seen: int = 0
    on_fault: Callable[[str], None] | None = None
    _fault: Fault | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _late: list[threading.Timer] = field(default_factory=list)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Run for the length of the block; gives the proxy's own address."""
        handler = type("Handler", (_Handler,), {"proxy": self})
        server = _Server(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="fault-proxy", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            self.let_late_effects_happen()
            server.shutdown()
            server.server_close()
            thread.join(10)

    @contextmanager
    def armed(self, fault: Fault) -> Iterator[None]:
        """Requests go wrong inside the block, and no longer."""
        with self._lock:
            self._fault, self.seen = fault, 0
        try:
            yield
        finally:
            with self._lock:
                self._fault = None

    def let_late_effects_happen(self) -> None:
        """Wait until nothing is under way any more."""
        while self._late:
            self._late.pop().join(10)

    def choose(self, method: str, path: str, conditional: bool) -> str | None:
        """What happens to a request: the kind of a fault, or None."""
        with self._lock:
            fault = self._fault
            if fault is None or method not in fault.methods or fault.part not in path:
                return None
            if fault.kind in ("409", "412") and not conditional:
                return None
            self.seen += 1
            if not fault.first <= self.seen < fault.first + fault.times:
                return None
        if self.on_fault:
            self.on_fault(f"{fault.kind} at {method} {path}")
        return fault.kind

    def forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = HTTPConnection(urlsplit(self.upstream).netloc, timeout=60)
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def forward_late(self, *request: object) -> None:
        timer = threading.Timer(_LATE_SECONDS, self.forward, request)
        self._late.append(timer)
        timer.start()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    headers: list[tuple[str, str]]
    content: bytes


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed ends its connections; that is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    proxy: FaultProxy

    def _handle(self) -> None:
        body = self._body()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _PER_HOP}
        if self.command in ("PUT", "POST"):
            headers["Content-Length"] = str(len(body))
        conditional = any(self.headers.get(name) for name in _CONDITIONS)
        kind = self.proxy.choose(self.command, self.path, conditional)
        if kind in _REFUSALS:
            status, code = _REFUSALS[kind]
            self._answer(Answer(status, [("Content-Type", "application/xml")], _error_body(code)))
        elif kind == "reset_before":
            self._hang_up()
        elif kind == "late":
            self.proxy.forward_late(self.command, self.path, body, headers)
            self._hang_up()
        else:
            answer = self.proxy.forward(self.command, self.path, body, headers)
            if kind == "reset_after":
                self._hang_up()
            else:
                self._answer(answer, cut=kind == "cut")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while length := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(length))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(pieces)

    def _answer(self, answer: Answer, cut: bool = False) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _PER_HOP or (self.command == "HEAD" and name.lower() == "content-length"):
                self.send_header(name, value)
        if self.command != "HEAD" and answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content[: len(answer.content) // 2] if cut else answer.content)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _error_body(code: str) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>injected</Message></Error>'.encode()
    )
