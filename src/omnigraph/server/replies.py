"""The answer of an operation as bytes and headers, with gzip or zstd laid over it where the client takes that."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import zstandard

from omnigraph import limits
from omnigraph.server.asgi import by_preference
from omnigraph.server.operation import Content
from omnigraph.wire.problems import ErrorReply

_JSON = b"application/json"
_ZSTD_LEVEL, _GZIP_LEVEL, _GZIP_BITS = 3, 5, 31

Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Reply:
    """An answer that can be sent.

    Attributes:
        length: what the header says, where the body itself is not sent.
    """

    status: int
    headers: Headers
    body: bytes = b""
    length: int | None = None


class Compressor(Protocol):
    """What zlib and zstandard have in common."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


def compression(accepted: str | None) -> str | None:
    """The best of what the client takes, by the header ``Accept-Encoding``."""
    if accepted is None:
        return None
    names = by_preference(accepted)
    return next((name for name in ("zstd", "gzip") if name in names), None)


def compressor(encoding: str) -> Compressor:
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
    return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)


def reply_of(answer: object, encoding: str | None) -> Reply:
    """The reply for a value that becomes JSON, or for a `Content`."""
    if not isinstance(answer, Content):
        return _packed(Reply(200, [(b"content-type", _JSON)], msgspec.json.encode(answer)), encoding)
    reply = Reply(answer.status, [(b"content-type", answer.media_type.encode("latin-1")), *as_headers(answer.headers)])
    reply.body = answer.body
    return _packed(reply, encoding) if answer.compressible else reply


def reply_of_problem(problem: ErrorReply) -> Reply:
    return Reply(problem.status, [(b"content-type", _JSON), *as_headers(problem.headers)], problem.body())


def _packed(reply: Reply, encoding: str | None) -> Reply:
    if len(reply.body) < limits.COMPRESSED_FROM_BYTES:
        return reply
    reply.headers.append((b"vary", b"accept-encoding"))
    if encoding is not None:
        tool = compressor(encoding)
        reply.body = tool.compress(reply.body) + tool.flush()
        reply.headers.append((b"content-encoding", encoding.encode()))
    return reply


def as_headers(given: Mapping[str, Any]) -> Headers:
    return [(name.lower().encode("latin-1"), str(value).encode("latin-1")) for name, value in given.items()]
