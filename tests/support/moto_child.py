"""The S3 server process: says its port in one line, then serves until its standard input closes.

The parent holds the other end of that pipe. When the parent ends in any way, SIGKILL included, the pipe closes and
this process ends too. Writes are carried out one at a time: moto looks at a condition and then writes, so two of its
threads could both meet a condition that a real store lets only one of them meet. Requests go to the S3 part of moto
directly: finding out which of all services a request is for takes half of the time of a small one. The times in a
listing are parsed once: they are most of what a long one costs.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from botocore.utils import parse_to_aware_datetime
from moto.core import serialize
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

READS = ("GET", "HEAD")
CONTROL = "/moto-api"


class OneWriteAtATime:
    """A server application whose writes exclude each other. The body is read before, so a slow client holds nobody."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in READS:
            return self._application(environ, start_response)
        stream = environ["wsgi.input"]
        length = environ.get("CONTENT_LENGTH")
        body = stream.read(int(length)) if length else stream.read() if environ.get("wsgi.input_terminated") else b""
        environ["wsgi.input"] = io.BytesIO(body)
        with self._lock:
            return list(self._application(environ, start_response))


def s3_alone() -> Callable[..., Iterable[bytes]]:
    """The application for S3, and the one that empties the server."""
    s3, control = create_backend_app("s3"), create_backend_app("moto_api")

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        application = control if environ["PATH_INFO"].startswith(CONTROL) else s3
        return application(environ, start_response)

    return answer


def main() -> None:
    vars(serialize)[parse_to_aware_datetime.__name__] = lru_cache(100_000)(parse_to_aware_datetime)
    application = OneWriteAtATime(s3_alone())
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
