"""A loopback proxy in front of an S3 server that notes every call.

It forwards bytes as they are and knows nothing of what they mean; `calls.py` sorts them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_PER_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request and its answer. ``target`` is the path with its query; bodies are kept of POST only."""

    method: str
    target: str
    status: int
    body: bytes = b""


class CountingProxy:
    """Forwards to one server; `take` hands out what was noted since the last time."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self._calls: list[Call] = []
        self._lock = threading.Lock()

    def note(self, call: Call) -> None:
        with self._lock:
            self._calls.append(call)

    def take(self) -> list[Call]:
        with self._lock:
            calls, self._calls = self._calls, []
        return calls

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Run for the length of the block; gives the proxy's own address."""
        handler = type("Handler", (_Handler,), {"proxy": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="counting-proxy", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    proxy: CountingProxy

    def _forward(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _PER_HOP}
        connection = HTTPConnection(self.proxy.upstream, timeout=60)
        try:
            if body is None and self.command in ("PUT", "POST"):
                headers["Content-Length"] = "0"
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            noted = body if body and self.command == "POST" else b""
            self.proxy.note(Call(self.command, self.path, answer.status, noted))
            self._answer(answer.status, answer.getheaders(), content)
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _PER_HOP or (self.command == "HEAD" and name.lower() == "content-length"):
                self.send_header(name, value)
        if self.command != "HEAD" and status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
